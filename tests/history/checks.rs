//! Checks of the checker itself, on valid records and on records with one violation each.

use std::process::ExitCode;

use super::{
    checker::{Demands, Verdict},
    reader::check,
    records::{BROKEN, HOLDING, SOME},
};

/// Runs the checks whose names contain one of the words, or all checks.
pub fn run(filters: &[String]) -> ExitCode {
    let wanted = |name: &str| {
        let name = format!("history: {name}");
        filters.is_empty() || filters.iter().any(|word| name.contains(word))
    };
    let (mut passed, mut failed) = (0, 0);
    let mut judge = |name: &str, fault: Option<String>| match fault {
        None => passed += 1,
        Some(fault) => {
            failed += 1;
            println!("history: {name} ... FAILED\n{fault}");
        }
    };
    for (name, text, demands) in HOLDING.iter().filter(|check| wanted(check.0)) {
        let verdict = verdict(text, *demands);
        judge(name, (!verdict.holds()).then(|| verdict.to_string()));
    }
    for (name, text, demands, said) in BROKEN.iter().filter(|check| wanted(check.0)) {
        let verdict = verdict(text, *demands);
        let found = verdict.violated == 1 && verdict.violations[0].contains(said);
        judge(name, (!found).then(|| format!("not {said:?}, but\n{verdict}")));
    }
    if wanted("forms") {
        judge("forms", forms());
    }
    println!("history: {passed} checks passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn verdict(text: &str, demands: Demands) -> Verdict {
    check(record(text).as_bytes(), demands).expect("a well-formed record")
}

/// Turns events such as `ADMITTED device/task token=5` into the output of `tollgate watch --json`.
/// Cursors begin at 101, unless an event sets one.
fn record(text: &str) -> String {
    let (mut lines, mut cursor) = (String::new(), 100);
    let events = text.split([';', '\n']).map(str::trim).filter(|event| !event.is_empty());
    for event in events {
        let mut words = event.split_whitespace();
        let kind = words.next().expect("a kind");
        let kind = match kind.parse::<u32>() {
            Ok(number) => number.to_string(),
            Err(_) => format!("\"POOL_EVENT_KIND_{kind}\""),
        };
        let (mut fields, mut minute) = (format!("\"kind\":{kind}"), 0);
        cursor += 1;
        for word in words {
            fields += &match word.split_once('=') {
                None => {
                    let (device, task) = word.split_once('/').expect("device and task");
                    format!(",\"deviceId\":\"{device}\",\"taskId\":\"{task}\"")
                }
                Some(("token", token)) => format!(",\"fencingToken\":\"{token}\""),
                Some(("attempt", attempt)) => format!(",\"attempt\":{attempt}"),
                Some(("outcome", outcome)) => format!(",\"outcome\":\"OUTCOME_{outcome}\""),
                Some(("cap", capacity)) => format!(",\"capacity\":{capacity}"),
                Some(("cursor", number)) => {
                    cursor = number.parse().expect("a number");
                    String::new()
                }
                Some(("minute", number)) => {
                    minute = number.parse().expect("a number");
                    String::new()
                }
                other => panic!("{other:?}"),
            };
        }
        let time = format!("2026-11-21T10:{minute:02}:00.000001Z");
        let time = format!("\"eventTime\":\"{time}\"");
        lines += &format!("{{\"event\":{{\"cursor\":\"{cursor}\",{fields},{time}}}}}\n");
    }
    lines
}

/// Returns a record as grpcurl prints it, cut off in its last object.
fn forms() -> Option<String> {
    let text = "{\n  \"event\": {\n    \"cursor\": \"7\",\n    \
         \"kind\": \"POOL_EVENT_KIND_CONFIGURED\",\n    \"capacity\": 5\n  }\n}\n\
         {\n  \"event\": {\n    \"cursor\": \"8";
    let verdict = match check(text.as_bytes(), SOME) {
        Ok(verdict) => verdict,
        Err(error) => return Some(error.to_string()),
    };
    if !verdict.holds() || verdict.events != 1 {
        return Some(verdict.to_string());
    }
    let bad = check("{\"event\":{\"cursor\":\"x\"}}".as_bytes(), SOME);
    bad.is_ok().then(|| "a cursor without a number was accepted".to_owned())
}
