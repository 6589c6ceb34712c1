//! Replaces the constants of a script by their values.
//!
//! Redis runs the whole text in each EVALSHA. A local that functions use costs time in each call,
//! even if none of these functions is called; a number in the code costs none.

use std::collections::BTreeMap;

/// Returns the text without its definitions of constants, and with their values in the place of
/// their names. Fails if a name is defined twice.
///
/// A definition is a line such as `local A, B = 2 * 1000, 'b'` outside functions: names in
/// capitals, and as many numbers, products of numbers, or strings.
pub(crate) fn replace(text: &str) -> Result<String, String> {
    let (mut values, mut lines) = (BTreeMap::new(), Vec::new());
    for line in text.lines() {
        let Some(constants) = definition(line) else {
            lines.push(line);
            continue;
        };
        for (name, value) in constants {
            if values.insert(name, value).is_some() {
                return Err(format!("the constant {name} is defined twice"));
            }
        }
    }
    Ok(lines.into_iter().map(|line| with_values(line, &values)).collect())
}

/// Returns the names and values of a line that defines constants.
fn definition(line: &str) -> Option<Vec<(&str, String)>> {
    let (names, values) = line.strip_prefix("local ")?.split_once(" = ")?;
    let parts: Vec<&str> =
        parts(values).into_iter().take_while(|part| !part.starts_with("--")).collect();
    let values: Option<Vec<String>> = parts.split(|part| *part == ",").map(constant).collect();
    let (names, values): (Vec<&str>, _) = (names.split(", ").collect(), values?);
    let is_definition = names.len() == values.len() && names.iter().all(|name| is_constant(name));
    is_definition.then(|| names.into_iter().zip(values).collect())
}

fn is_constant(name: &str) -> bool {
    let is_capital = |letter: char| letter.is_ascii_uppercase();
    name.starts_with(is_capital) && !name.contains(|letter: char| letter.is_ascii_lowercase())
}

/// Returns the value in the form that an expression can contain; `None` if it is not constant.
fn constant(parts: &[&str]) -> Option<String> {
    let is_number = |part: &str| part.starts_with(|first: char| first.is_ascii_digit());
    let value = parts.concat().trim().to_owned();
    let mut parts = parts.iter().filter(|part| **part != " ");
    match (parts.clone().count(), parts.clone().next()?) {
        (1, part) if part.starts_with('\'') || is_number(part) => Some(value),
        (1, _) => None,
        _ => parts
            .all(|part| is_number(part) || ["*", "^"].contains(part))
            .then(|| format!("({value})")),
    }
}

fn with_values(line: &str, values: &BTreeMap<&str, String>) -> String {
    let (mut code, mut before) = (String::with_capacity(line.len() + 1), "");
    for part in parts(line) {
        match values.get(part) {
            // After a dot it is the name of a field.
            Some(value) if before != "." => code += value,
            _ => code += part,
        }
        before = part;
    }
    code.push('\n');
    code
}

/// Returns a line in parts: words and numbers, strings, a comment, and other letters one by one.
fn parts(line: &str) -> Vec<&str> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let (mut parts, mut rest) = (Vec::new(), line);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' => string(rest),
            '-' if rest.starts_with("--") => rest.len(),
            first if is_word(first) => rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()),
            first => first.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        parts.push(part);
        rest = after;
    }
    parts
}

/// Returns the length of the string at the start of the text, with its quotes.
fn string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        if letter == '\'' && !is_escaped {
            return at + 1;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    text.len()
}
