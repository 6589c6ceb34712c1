//! Includes, names and constants of the scripts and of their fragments.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_core::script;

use crate::{
    files,
    scripts::{include, lua},
};

#[test]
fn the_program_has_the_scripts_of_the_folder() {
    let built = include::build(&lua()).unwrap();
    assert_eq!(built.len(), script::ALL.len());
    for (script, built) in script::ALL.iter().zip(&built) {
        let (is, expected) = ((script.name, script.keys), (&*built.name, built.keys));
        assert_eq!(is, expected);
        let row = (script.argv, script.gives_tokens, script.checks_store);
        assert_eq!(row, (built.argv, built.gives_tokens, built.checks_store));
        assert_eq!(script.shared().unwrap_or_default(), built.shared);
        assert_eq!((script.repeated, script.plain), (built.repeated, built.plain));
        assert!(script.text(None).ends_with(&built.text), "{}", script.name);
    }
}

#[test]
fn wrong_includes_and_headers_fail_the_build() {
    let build = |changes: &[(&str, &str)]| {
        let mut files = lua();
        for (name, text) in changes {
            files.insert((*name).to_owned(), (*text).to_owned());
        }
        include::build(&files).err()
    };
    assert_eq!(build(&[]), None);
    for (changes, expected) in [
        (&[("stock/x", "-- @include none")][..], "lua/stock/x.lua includes lua/lib/none.lua"),
        (
            &[("lib/x", "-- @include y"), ("lib/y", "-- @include x"), ("stock/x", "-- @include x")],
            "lib/x → lib/y → lib/x",
        ),
        (&[("stock/x", "-- A.\n\n-- @include stock")], "lua/stock/x.lua: an @include"),
        (&[("stock/x", "-- keys[1] a\n-- keys[3] b")], "lua/stock/x.lua: expected keys[2]"),
        (&[("stock/x", "-- Shared keys[1..]")], "lua/stock/x.lua: expected `Shared"),
        (&[("stock/x", "-- keys[1] a\n-- Shared keys[1..2]")], "lua/stock/x.lua: shares more"),
    ] {
        let error = build(changes).unwrap_or_default();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn constants_become_their_values() {
    let replace = include::constants::replace;
    for (text, expected) in [
        ("local A = 1\nlocal b = A\n", "local b = 1\n"),
        ("local A, B = 2 * 3, 'x, \\'y' -- A\nf(A, B)\n", "f((2 * 3), 'x, \\'y')\n"),
        ("local A = 1\nf(t.A, 'A', A_B) -- A\n", "f(t.A, 'A', A_B) -- A\n"),
        ("local A = { 1 }\nf(A)\n", "local A = { 1 }\nf(A)\n"),
        ("local A = B * 2\nlocal a = 1\n", "local A = B * 2\nlocal a = 1\n"),
        ("  local A = 1\nf(A)\n", "  local A = 1\nf(A)\n"),
    ] {
        assert_eq!(replace(text).unwrap(), expected);
    }
    assert!(replace("local A = 1\nlocal A = 2").unwrap_err().contains("the constant A"));
}

/// Fragments that are part of every script, and the names that any file may use.
const COMMON: [&str; 5] = ["batch", "clock", include::PRELUDE, "rows", "sharing"];

/// Returns the words of a file's code: no comments, no strings, no fields (`task.state`).
fn words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for line in text.lines() {
        let code = line.split("--").next().unwrap();
        // Every second part is in quotes.
        for part in code.split('\'').step_by(2) {
            let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let mut before = ' ';
            for word in part.split_inclusive(|letter| !is_word(letter)) {
                let name = word.trim_end_matches(|letter| !is_word(letter));
                if !name.is_empty() && before != '.' {
                    words.insert(name.to_owned());
                }
                before = word.chars().last().unwrap();
            }
        }
    }
    words
}

/// Returns the names that a file defines outside functions.
fn definitions(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("local "));
    let names = lines.flat_map(|line| match line.strip_prefix("function ") {
        Some(function) => function.split('(').next().unwrap().split(','),
        None => line.split('=').next().unwrap().split(','),
    });
    names.map(str::trim).collect()
}

#[test]
fn names_begin_with_their_fragment() {
    let files = lua();
    let fragments =
        files.iter().filter_map(|(name, text)| Some((name.strip_prefix("lib/")?, text)));
    let mut owners = BTreeMap::new();
    for (fragment, text) in fragments.filter(|(fragment, _)| !COMMON.contains(fragment)) {
        for name in definitions(text) {
            let small = name.to_lowercase();
            let rest = small.strip_prefix(fragment);
            let belongs = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
            assert!(belongs, "lua/lib/{fragment}.lua defines {name}");
            assert_eq!(owners.insert(name, fragment), None, "{name} is defined twice");
        }
    }
    for (file, text) in &files {
        let own = file.strip_prefix("lib/");
        let used: BTreeSet<&str> =
            words(text).iter().filter_map(|word| owners.get(&**word).copied()).collect();
        let used: Vec<&str> = used.into_iter().filter(|fragment| Some(*fragment) != own).collect();
        assert_eq!(include::includes(text), used, "the includes of lua/{file}.lua");
        for name in definitions(text).iter().filter(|_| own.is_none()) {
            assert!(!owners.contains_key(name), "lua/{file}.lua defines {name} of a fragment");
        }
    }
}

/// Returns the numbers of a list such as `A = 0, B = 1`, by name.
fn numbers(names: &str, values: &str) -> BTreeMap<String, u64> {
    let pairs = names.split(',').zip(values.split(','));
    let numbers = pairs.filter_map(|(name, value)| {
        let name = name.trim();
        let is_constant = name.chars().any(char::is_uppercase) && name == name.to_uppercase();
        Some((name.to_owned(), value.trim().parse().ok().filter(|_| is_constant)?))
    });
    numbers.collect()
}

/// Returns the number constants of a script or fragment, by name.
fn constants(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("local ")?.split_once(" = "));
    lines.flat_map(|(names, values)| numbers(names, values)).collect()
}

/// Returns the status numbers that the Rust files of a folder name in `statuses!`.
fn statuses(folder: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for (_, text) in files(folder, "rs") {
        for block in text.split("\nstatuses! {").skip(1) {
            for pair in block.split('}').next().unwrap().split(',') {
                let (name, number) = pair.split_once('=').unwrap_or_default();
                found.extend(numbers(name, number));
            }
        }
    }
    found
}

#[test]
fn status_numbers_have_the_same_names_in_rust() {
    let files = lua();
    let of = |folder: &str| -> BTreeMap<String, u64> {
        let files = files.iter().filter(|(name, _)| name.starts_with(folder));
        files.flat_map(|(_, text)| constants(text)).collect()
    };
    let shared = of("lib/");
    assert_eq!(shared["OK"], 0);
    for (folder, rust) in [
        ("admission/", "crates/core/src/admission"),
        ("index/", "crates/engine/src/redis"),
        ("lock/", "crates/core/src/lock"),
        ("rate/", "crates/core/src/rate"),
        ("sequence/", "crates/core/src/sequence"),
        ("stock/", "crates/core/src/stock"),
    ] {
        let (statuses, scripts) = (statuses(rust), of(folder));
        for (name, number) in &statuses {
            let in_lua = scripts.get(name).or(shared.get(name));
            assert_eq!(in_lua, Some(number), "{name} of {rust}, in lua/{folder} or lua/lib/");
        }
        for (file, text) in files.iter().filter(|(file, _)| file.starts_with(folder)) {
            let verb = file.strip_prefix(folder).unwrap().to_uppercase() + "_";
            for name in constants(text).keys().filter(|name| name.starts_with(&verb)) {
                assert!(statuses.contains_key(name), "{rust} does not name {name}");
            }
        }
    }
    for (name, text) in &files {
        for line in text.lines().map(str::trim) {
            let starts_reply = |start: &str| {
                let number = line.split(start).nth(1).and_then(|rest| rest.chars().next());
                number.is_some_and(|first| first.is_ascii_digit())
            };
            let is_literal = ["return { ", "reply = { "].into_iter().any(starts_reply);
            assert!(!is_literal, "lua/{name}.lua: a status without a name: {line}");
        }
    }
}

#[test]
fn kinds_of_events_agree_with_rust() {
    let rust = files("crates/core/src/admission", "rs");
    let rust = rust.iter().find(|(path, _)| path.ends_with("event.rs")).unwrap();
    let list = rust.1.split_once("pub enum EventKind {").unwrap().1.split_once('}').unwrap().0;
    let kinds = list.lines().filter_map(|line| line.trim().trim_end_matches(',').split_once(" = "));
    let kinds: BTreeMap<String, String> = kinds
        .map(|(kind, number)| (format!("POOL_EVENT_{}", kind.to_uppercase()), number.to_owned()))
        .collect();
    let text = &lua()["lib/pool_event"];
    let lines =
        text.lines().filter_map(|line| line.strip_prefix("local POOL_EVENT_")?.split_once(" = "));
    let mut named = BTreeMap::new();
    for (names, numbers) in lines {
        for (name, number) in format!("POOL_EVENT_{names}").split(", ").zip(numbers.split(", ")) {
            named.insert(name.to_owned(), number.trim_matches('\'').to_owned());
        }
    }
    assert_eq!(named, kinds);
}
