//! The contract of the scripts (`lua/README.md`).

use std::{collections::BTreeSet, path::Path};

use tollgate_core::script;

use crate::{files, sources};

#[path = "../../crates/core/src/wire/script/include.rs"]
pub(super) mod include;

const LINES_MAX: usize = 110;

/// Returns all files below `lua/`, by path without the folder and `.lua`.
pub(super) fn lua() -> include::Files {
    let named = |path: &Path| path.with_extension("").strip_prefix("lua").unwrap().to_owned();
    let files = files("lua", "lua").into_iter();
    files.map(|(path, text)| (named(&path).to_str().unwrap().to_owned(), text)).collect()
}

#[test]
fn scripts_are_short() {
    for (name, text) in lua() {
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "lua/{name}.lua: {lines} lines, at most {LINES_MAX}");
    }
}

#[test]
fn every_script_has_its_rust_twin() {
    let code: String = sources().into_iter().map(|(_, text)| text).collect();
    for script in script::ALL.iter() {
        let (folder, verb) = script.name.split_once('/').unwrap();
        let used = format!("&script::{folder}::{}", verb.to_uppercase());
        assert!(code.contains(&used), "no decision names {used}");
    }
}

/// Commands by which scripts only read.
const READS: [&str; 25] = [
    "EXISTS",
    "GET",
    "HGET",
    "HLEN",
    "HMGET",
    "HSCAN",
    "INFO",
    "LINDEX",
    "LLEN",
    "LRANGE",
    "MGET",
    "SCAN",
    "SISMEMBER",
    "TIME",
    "TYPE",
    "ZCARD",
    "ZCOUNT",
    "ZMSCORE",
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
            let list = text.split_once("local writes = {").unwrap().1.split_once('}').unwrap().0;
            listed.extend(list.split('\'').skip(1).step_by(2).map(str::to_owned));
        }
    }
    // Wake-ups may be denied: scripts call PUBLISH with pcall.
    called.retain(|command| !READS.contains(&command.as_str()) && command != "PUBLISH");
    assert_eq!(called, listed);
}

/// Returns a script without its comments. `argv[i]` in a loop counts as reading all arguments.
fn code_of_script(text: &str) -> String {
    let code = text.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
    let loops = (1..=4).map(|i| format!(" argv[{i}]")).collect::<String>();
    if code.contains("argv[i]") { code + &loops } else { code }
}

#[test]
fn script_headers_declare_all_parameters() {
    let files = lua();
    for script in script::ALL.iter() {
        let (name, text) = (script.name, &files[script.name]);
        let header: Vec<&str> = include::header(text).iter().map(|line| line.trim()).collect();
        let rule = code_of_script(text);
        let sentence = header.iter().take_while(|line| !line.is_empty()).copied();
        assert!(
            sentence.collect::<String>().ends_with('.'),
            "{name}: the header does not start with a sentence"
        );

        // A fragment reads the parameters of a plain script.
        if script.plain > 0 {
            let decide = "\nlocal function decide(";
            assert!(
                rule.contains(decide) && rule.contains(", argument, number, items)\n"),
                "{name}"
            );
            continue;
        }
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
                let named = line.split(' ').nth(1).unwrap();
                let read = format!("{kind}[{number}]");
                match script.shared() {
                    Some(_) if index >= shared => parameters.push(named),
                    Some(_) => assert!(script.text(None).contains(&read), "{name}: {named}"),
                    None => assert!(rule.contains(&read), "{name}: {named} is not read"),
                }
            }
        }
        let order: Vec<usize> = ["@include", "keys[1]", "argv[1]", "Returns", "Writes", "Cost"]
            .iter()
            .filter(|part| script.argv > 0 || **part != "argv[1]")
            .filter(|part| text.contains("-- @include") || **part != "@include")
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
