//! Handlers use few methods of the engine: they submit decisions, list and watch.

use std::{collections::BTreeSet, path::Path};

use super::{code, files, is_test};

/// The names of the engine that `src/grpc` may import, each with the folder or file that may import
/// it.
const NAMES: [(&str, &str); 12] = [
    ("Answered", "src/grpc"),
    ("CountedVerb", "src/grpc/verbs.rs"),
    ("Engine", "src/grpc"),
    ("NameCursor", "src/grpc"),
    ("NameQuery", "src/grpc"),
    ("PartitionCursor", "src/grpc"),
    ("ReadEntries", "src/grpc"),
    ("Unreceived", "src/grpc"),
    ("feed", "src/grpc"),
    // The limits of namespaces, and the numbers of the serving threads.
    ("budget", "src/grpc/quota.rs"),
    ("budget", "src/grpc/program.rs"),
    ("worker", "src/grpc/program.rs"),
];
/// The methods of the engine that `src/grpc` may call, each with the folder or file that may call
/// it.
const METHODS: [(&str, &str); 11] = [
    ("submit", "src/grpc"),
    ("submit_waiting", "src/grpc"),
    ("submit_merged", "src/grpc/sequence"),
    ("submit_all", "src/grpc"),
    ("read_all", "src/grpc"),
    ("list", "src/grpc/admission"),
    ("list_names", "src/grpc"),
    ("watch", "src/grpc"),
    ("clone", "src/grpc"),
    // The limits of namespaces: counted before the message of a call is read.
    ("hub", "src/grpc/quota.rs"),
    // A counter that GetSequence shows.
    ("script_calls", "src/grpc/sequence"),
];

/// Returns the first name of each path after `start`: `start{a, b::c}` gives `a` and `b`.
fn names_after<'c>(code: &'c str, start: &str) -> Vec<&'c str> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let first = |path: &'c str| path.split(|letter| !is_word(letter)).next().unwrap();
    let mut names = Vec::new();
    for (at, _) in code.match_indices(start) {
        if code[..at].ends_with(is_word) {
            continue;
        }
        let rest = &code[at + start.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            names.push(first(rest));
            continue;
        };
        let mut depth = 0;
        let end = group.find(|letter| {
            depth += i32::from(letter == '{') - i32::from(letter == '}');
            depth < 0
        });
        let mut depth = 0;
        let paths = group[..end.unwrap()].split(|letter| {
            depth += i32::from(letter == '{') - i32::from(letter == '}');
            letter == ',' && depth == 0
        });
        names.extend(paths.map(first).filter(|name| !name.is_empty()));
    }
    names
}

#[test]
fn handlers_know_only_the_entries_of_the_engine() {
    let mut called = Vec::new();
    for (path, text) in files("src/grpc", "rs") {
        // The fuzz targets create an engine.
        if is_test(&path) || path == Path::new("src/grpc/fuzz.rs") {
            continue;
        }
        let code: String = code(&text).split_whitespace().collect();
        for name in names_after(&code, "tollgate_engine::") {
            let is_allowed =
                |(known, place): &(&str, &str)| *known == name && path.starts_with(place);
            let file = path.display();
            assert!(NAMES.iter().any(is_allowed), "{file} imports {name} of the engine");
        }
        for start in ["engine.", "engine()."] {
            for method in names_after(&code, start) {
                let module = path.with_extension("");
                let is_allowed = |(name, place): &(&str, &str)| {
                    *name == method && (path.starts_with(place) || module.starts_with(place))
                };
                let place = path.display();
                assert!(METHODS.iter().any(is_allowed), "{place} calls {method} of the engine");
                called.push(method.to_owned());
            }
        }
    }
    for (method, _) in METHODS {
        assert!(called.iter().any(|name| name == method), "no handler calls {method}: remove it");
    }
}

/// The outcomes of a verb whose RPC lacks the option `counted` would be counted but never shown.
#[test]
fn every_verb_with_outcomes_has_a_counted_rpc() {
    let mut counted = BTreeSet::new();
    for (_, text) in super::files("proto/tollgate", "proto") {
        for rpc in text.split("\n  rpc ").skip(1) {
            let (name, rest) = rpc.split_once('(').unwrap();
            if rest.split("\n  }\n").next().unwrap().contains("option (counted) = true;") {
                counted.insert(name.to_owned());
            }
        }
    }
    let mut shown = BTreeSet::new();
    for (path, text) in super::sources() {
        for after in text.split("const PROPERTIES: Properties<").skip(1) {
            let (verb, after) = after.split_once('>').unwrap();
            if after.split("\n\n").next().unwrap().contains("outcomes:") {
                // A batch counts its items. `BanKey` and `UnbanKey` decide Ban and Unban.
                let names = [verb.to_owned(), format!("{verb}s"), verb.replace("Key", "")];
                let rpcs: Vec<_> =
                    names.into_iter().filter(|name| counted.contains(name)).collect();
                assert!(!rpcs.is_empty(), "{}: no counted RPC of {verb}", path.display());
                shown.extend(rpcs);
            }
        }
    }
    assert_eq!(counted, shown);
}
