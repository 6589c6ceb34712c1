//! The report of a run: counts, then sentences, then the verdict.

use std::{fmt, time::Duration};

use serde_json::{Map, Value, json};

use super::{
    calls::Calls,
    counters::{NamedCounts, Times},
    random::Kind,
};
use tollgate_telemetry::text::{grouped, length};

/// The result of a run. `Display` prints the whole report.
#[derive(Debug, Clone, Default)]
pub struct Report {
    text: String,
    /// The rows, times and results, for `--output json`.
    values: Map<String, Value>,
    /// The keys of the last row and of the rows that contain it.
    path: Vec<String>,
    /// Lines before the verdict.
    notes: Vec<String>,
    violations: Vec<String>,
    /// Whether a signal ended the run early.
    pub(super) interrupted: bool,
}

impl Report {
    /// Creates an empty report. `interrupted` means that a signal has ended the run early.
    pub(super) fn new(interrupted: bool) -> Report {
        Report { interrupted, ..Report::default() }
    }

    /// Returns the exit code: 0 if the server has kept its contract, otherwise 1.
    pub fn exit_status(&self) -> u8 {
        if self.violations.is_empty() { 0 } else { 1 }
    }

    /// Adds a row. A name indented by two spaces makes it a part of the last row that is not
    /// indented.
    pub(super) fn row(&mut self, name: &str, number: u64) {
        self.line(&format!("{name:<24}{:>12}", grouped(number)));
        self.put(name, json!(number));
    }

    /// Adds a row for a total, and one for each of its parts.
    pub(super) fn rows(&mut self, name: &str, number: u64, parts: &[(&str, u64)]) {
        self.row(name, number);
        parts.iter().for_each(|(name, number)| self.row(&format!("  {name}"), *number));
    }

    /// Adds the number of actors of each kind.
    pub(super) fn kinds<M: PartialEq>(
        &mut self,
        name: &str,
        kinds: &[Kind<M>],
        manners: &[(&str, M)],
        twice: &str,
    ) {
        self.row(name, kinds.len() as u64);
        for (name, manner) in manners {
            let count = kinds.iter().filter(|kind| kind.manner == *manner).count();
            self.row(&format!("  {name}"), count as u64);
        }
        let count = kinds.iter().filter(|kind| kind.twice).count();
        self.row(&format!("  {twice}"), count as u64);
    }

    /// Adds the answers to an RPC. A name such as `already completed` counts the outcome
    /// `{prefix}ALREADY_COMPLETED`.
    pub(super) fn answers(
        &mut self,
        rpc: &str,
        prefix: &str,
        counts: &NamedCounts,
        names: &[&str],
    ) {
        self.line(&format!("Answers to {rpc}"));
        self.put(&format!("Answers to {rpc}"), json!({}));
        for name in names {
            let outcome = name.to_uppercase().replace(' ', "_");
            self.row(&format!("  {name}"), counts.get(&format!("{prefix}{outcome}")));
        }
    }

    /// Adds the calls. `per_second` is the rate while new work was being started.
    pub(super) fn calls(&mut self, calls: &Calls, per_second: f64) {
        let failed = calls.failed.all();
        let parts = [("per second", per_second.round() as u64), ("failed", failed.values().sum())];
        self.rows("Calls", calls.made.get(), &parts);
        failed.iter().for_each(|(code, count)| self.row(&format!("    {code}"), *count));
        self.times("Call latency", &calls.latencies, "");
    }

    /// Adds the median and the 99th percentile of durations.
    pub(super) fn times(&mut self, name: &str, times: &Times, more: &str) {
        let quantiles = match times.quantile(0.5).zip(times.quantile(0.99)) {
            Some((p50, p99)) => format!("p50 {}, p99 {}", length(p50), length(p99)),
            None => "none".to_owned(),
        };
        self.line(&format!("{name:<24}{quantiles}{more}"));
        let micros = |share| times.quantile(share).map(|it: Duration| it.as_micros() as u64);
        self.put(name, json!({ "p50Micros": micros(0.5), "p99Micros": micros(0.99) }));
    }

    /// Adds a result under its key, for JSON only.
    pub(super) fn value(&mut self, key: &str, value: Value) {
        self.values.insert(key.to_owned(), value);
    }

    /// Adds a row to the values under its name in lowerCamelCase. A row with parts becomes an
    /// object with its number as `count`.
    fn put(&mut self, name: &str, value: Value) {
        let words = name.trim_start();
        self.path.truncate((name.len() - words.len()) / 2);
        let mut rows = &mut self.values;
        for key in &self.path {
            let whole = rows.entry(key.clone()).or_insert(Value::Null);
            if !whole.is_object() {
                *whole = json!({ "count": whole.take() });
            }
            let Some(parts) = whole.as_object_mut() else { return };
            rows = parts;
        }
        let key = camel(words);
        rows.insert(key.clone(), value);
        self.path.push(key);
    }

    /// Returns the report as a JSON object with stable keys.
    pub fn json(&self) -> Value {
        Value::Object(self.values.clone())
    }

    /// Adds a line.
    pub(super) fn line(&mut self, text: &str) {
        self.text += text;
        self.text.push('\n');
    }

    /// Adds a line before the verdict.
    pub(super) fn add_note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Records a violation of the contract.
    pub(super) fn check(&mut self, is_violated: bool, what: impl Into<String>) {
        if is_violated {
            self.violations.push(what.into());
        }
    }

    /// Adds the notes and the verdict: `held`, or the violations.
    pub(super) fn verdict(&mut self, measured: &str, held: &str) {
        let notes = std::mem::take(&mut self.notes);
        self.value("notes", json!(notes));
        self.value("measured", json!(measured));
        self.value("held", json!(self.violations.is_empty()));
        self.value("violations", json!(self.violations));
        for note in notes {
            self.line(&note);
        }
        if self.violations.is_empty() {
            self.line(&format!("{measured}: {held}"))
        } else {
            self.line(&format!("{measured}: {}", self.violations.join("\n")))
        }
    }
}

/// Returns a name in lowerCamelCase; names of gRPC codes stay unchanged.
fn camel(name: &str) -> String {
    if !name.contains(|char: char| char.is_ascii_lowercase()) {
        return name.to_owned();
    }
    let mut key = String::new();
    for word in name.split(|char: char| !char.is_ascii_alphanumeric()) {
        let (first, rest) = word.split_at(word.len().min(1));
        key += &if key.is_empty() { first.to_lowercase() } else { first.to_uppercase() };
        key += rest;
    }
    key
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_rows_calls_and_a_verdict() {
        let (mut report, calls, answers) =
            (Report::default(), Calls::new(1), NamedCounts::default());
        (0..1234).for_each(|_| calls.made.add());
        for code in ["UNAVAILABLE", "UNAVAILABLE", "INTERNAL"] {
            calls.failed.add(code);
        }
        (0..2).for_each(|_| answers.add("VERDICT_ALREADY_DONE"));
        report.rows("Devices", 2000, &[("silent", 200)]);
        report.answers("AdmitTask", "VERDICT_", &answers, &["already done", "full"]);
        report.calls(&calls, 40.0);
        report.check(false, "NOT THIS");
        report.verdict("In flight at most 60, cap 60", "the cap held");
        assert_eq!(
            report.to_string(),
            "\
Devices                        2,000
  silent                         200
Answers to AdmitTask
  already done                     2
  full                             0
Calls                          1,234
  per second                      40
  failed                           3
    INTERNAL                       1
    UNAVAILABLE                    2
Call latency            none
In flight at most 60, cap 60: the cap held
"
        );
        assert_eq!(
            report.json().to_string(),
            r#"{"devices":{"count":2000,"silent":200},"answersToAdmitTask":{"alreadyDone":2,"full":0},"calls":{"count":1234,"perSecond":40,"failed":{"count":3,"INTERNAL":1,"UNAVAILABLE":2}},"callLatency":{"p50Micros":null,"p99Micros":null},"notes":[],"measured":"In flight at most 60, cap 60","held":true,"violations":[]}"#
        );
        assert_eq!(report.exit_status(), 0);
        report.check(true, "ONE");
        report.check(true, "TWO");
        report.verdict("Measured", "held");
        assert!(report.to_string().ends_with("\nMeasured: ONE\nTWO\n"), "{report}");
        assert_eq!(report.exit_status(), 1);
    }
}
