//! Log lines about checks that were not decided: at most one in 10 s for each policy and effect.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{Error, time::now};

/// Time between two lines about the same policy and effect.
const PERIOD: Duration = Duration::from_secs(10);
/// Number of kinds of lines. All further kinds share one limit.
const KINDS_MAX: usize = 100;

/// The lines of a connection.
#[derive(Debug, Default)]
pub(crate) struct CheckLog(Mutex<HashMap<Kind, Pace>>);

/// The policy, and what happened to the call.
type Kind = (String, &'static str);

#[derive(Debug, Default)]
struct Pace {
    next: Option<Instant>,
    suppressed: u64,
}

impl CheckLog {
    /// Logs a check of a policy, and what happened to its call.
    pub(crate) fn undecided(&self, policy: &str, effect: &'static str, error: &Error) {
        if let Some(suppressed) = self.due(policy, effect, now()) {
            let (code, reason) = (error.code, &error.reason);
            tracing::warn!(
                ?policy, effect, code, ?reason, error = ?error.message, suppressed,
                "a rate could not be checked"
            );
        }
    }

    /// Returns the number of lines suppressed before this one, if it may be logged.
    fn due(&self, policy: &str, effect: &'static str, now: Instant) -> Option<u64> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kind = (policy.to_owned(), effect);
        if kinds.len() >= KINDS_MAX && !kinds.contains_key(&kind) {
            kind = Kind::default();
        }
        let pace = kinds.entry(kind).or_default();
        if pace.next.is_some_and(|next| now < next) {
            pace.suppressed += 1;
            return None;
        }
        pace.next = Some(now + PERIOD);
        Some(std::mem::take(&mut pace.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_many_policies_are_bounded() {
        let (log, now) = (CheckLog::default(), now());
        let policies = 0..3 * KINDS_MAX;
        let logged = policies.filter(|it| log.due(&it.to_string(), "passes", now).is_some());
        assert_eq!(logged.count(), KINDS_MAX + 1, "the policies above the maximum share a limit");
        assert_eq!(log.due("0", "passes", now), None);
        assert_eq!(log.due("0", "passes", now + PERIOD), Some(1));
    }
}
