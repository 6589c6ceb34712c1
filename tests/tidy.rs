//! Rules of this project that a program can check: walls, sizes, script headers, scenario ids, and
//! the files and functions that the documentation names.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/pages.rs"]
mod pages;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use tollgate::decision::script;

const LINES_MAX: usize = 400;
const SCRIPT_LINES_MAX: usize = 110;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below `folder` with this extension, and their text.
fn files(folder: &str, ending: &str) -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    found.sort();
    found
}

/// The code of a file: no comments, no text after `#[cfg(test)]`.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The first path segments of a group of imports: `a::{b, c}, d}` gives ` crate::a:: crate::d`.
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

#[test]
fn files_are_short() {
    for (folder, ending, most) in
        [("src", "rs", LINES_MAX), ("tests", "rs", LINES_MAX), ("lua", "lua", SCRIPT_LINES_MAX)]
    {
        for (path, text) in files(folder, ending) {
            let lines = text.lines().count();
            assert!(lines <= most, "{}: {lines} lines, at most {most}", path.display());
        }
    }
}

/// Whether a file holds tests only.
fn is_test(path: &Path) -> bool {
    path.with_extension("").iter().any(|name| name == "tests")
}

/// The code of a file, with each path of a group of imports written out once more.
fn code_with_imports(text: &str) -> String {
    let code = code(text);
    let groups: String = code.split("use crate::{").skip(1).map(names_of).collect();
    code + &groups
}

#[test]
fn dependencies_are_named_in_their_own_places() {
    // A word, and the only places that may contain it.
    let places: [(&str, &[&str]); 7] = [
        ("tonic::", &["src/grpc", "src/server"]),
        ("tonic_", &["src/grpc", "src/server"]),
        ("pb::", &["src/grpc", "src/server/health.rs"]),
        ("redis::", &["src/engine", "src/config", "src/cli/mod.rs", "src/cli/command.rs"]),
        ("bb8", &["src/engine/redis"]),
        ("redb", &["src/engine/embedded/store"]),
        ("unsafe", &["src/server/allocator.rs"]),
    ];
    for (path, text) in files("src", "rs") {
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
const FOLDERS: [(&str, &[&str]); 11] = [
    ("decision", &[]),
    ("admission", &["decision"]),
    ("lock", &["decision"]),
    ("rate", &["decision"]),
    ("sequence", &["decision"]),
    ("stock", &["decision"]),
    ("engine", &["decision", "admission", "lock", "rate", "sequence", "stock"]),
    ("grpc", &["decision", "admission", "lock", "rate", "sequence", "stock", "engine"]),
    ("server", &["decision", "admission", "rate", "sequence", "engine", "grpc"]),
    ("config", &["decision", "admission", "rate", "sequence", "engine", "server"]),
    (
        "cli",
        &[
            "decision",
            "admission",
            "lock",
            "rate",
            "sequence",
            "stock",
            "engine",
            "grpc",
            "server",
            "config",
        ],
    ),
];

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
            assert!(["main", "lib"].contains(&top), "{}: no folder of the list", path.display());
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
fn capabilities_know_no_engine() {
    let capabilities = ["src/admission", "src/lock", "src/rate", "src/sequence", "src/stock"];
    for (path, text) in capabilities.iter().flat_map(|folder| files(folder, "rs")) {
        for word in ["engine", "async", "std::time", "tokio"] {
            assert!(!code(&text).contains(word), "{} says {word}", path.display());
        }
    }
}

#[test]
fn every_script_is_registered_once() {
    let registered: BTreeSet<String> =
        script::ALL.iter().map(|script| format!("lua/{}.lua", script.name)).collect();
    let there: BTreeSet<String> = files("lua", "lua")
        .into_iter()
        .map(|(path, _)| path.to_str().unwrap().to_owned())
        .filter(|path| !path.starts_with("lua/lib/"))
        .collect();
    assert_eq!(registered, there);
    assert_eq!(registered.len(), script::ALL.len());
}

/// Commands by which scripts only read.
const READS: [&str; 22] = [
    "EXISTS",
    "GET",
    "HGET",
    "HLEN",
    "HMGET",
    "INFO",
    "LINDEX",
    "LLEN",
    "LRANGE",
    "MGET",
    "SISMEMBER",
    "TIME",
    "TYPE",
    "ZCARD",
    "ZCOUNT",
    "ZRANGE",
    "ZRANGEBYLEX",
    "ZRANGEBYSCORE",
    "ZRANK",
    "ZREVRANGE",
    "ZREVRANGEBYLEX",
    "ZSCORE",
];

#[test]
fn the_list_of_writing_commands_is_complete() {
    let (mut called, mut listed) = (BTreeSet::new(), BTreeSet::new());
    for (path, text) in files("lua", "lua") {
        for call in code_of_script(&text).split("call('").skip(1) {
            called.extend(call.split_once('\'').map(|(command, _)| command.to_owned()));
        }
        if path.ends_with("failure.lua") {
            let list = text.split_once("local WRITES = {").unwrap().1.split_once('}').unwrap().0;
            listed.extend(list.split('\'').skip(1).step_by(2).map(str::to_owned));
        }
    }
    // Wake-ups may be denied: scripts call PUBLISH with pcall.
    called.retain(|command| !READS.contains(&command.as_str()) && command != "PUBLISH");
    assert_eq!(called, listed);
}

/// A script without its comments. `argv[i]` in a loop counts as reading all arguments.
fn code_of_script(text: &str) -> String {
    let code: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
    let code = code.join("\n");
    let loops = (1..=4).map(|i| format!(" argv[{i}]")).collect::<String>();
    if code.contains("argv[i]") { code + &loops } else { code }
}

#[test]
fn script_headers_declare_all_parameters() {
    for script in script::ALL.iter() {
        let (name, text) = (script.name, script.body());
        let header: Vec<&str> = text
            .lines()
            .take_while(|line| line.starts_with("--"))
            .map(|line| line[2..].trim())
            .collect();
        let rule = code_of_script(text);
        let sentence = header.iter().take_while(|line| !line.is_empty()).copied();
        assert!(
            sentence.collect::<String>().ends_with('.'),
            "{name}: the header does not start with a sentence"
        );

        // A fragment reads the shared parameters; the other ones are parameters of `decide`.
        let (shared_keys, shared_argv) = script.shared().unwrap_or_default();
        let shared = match shared_keys {
            0 => format!("Shared argv[1..{shared_argv}]"),
            _ => format!("Shared keys[1..{shared_keys}], argv[1..{shared_argv}]"),
        };
        assert_eq!(
            header.contains(&shared.as_str()),
            script.shared().is_some(),
            "{name}: {shared}"
        );
        let mut parameters = vec!["now"];
        for (kind, count, shared) in
            [("keys", script.keys, shared_keys), ("argv", script.argv, shared_argv)]
        {
            let declared: Vec<&&str> =
                header.iter().filter(|line| line.starts_with(&format!("{kind}["))).collect();
            assert_eq!(declared.len(), count, "{name}: {kind} in the header");
            for (index, line) in declared.iter().enumerate() {
                let number = index + 1;
                assert!(line.starts_with(&format!("{kind}[{number}] ")), "{name}: {line}");
                let named = line.split(' ').nth(1).unwrap();
                let read = format!("{kind}[{number}]");
                match script.shared() {
                    Some(_) if index >= shared => parameters.push(named),
                    Some(_) => assert!(script.text(None).contains(&read), "{name}: {named}"),
                    None => assert!(rule.contains(&read), "{name}: {named} is not read"),
                }
            }
        }
        let order: Vec<usize> = ["keys[1]", "argv[1]", "Returns", "Writes", "Cost"]
            .iter()
            .filter(|part| script.argv > 0 || **part != "argv[1]")
            .map(|part| {
                let at = header.iter().position(|line| line.starts_with(part));
                at.unwrap_or_else(|| panic!("{name}: no {part} in the header"))
            })
            .collect();
        assert!(order.is_sorted(), "{name}: the header is out of order");
        let signature = text.lines().find_map(|line| line.strip_prefix("local function decide("));
        let signature = signature.unwrap_or_else(|| panic!("{name}: no decide"));
        match script.shared() {
            Some(_) => {
                assert!(signature.ends_with(&format!(", {})", parameters.join(", "))), "{name}")
            }
            None if script.argv > 0 => assert!(signature.starts_with("keys, argv, "), "{name}"),
            None => assert!(signature.starts_with("keys, _, "), "{name}"),
        }
    }
}

#[test]
fn scripts_follow_the_contract() {
    for (path, text) in files("lua", "lua") {
        let path = path.display();
        let calls_clock = text.contains("'TIME'");
        assert_eq!(calls_clock, path.to_string() == "lua/lib/clock.lua", "{path}: the clock");
        for banned in ["cjson", "cmsgpack", "redis.log", "\t", "EVAL"] {
            assert!(!text.contains(banned), "{path}: {banned:?}");
        }
        for (number, line) in text.lines().enumerate() {
            assert!(line.len() <= 120, "{path}:{}: {} columns", number + 1, line.len());
            assert_eq!(line, line.trim_end(), "{path}:{}", number + 1);
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
            if element && !line.starts_with("syntax") {
                let above = lines[index - 1];
                assert!(above.starts_with("//"), "{}:{}: {line}", path.display(), index + 1);
            }
        }
    }
}
