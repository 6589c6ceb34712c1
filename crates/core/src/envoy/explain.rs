//! Explains which rule applies to a descriptor, and why.

use std::fmt::Write;

use super::{EnvoyRule, node::MatchedBy, settings::Counting, tree::EnvoyRules};
use crate::rate::Algorithm;

/// Describes the search for the rule of a descriptor, one line per step. Also returns whether a
/// rule was found.
pub fn explain(rules: &EnvoyRules, domain: &str, entries: &[(String, String)]) -> (String, bool) {
    let mut text = String::new();
    let found = steps(&mut text, rules, domain, entries);
    (text, found)
}

/// Appends the steps. Writing to a String cannot fail.
fn steps(
    text: &mut String,
    rules: &EnvoyRules,
    domain: &str,
    entries: &[(String, String)],
) -> bool {
    let Some(found) = rules.domain(domain.as_bytes()) else {
        let _ = writeln!(text, "domain {domain}: no file has it; every request is OK");
        return false;
    };
    let counting = match found.counting {
        Counting::Each => "",
        Counting::AllOrNothing => ": counts all descriptors of a request or none",
        Counting::Reports => ": counts every report; without hits, a reached limit refuses",
    };
    let _ = writeln!(text, "domain {domain}{counting}");
    let (mut node, mut joined) = (&found.root, Vec::new());
    for (key, value) in entries {
        let entry = (key.as_bytes(), value.as_bytes());
        let Some(step) = node.step(entry, &mut joined) else {
            let why = if node.children.is_empty() {
                "the rules have no further level"
            } else {
                "no key, pattern or value matches"
            };
            let _ = writeln!(text, "  {key}={value}: {why}; OK without a limit");
            return false;
        };
        let by = match step.by {
            MatchedBy::Value => "its key and value".to_owned(),
            MatchedBy::Pattern(pattern) => {
                format!("the pattern {}", String::from_utf8_lossy(pattern))
            }
            MatchedBy::Key => "its key".to_owned(),
        };
        let shared =
            if step.shared_value(entry.0).is_some() { ", one counter for all values" } else { "" };
        let _ = writeln!(text, "  {key}={value}: matches by {by}{shared}");
        node = step.node;
    }
    let Some(rule) = node.rule.as_ref().filter(|_| !entries.is_empty()) else {
        let _ = writeln!(text, "no rule at this level; OK without a limit");
        return false;
    };
    let _ = write!(text, "rule {}: ", rule.key);
    let _ = if rule.unlimited {
        write!(text, "unlimited")
    } else {
        write!(text, "{} per {}", rule.requests_per_unit, rule.unit.name())
    };
    if let Some(algorithm) = algorithm_of(rule) {
        let _ = write!(text, ", {algorithm}");
    }
    for (is_on, mode) in [(rule.shadow_mode, "shadow mode"), (rule.quota_mode, "quota mode")] {
        if is_on {
            let _ = write!(text, ", {mode}");
        }
    }
    if !rule.replaces.is_empty() {
        let _ = write!(text, ", replaces {}", rule.replaces.join(", "));
    }
    text.push('\n');
    true
}

/// Returns the name of a rule's algorithm in its file; `None` for the default.
fn algorithm_of(rule: &EnvoyRule) -> Option<&'static str> {
    match rule.counting.limits.first()?.algorithm {
        Algorithm::CalendarWindow => None,
        Algorithm::FixedWindow => Some("FIXED_WINDOW"),
        Algorithm::SlidingWindow => Some("SLIDING_WINDOW"),
        Algorithm::TokenBucket => Some("TOKEN_BUCKET"),
    }
}
