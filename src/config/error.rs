//! Configuration errors: reason, file, line and key.

use std::{fmt, ops::Range, path::Path};

use toml::de::{DeTable, DeValue};

use tollgate_status::reload::InvalidConfig;

/// A configuration error: the key, its value and the expected value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(Box<InvalidConfig>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for ConfigError {}

impl From<ConfigError> for InvalidConfig {
    fn from(error: ConfigError) -> InvalidConfig {
        *error.0
    }
}

impl ConfigError {
    /// Creates an error whose reason begins with the key, such as `tls.key: expected a file`.
    pub(super) fn new(reason: String) -> ConfigError {
        let key = key_of(&reason).to_owned();
        ConfigError(Box::new(InvalidConfig { message: reason, key, ..InvalidConfig::default() }))
    }

    /// Creates the error for a file that cannot be read.
    pub(super) fn unread(path: &Path, reason: &dyn fmt::Display) -> ConfigError {
        let file = path.display().to_string();
        let message = format!("{file}: {reason}");
        ConfigError(Box::new(InvalidConfig { message, file, ..InvalidConfig::default() }))
    }

    /// Creates an error from one of the parser, at this position in a text.
    pub(super) fn unparsed(
        path: &Path,
        text: &str,
        position: Option<Range<usize>>,
        reason: &str,
    ) -> ConfigError {
        let file = path.display().to_string();
        let start = position.map(|position| position.start);
        let line = start.map_or(0, |start| line_at(text, start));
        let place = start.map(|start| format!("line {line}, column {}: ", column_at(text, start)));
        let key = start
            .and_then(|start| key_at(text, start).or_else(|| bare_key(text, line)))
            .unwrap_or_default();
        let about = if key.is_empty() { String::new() } else { format!("{key}: ") };
        let message = format!("{file}: {}{about}{reason}", place.unwrap_or_default());
        ConfigError(Box::new(InvalidConfig { message, file, line, key }))
    }

    /// Adds the file and the line of the key to the error. An error about a key that the file does
    /// not contain stays unchanged unless `is_of_file`.
    #[must_use]
    pub(super) fn within(mut self, path: &Path, text: &str, is_of_file: bool) -> ConfigError {
        if !self.0.file.is_empty() {
            return self;
        }
        let line = line_of(text, &self.0.key);
        if line.is_some() || is_of_file {
            let file = path.display().to_string();
            let place = line.map(|line| format!(" (line {line})")).unwrap_or_default();
            self.0.message = format!("{file}: {}{place}", self.0.message);
            (self.0.file, self.0.line) = (file, line.unwrap_or_default());
        }
        self
    }
}

/// Returns the key at the start of a reason; empty if there is none.
fn key_of(reason: &str) -> &str {
    let is_key = |letter: char| letter.is_ascii_alphanumeric() || "_.[]".contains(letter);
    let end = reason.find(|letter: char| !is_key(letter)).unwrap_or(reason.len());
    match reason[end..].chars().next() {
        Some(':' | ',') => &reason[..end],
        Some(' ') if reason[end..].starts_with(" = ") => &reason[..end],
        _ => "",
    }
}

/// Returns the line number of a position, from 1.
fn line_at(text: &str, position: usize) -> usize {
    1 + text.bytes().take(position).filter(|byte| *byte == b'\n').count()
}

/// Returns the column of a position in its line, in characters from 1.
fn column_at(text: &str, position: usize) -> usize {
    let before = text.get(..position).unwrap_or(text);
    1 + before.chars().rev().take_while(|letter| *letter != '\n').count()
}

/// Returns the line of a key such as `pool[0].capacity`, or of the entry that lacks it.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let (mut table, mut found) = (document.get_ref(), None);
    for segment in key.split('.') {
        let (name, indices) = segment.split_once('[').unwrap_or((segment, ""));
        let Some((key, mut value)) = table.iter().find(|(key, _)| key.get_ref() == name) else {
            break;
        };
        found = Some(key.span().start);
        for index in indices.split(['[', ']']).filter_map(|index| index.parse::<usize>().ok()) {
            value = value.get_ref().as_array()?.get(index)?;
            found = Some(value.span().start);
        }
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    found.map(|position| line_at(text, position))
}

/// Returns the key at a position in a text.
fn key_at(text: &str, position: usize) -> Option<String> {
    let document = DeTable::parse(text).ok()?;
    let path = path_in(document.get_ref(), position, "");
    (!path.is_empty()).then_some(path)
}

/// Returns the key of a line that cannot be parsed, if it looks like a configuration key: the file
/// may be something else entirely.
fn bare_key(text: &str, line: usize) -> Option<String> {
    let (key, _) = text.lines().nth(line.checked_sub(1)?)?.split_once('=')?;
    let key = key.trim();
    let is_key = key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    (is_key && (1..=32).contains(&key.len())).then(|| key.to_owned())
}

/// Returns the path from a table to the value or key at a position, which is inside the last
/// section that begins before it.
fn path_in(table: &DeTable<'_>, position: usize, path: &str) -> String {
    let start = |(key, value): &(&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let key: &toml::Spanned<std::borrow::Cow<'_, str>> = key;
        key.span().start.min(value.span().start)
    };
    let before = table.iter().filter(|entry| start(entry) <= position).max_by_key(start);
    let Some((key, value)) = before else { return path.to_owned() };
    let dot = if path.is_empty() { "" } else { "." };
    inside(value.get_ref(), position, format!("{path}{dot}{}", key.get_ref()))
}

fn inside(value: &DeValue<'_>, position: usize, path: String) -> String {
    match value {
        DeValue::Table(table) => path_in(table, position, &path),
        DeValue::Array(array) => {
            let before = array.iter().enumerate().filter(|(_, it)| it.span().start <= position);
            match before.max_by_key(|(_, it)| it.span().start) {
                Some((index, it)) => inside(it.get_ref(), position, format!("{path}[{index}]")),
                None => path,
            }
        }
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "listen = \"127.0.0.1:1\"\n\n[tls]\ncert = \"c\"\n\n[[pool]]\nmatch = \"a\"\n\
                        [[pool]]\nmatch = \"b\"\ncapacity = 5\n[[policy]]\nname = \"p\"\n\
                        [[policy.limit]]\nwindow = \"1s\"\n";

    #[test]
    fn the_line_of_a_key_is_found() {
        for (key, line) in [
            ("listen", Some(1)),
            ("tls.cert", Some(4)),
            ("tls.key", Some(3)),
            ("pool[0].match", Some(7)),
            ("pool[1].capacity", Some(10)),
            ("policy[0].limit[0].window", Some(14)),
            ("engine", None),
            ("", None),
        ] {
            assert_eq!(line_of(TEXT, key), line, "{key}");
        }
    }

    #[test]
    fn the_key_at_a_position_is_found() {
        for (sign, key) in [
            ("127", "listen"),
            ("\"c\"", "tls.cert"),
            ("\"b\"", "pool[1].match"),
            ("= 5", "pool[1].capacity"),
            ("1s", "policy[0].limit[0].window"),
        ] {
            let position = TEXT.find(sign).expect(sign);
            assert_eq!(key_at(TEXT, position).as_deref(), Some(key), "{sign}");
        }
    }

    #[test]
    fn reasons_begin_with_their_key() {
        for (reason, key) in [
            ("pool[0].match: not a glob", "pool[0].match"),
            ("jwt.jwks = \"x\": failed", "jwt.jwks"),
            ("redis.tls_cert, redis.tls_key: expected both", "redis.tls_cert"),
            ("no [[caller]] is left", ""),
            ("", ""),
        ] {
            assert_eq!(key_of(reason), key, "{reason}");
        }
    }
}
