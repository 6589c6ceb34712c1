//! `deploy/prometheus/`: the alerts, by promtool.

use std::process::Command;

use crate::deploy::{succeed, text, tool};

const ALERTS: &str = "deploy/prometheus/alerts.yaml";
const TESTS: &str = "deploy/prometheus/alerts.test.yaml";

#[test]
fn the_alerts_are_valid_and_fire_when_they_should() {
    let Some(promtool) = tool("promtool") else { return };
    succeed(Command::new(&promtool).args(["check", "rules", "--lint-fatal", ALERTS]));
    succeed(Command::new(&promtool).args(["check", "config", "deploy/prometheus/prometheus.yml"]));
    succeed(Command::new(&promtool).args(["test", "rules", TESTS]));
}

/// Returns the values of the lines that start with `key`, without indentation.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.trim_start().strip_prefix(key)).map(str::trim).collect()
}

#[test]
fn each_alert_has_tests_and_a_runbook_entry() {
    let (alerts, tests, runbook) = (text(ALERTS), text(TESTS), text("docs/runbook.md"));
    let names = values(&alerts, "- alert:");
    assert!(names.len() >= 10, "{names:?}");
    // Each case names its alert, and its alerts or none.
    let cases: Vec<&str> = tests.split("  - interval:").skip(1).collect();
    for name in &names {
        let of_alert = cases.iter().filter(|case| values(case, "alertname:") == [*name]);
        let (silent, fires): (Vec<&str>, Vec<&str>) =
            of_alert.partition(|case| case.contains("exp_alerts: []"));
        assert!(!silent.is_empty() && !fires.is_empty(), "{name}: no test, firing or silent");

        assert!(values(&runbook, "## ").contains(name), "docs/runbook.md has no entry {name}");
        let anchor = format!("docs/runbook.md#{}", name.to_lowercase());
        assert!(values(&alerts, "runbook:").contains(&anchor.as_str()), "{name} links {anchor}");
    }
    for entry in values(&runbook, "## ").iter().filter(|entry| entry.starts_with("Tollgate")) {
        assert!(names.contains(entry), "docs/runbook.md has an entry for no alert: {entry}");
    }
}
