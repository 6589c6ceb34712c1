//! Values that differ in each run of a document.

use std::{
    collections::BTreeMap,
    time::{Duration, UNIX_EPOCH},
};

use tollgate_core::time::Clock;

/// Returns the time in UTC as digits: year, month, day, hour, minute, second, millisecond.
pub fn clock() -> String {
    let now = UNIX_EPOCH + Duration::from_micros(Clock::system().now().0);
    let now = humantime::format_rfc3339_millis(now).to_string();
    now.chars().filter(char::is_ascii_digit).collect()
}

/// Documented times, tokens and calendar digits, each with its value in this run. Two documented
/// values are equal exactly when the values of this run are equal.
pub struct Varying {
    known: BTreeMap<String, String>,
    /// The start of the run, in the format of [`clock`].
    since: String,
}

impl Default for Varying {
    fn default() -> Varying {
        Varying { known: BTreeMap::new(), since: clock() }
    }
}

impl Varying {
    /// Learns values from an answer and its documented text.
    pub fn learn(&mut self, documented: &str, answered: &str) {
        let now = clock();
        for (documented, answered) in documented.lines().zip(answered.lines()) {
            match (value(documented), value(answered)) {
                (Some((name, old)), Some((as_well, new))) => {
                    if name == as_well && shape(old) == shape(new) && !name.ends_with("After") {
                        self.equate(old, new);
                    }
                }
                _ => self.learn_calendars(documented, answered, &now),
            }
        }
    }

    /// Learns calendar digits at the start of numbers. Only a moment of this run, today's date and
    /// this year are accepted: any other value differs from the document.
    fn learn_calendars(&mut self, documented: &str, answered: &str, now: &str) {
        let run = self.since[2..].to_owned()..=now[2..].to_owned();
        let digit = |character: char| character.is_ascii_digit();
        for at in (0..answered.len()).filter(|at| answered.is_char_boundary(*at)) {
            let (before, number) = answered.split_at(at);
            if before.ends_with(digit) || !number.starts_with(digit) {
                continue;
            }
            let moment = number.get(..15).filter(|moment| run.contains(&(*moment).to_owned()));
            let mut calendars = moment.into_iter().chain([&now[..8], &now[..4]]);
            let calendar = calendars.find(|calendar| number.starts_with(calendar));
            let old = calendar.and_then(|calendar| documented.get(at..at + calendar.len()));
            if let (Some(old), Some(new)) = (old, calendar)
                && old.chars().all(digit)
            {
                self.equate(old, new);
            }
        }
    }

    fn equate(&mut self, old: &str, new: &str) {
        if !self.known.values().any(|known| known == new) {
            self.known.entry(old.to_owned()).or_insert_with(|| new.to_owned());
        }
    }

    /// Replaces known values, the longest first; never within a number.
    pub fn replace(&self, text: &str) -> String {
        let digit = |character: char| character.is_ascii_digit();
        let (mut replaced, mut rest) = (String::new(), text);
        while let Some(next) = rest.chars().next() {
            let within = digit(next) && replaced.ends_with(digit);
            let known = self.known.iter().rev().find(|(old, _)| rest.starts_with(old.as_str()));
            let (length, new) = match known.filter(|_| !within) {
                Some((old, new)) => (old.len(), new.as_str()),
                None => (next.len_utf8(), &rest[..next.len_utf8()]),
            };
            replaced += new;
            rest = &rest[length..];
        }
        replaced
    }
}

/// Returns the name and the value of a JSON line, if the value differs in each run.
fn value(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.trim().trim_end_matches(',').split_once(": ")?;
    let name = name.trim_matches('"');
    let varies = ["cursor", "fencingToken", "until"].contains(&name)
        || name.ends_with("Time")
        || is_pause(name);
    varies.then_some((name, value))
}

/// Whether the value is the time until an event.
fn is_pause(name: &str) -> bool {
    name.ends_with("After") || name == "expiresIn"
}

/// Removes the digits of pauses, which get shorter while the test runs.
pub fn masked(text: &str) -> String {
    let mask = |line: &str| match value(line) {
        Some((name, value)) if is_pause(name) => line.replace(value, &shape(value)),
        _ => line.to_owned(),
    };
    text.lines().map(mask).collect::<Vec<_>>().join("\n")
}

/// Returns a time, a token or a pause without its digits.
fn shape(value: &str) -> String {
    value.replace(|character: char| character.is_ascii_digit() || character == '.', "")
}
