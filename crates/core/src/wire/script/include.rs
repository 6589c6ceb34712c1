//! Builds the text of each script from `lua/`; `build.rs` and `tests/tidy.rs` compile this file.
//!
//! A file names the fragments whose functions it calls, by lines `-- @include pool task` in its first
//! comment. The text of a script contains each fragment once, after the fragments that it includes.
//! Constants are replaced by their values.

pub(crate) mod constants;

use std::collections::BTreeMap;

/// The text of each file below `lua/`, by its path without `.lua`.
pub(crate) type Files = BTreeMap<String, String>;

/// A script with everything that it includes.
#[derive(Debug)]
pub(crate) struct Built {
    /// `capability/verb`.
    pub(crate) name: String,
    /// The number of KEYS of one decision, or of each repetition.
    pub(crate) keys: usize,
    /// The number of ARGV of one decision, or of each repetition.
    pub(crate) argv: usize,
    /// Whether a decision repeats its KEYS and ARGV, and is alone in its call.
    pub(crate) repeated: bool,
    /// The number of leading KEYS and ARGV that a run of items shares; (0, 0) without sharing.
    pub(crate) shared: (usize, usize),
    /// The number of numbers in each reply of a plain script; 0 for any other.
    pub(crate) plain: usize,
    /// Whether the script issues fencing tokens.
    pub(crate) gives_tokens: bool,
    /// Whether the script compares the marker of the store.
    pub(crate) checks_store: bool,
    /// The text without the clock.
    pub(crate) text: String,
}

/// Aliases of library functions, at the start of every script.
pub(crate) const PRELUDE: &str = "prelude";
/// The start of a header line that names fragments.
const INCLUDE: &str = "@include ";
/// The start of the header line of a plain script, before the number of numbers in a reply.
const PLAIN: &str = "Plain ";
/// The fragment of the scripts that issue fencing tokens.
const TOKENS: &str = "fencing";
/// The fragment of the scripts that compare the marker of the store.
const STORE: &str = "store";

/// Builds all scripts. Fails if a file includes an unknown fragment or includes outside its header,
/// if fragments include each other, or if a header does not number its keys and arguments from 1.
pub(crate) fn build(files: &Files) -> Result<Vec<Built>, String> {
    let scripts = files.keys().filter(|name| !name.starts_with("lib/"));
    scripts.map(|name| script(files, name)).collect()
}

fn script(files: &Files, name: &str) -> Result<Built, String> {
    let header = header(&files[name]);
    let (keys, argv) = (count(name, &header, "keys")?, count(name, &header, "argv")?);
    let shared = shared(name, &header)?;
    let plain = plain(name, &header)?;
    if shared.is_some_and(|(shared_keys, shared_argv)| shared_keys > keys || shared_argv > argv) {
        return Err(format!("lua/{name}.lua: shares more keys or arguments than it has"));
    }
    let repeated = header.iter().any(|line| line.starts_with("Repeated: "));
    if repeated && shared.is_some() {
        return Err(format!("lua/{name}.lua: an item that repeats its keys shares none"));
    }
    let driver = match shared {
        _ if plain > 0 => "lib/rows",
        Some(_) => "lib/sharing",
        None => "lib/batch",
    };
    let mut order = Vec::new();
    for root in [&format!("lib/{PRELUDE}"), name] {
        visit(files, root, &mut Vec::new(), &mut order)?;
    }
    let of_rule = order.len();
    visit(files, driver, &mut Vec::new(), &mut order)?;
    let gives_tokens = order.contains(&format!("lib/{TOKENS}"));
    let checks_store = order.contains(&format!("lib/{STORE}"));
    let mut parts: Vec<&str> = order.iter().map(|file| &*files[file]).collect();
    let sizes = if repeated {
        "local KEYS_PER_ITEM, ARGV_PER_ITEM = #KEYS, #ARGV\n".to_owned()
    } else {
        sizes(keys, argv, shared, plain > 0)
    };
    parts.insert(of_rule, &sizes);
    let text = constants::replace(&parts.join("\n"))
        .map_err(|error| format!("lua/{name}.lua and its fragments: {error}"))?;
    let shared = shared.unwrap_or_default();
    let name = name.to_owned();
    Ok(Built { name, keys, argv, repeated, shared, plain, gives_tokens, checks_store, text })
}

/// Appends the files that a file includes, and then the file, unless `order` has them. `path` leads
/// to the file, for the error message.
fn visit<'a>(
    files: &'a Files,
    file: &str,
    path: &mut Vec<&'a str>,
    order: &mut Vec<String>,
) -> Result<(), String> {
    let Some((file, text)) = files.get_key_value(file) else {
        let by = path.last().map_or("the build", |by| *by);
        return Err(format!("lua/{by}.lua includes lua/{file}.lua, which does not exist"));
    };
    if let Some(first) = path.iter().position(|before| before == file) {
        let circle: Vec<&str> = path[first..].iter().chain([&&**file]).copied().collect();
        return Err(format!("files below lua/ include each other: {}", circle.join(" → ")));
    }
    if order.contains(file) {
        return Ok(());
    }
    let lines = header(text).iter().filter(|line| line.starts_with(INCLUDE)).count();
    if lines != text.matches("@include").count() {
        return Err(format!("lua/{file}.lua: an @include outside the header"));
    }
    path.push(file);
    for included in includes(text) {
        visit(files, &format!("lib/{included}"), path, order)?;
    }
    path.pop();
    order.push(file.clone());
    Ok(())
}

/// Returns the fragments that a file includes.
pub(crate) fn includes(text: &str) -> Vec<&str> {
    let lines = header(text).into_iter().filter_map(|line| line.strip_prefix(INCLUDE));
    lines.flat_map(str::split_whitespace).collect()
}

/// Returns the lines of the first comment, without the `-- ` at their start.
pub(crate) fn header(text: &str) -> Vec<&str> {
    let lines = text.lines().map_while(|line| line.strip_prefix("--"));
    lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect()
}

/// Returns the number of keys or arguments that a header declares.
fn count(name: &str, header: &[&str], kind: &str) -> Result<usize, String> {
    let declared = header.iter().filter(|line| line.starts_with(&format!("{kind}[")));
    let mut number = 0;
    for line in declared {
        number += 1;
        if !line.starts_with(&format!("{kind}[{number}] ")) {
            return Err(format!("lua/{name}.lua: expected {kind}[{number}], found {line:?}"));
        }
    }
    Ok(number)
}

/// Returns the numbers of `Shared keys[1..n], argv[1..m]` or `Shared argv[1..m]`.
fn shared(name: &str, header: &[&str]) -> Result<Option<(usize, usize)>, String> {
    let Some(line) = header.iter().find(|line| line.starts_with("Shared ")) else {
        return Ok(None);
    };
    let number = |kind: &str| match line.split_once(&format!("{kind}[1..")) {
        None => Some(0),
        Some((_, rest)) => rest.split_once(']')?.0.parse().ok(),
    };
    match (number("keys"), number("argv")) {
        (Some(keys), Some(argv)) if keys + argv > 0 => Ok(Some((keys, argv))),
        _ => Err(format!("lua/{name}.lua: expected `Shared keys[1..n], argv[1..m]`: {line:?}")),
    }
}

/// Returns the number of `Plain n`; 0 without that line.
fn plain(name: &str, header: &[&str]) -> Result<usize, String> {
    match header.iter().find_map(|line| line.strip_prefix(PLAIN)) {
        None => Ok(0),
        Some(number) => match number.parse() {
            Ok(number @ 1..) => Ok(number),
            _ => Err(format!("lua/{name}.lua: expected `Plain` and a number: {number:?}")),
        },
    }
}

/// Returns the sizes of an item as Lua constants, for the loop that decides the items.
fn sizes(keys: usize, argv: usize, shared: Option<(usize, usize)>, is_plain: bool) -> String {
    if is_plain {
        let (shared_keys, shared_argv) = shared.unwrap_or_default();
        let keys = keys - shared_keys;
        return format!(
            "local SHARED_KEYS, SHARED_ARGV, ITEM_KEYS = {shared_keys}, {shared_argv}, {keys}\n"
        );
    }
    let Some((shared_keys, shared_argv)) = shared else {
        return format!("local KEYS_PER_ITEM, ARGV_PER_ITEM = {keys}, {argv}\n");
    };
    let (keys, argv) = (keys - shared_keys, argv - shared_argv);
    let parts = (1..=keys).map(|i| format!("KEYS[key + {i}]"));
    let parts: Vec<_> = parts.chain((1..=argv).map(|i| format!("ARGV[argument + {i}]"))).collect();
    format!(
        "local SHARED_KEYS, SHARED_ARGV = {shared_keys}, {shared_argv}\n\
         local ITEM_KEYS, ITEM_ARGV = {keys}, {argv}\n\
         local function item(key, argument)\n  return {}\nend\n",
        parts.join(", ")
    )
}
