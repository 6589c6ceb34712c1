//! Rules of this project that a program can check: dependencies between folders, sizes of files and
//! functions, script headers, scenario ids, and names in the documentation.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/fragments.rs"]
mod fragments;
#[path = "tidy/handlers.rs"]
mod handlers;
#[path = "tidy/logs.rs"]
mod logs;
#[path = "tidy/pages.rs"]
mod pages;
#[path = "tidy/scripts.rs"]
mod scripts;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Above this, the first line of a file says why its one idea needs the length.
const LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns all files below `folder` with this extension, and their text; without those that npm
/// installs.
fn files(folder: &str, ending: &str) -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.extend(Some(path).filter(|path| !path.ends_with("node_modules")));
            } else if path.extension().is_some_and(|extension| extension == ending) {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    found.sort();
    found
}

/// Returns the code of the program: the server and its crates.
fn sources() -> Vec<(PathBuf, String)> {
    ["src", "crates"].into_iter().flat_map(|folder| files(folder, "rs")).collect()
}

/// Returns the code of a file: no comments, no text after `#[cfg(test)]`.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Returns the first path segments of a group of imports: `a::{b, c}, d}` gives ` crate::a::
/// crate::d`.
fn names_of(group: &str) -> String {
    let (mut depth, mut names) = (0, " crate::".to_owned());
    for letter in group.chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names += " crate::",
            letter if depth == 0 && !letter.is_whitespace() => names.push(letter),
            _ => {}
        }
    }
    names
}

/// A file is one idea. A longer one starts with the reason: `//! … lines: …`.
#[test]
fn files_are_short() {
    for (path, text) in
        ["src", "crates", "clients", "tests"].iter().flat_map(|folder| files(folder, "rs"))
    {
        let lines = text.lines().count();
        let first = text.lines().next().unwrap_or_default();
        let has_reason = first.starts_with("//!") && first.contains(" lines: ");
        let place = path.display();
        assert!(lines <= LINES_MAX || has_reason, "{place}: {lines} lines, at most {LINES_MAX}");
    }
}

/// The trees whose modules are `x.rs` beside the folder `x/`, without `mod.rs`.
const WITHOUT_MOD_RS: [&str; 3] = ["crates", "src", "tests"];

#[test]
fn modules_have_one_style() {
    for folder in WITHOUT_MOD_RS {
        for (path, _) in files(folder, "rs") {
            // Cargo would build `tests/support.rs` as a test of its own.
            let is_allowed = path == Path::new("tests/support/mod.rs");
            let file = path.display();
            assert!(is_allowed || !path.ends_with("mod.rs"), "{file}: rename it after its folder");
        }
    }
}

/// A file that no module declares is never compiled, and its tests never run.
#[test]
fn test_files_are_declared() {
    let files = files("tests", "rs");
    for (path, _) in &files {
        let (name, folder) = (path.file_stem().unwrap().to_str().unwrap(), path.parent().unwrap());
        if ["main", "mod"].contains(&name) || folder == Path::new("tests") {
            continue;
        }
        let parents = [folder.join("mod.rs"), folder.join("main.rs"), folder.with_extension("rs")];
        let declares = |text: &str| {
            let mut lines = text.lines().map(str::trim_start);
            lines.any(|line| line.ends_with(&format!("mod {name};")) && !line.starts_with("//"))
        };
        let is_declared = files.iter().any(|(file, text)| parents.contains(file) && declares(text));
        assert!(is_declared, "{}: no module declares this file", path.display());
    }
}

#[test]
fn functions_are_short() {
    for (path, text) in ["src", "crates", "clients"].iter().flat_map(|folder| files(folder, "rs")) {
        let lines: Vec<&str> = text.lines().collect();
        for (start, line) in lines.iter().enumerate() {
            let code = line.trim_start();
            let is_function = code.starts_with("fn ") || code.contains(" fn ");
            if !is_function || code.starts_with("//") || code.ends_with([';', '}', ',']) {
                continue;
            }
            // rustfmt puts the end of a function below its start.
            let end = format!("{}}}", &line[..line.len() - code.len()]);
            let length = lines[start..].iter().position(|line| *line == end).unwrap_or_default();
            let place = format!("{}:{}", path.display(), start + 1);
            assert!(length < FUNCTION_LINES_MAX, "{place}: {} lines", length + 1);
        }
    }
}

/// Whether a file holds tests only.
fn is_test(path: &Path) -> bool {
    path.with_extension("").iter().any(|name| name == "tests")
}

/// Returns the code of a file, and after it the separate paths of each `use crate::{…}`.
fn code_with_imports(text: &str) -> String {
    let code = code(text);
    let groups: String = code.split("use crate::{").skip(1).map(names_of).collect();
    code + &groups
}

#[test]
fn dependencies_are_named_in_their_own_places() {
    // A word, and the only folders and files that may contain it.
    let places: [(&str, &[&str]); 8] = [
        ("tonic::", &["src/grpc", "src/server", "crates/console", "crates/http"]),
        ("tonic_", &["src/grpc", "src/server", "crates/http"]),
        (
            "pb::",
            &["src/grpc", "src/server/health.rs", "crates/console", "crates/cli", "crates/fleet"],
        ),
        ("tollgate_client", &["crates/console", "crates/cli", "crates/fleet"]),
        ("redis::", &["crates/engine", "src/config", "src/cli/serve.rs", "src/cli/command.rs"]),
        ("redb", &["crates/engine/src/embedded/store"]),
        ("opentelemetry", &["src/server/otlp"]),
        ("unsafe", &["src/server/allocator.rs"]),
    ];
    for (path, text) in sources() {
        let code = if is_test(&path) { code(&text) } else { code_with_imports(&text) };
        for (word, places) in places {
            let allowed = places
                .iter()
                .any(|place| path.starts_with(place) || path.with_extension("").starts_with(place));
            assert!(allowed || !code.contains(word), "{} names {word}", path.display());
        }
    }
}

/// The folders of `src`, each with the folders whose modules it may name. A folder may only name
/// folders above it in this list, so no two depend on each other.
const FOLDERS: [(&str, &[&str]); 5] = [
    ("grpc", &[]),
    ("server", &["grpc"]),
    ("config", &["grpc", "server"]),
    ("fuzz", &["grpc", "config"]),
    ("cli", &["grpc", "server", "config"]),
];

/// The crates of `crates`, each with the crates that it may depend on.
const CRATES: [(&str, &[&str]); 8] = [
    ("core", &[]),
    ("telemetry", &[]),
    // Carries the calls of any program.
    ("http", &["telemetry"]),
    ("engine", &["core", "telemetry"]),
    ("status", &["core", "engine", "telemetry"]),
    // Calls the services of its server in the process, by the stubs of the client.
    ("console", &["client", "core", "engine", "status", "telemetry"]),
    // Clients of a server; the rules provide their bounds and clocks.
    ("cli", &["client", "core", "telemetry"]),
    ("fleet", &["cli", "client", "core", "telemetry"]),
];

/// What Cargo would build although a crate has no use for it.
const FOREIGN: [(&str, &[&str]); 7] = [
    ("core", &["tokio", "tonic", "hyper", "redis", "redb", "tracing"]),
    ("telemetry", &["tokio", "tonic", "hyper", "redis", "redb"]),
    ("http", &["redis", "redb"]),
    ("engine", &["tonic", "hyper"]),
    ("status", &["tonic"]),
    ("cli", &["redis", "redb"]),
    ("fleet", &["redis", "redb"]),
];

/// Returns the crates that Cargo builds for a crate of `crates`, itself included, without those of
/// its tests.
fn tree(name: &str) -> BTreeSet<String> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--edges", "normal", "--prefix", "none"])
        .args(["--format", "{p}", "--package", &format!("tollgate-{name}")])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn crates_depend_on_what_they_may() {
    let listed: BTreeSet<&str> = CRATES.iter().map(|(name, _)| *name).collect();
    let found = fs::read_dir(root().join("crates")).unwrap();
    let found: BTreeSet<String> =
        found.map(|folder| folder.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(listed, found.iter().map(String::as_str).collect());
    for (name, named) in CRATES {
        let tree = tree(name);
        let ours = tree.iter().filter_map(|other| other.strip_prefix("tollgate-"));
        let ours: BTreeSet<&str> = ours.filter(|other| *other != name).collect();
        assert_eq!(ours, named.iter().copied().collect(), "the dependencies of {name}");
        for (_, foreign) in FOREIGN.iter().filter(|(of, _)| *of == name) {
            for other in *foreign {
                assert!(!tree.contains(*other), "{name} depends on {other}");
            }
        }
    }
}

#[test]
fn dependencies_point_one_way() {
    for (number, (folder, named)) in FOLDERS.iter().enumerate() {
        let before: BTreeSet<&str> = FOLDERS[..number].iter().map(|(name, _)| *name).collect();
        assert!(named.iter().all(|name| before.contains(name)), "{folder} names a later folder");
    }
    for (path, text) in files("src", "rs") {
        // Tests may use the whole library.
        if is_test(&path) {
            continue;
        }
        let top = path.iter().nth(1).unwrap().to_str().unwrap().trim_end_matches(".rs");
        let Some((_, named)) = FOLDERS.iter().find(|(folder, _)| *folder == top) else {
            assert!(["main", "lib"].contains(&top), "{}: not a folder of the list", path.display());
            continue;
        };
        let code = code_with_imports(&text);
        for (other, _) in FOLDERS.iter().filter(|(other, _)| *other != top) {
            let names = ["::", ",", ";", "}"].iter().any(|end| {
                let path = format!("crate::{other}{end}");
                code.contains(&path)
            });
            assert!(!names || named.contains(other), "{} names {other}", path.display());
        }
    }
}

#[test]
fn capabilities_know_neither_an_engine_nor_each_other() {
    let capabilities = ["admission", "envoy", "lock", "rate", "sequence", "stock"];
    for capability in capabilities {
        let own = |path: &Path| path.with_extension("").starts_with(capability);
        let files = files("crates/core/src", "rs")
            .into_iter()
            .filter(|(path, _)| path.strip_prefix("crates/core/src").is_ok_and(own));
        for (path, text) in files {
            for word in ["engine", "async", "std::time"] {
                assert!(!code(&text).contains(word), "{} says {word}", path.display());
            }
            let named = code_with_imports(&text);
            for other in capabilities.iter().filter(|other| **other != capability) {
                // The rules of Envoy are limits of a rate.
                let is_allowed = (capability, *other) == ("envoy", "rate");
                let names = named.contains(&format!("crate::{other}::"));
                assert!(is_allowed || !names, "{} names {other}", path.display());
            }
        }
    }
}

#[test]
fn every_proto_element_has_a_comment() {
    for (path, text) in files("proto", "proto") {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (index, line) in lines.iter().enumerate() {
            let element =
                ["service ", "rpc ", "message ", "enum "].iter().any(|word| line.starts_with(word))
                    || (line.contains(" = ") && line.ends_with(';') && !line.starts_with("//"));
            let is_header = line.starts_with("syntax") || line.starts_with("option ");
            if element && !is_header {
                let above = lines[index - 1];
                assert!(above.starts_with("//"), "{}:{}: {line}", path.display(), index + 1);
            }
        }
    }
}
