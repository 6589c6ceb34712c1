//! Logs failures of background work, many failures in one line.

use std::time::{Duration, Instant};

use tollgate_core::error::Error;

/// The shortest time between two lines.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Failures that are not logged yet.
#[derive(Debug)]
pub(super) struct Failures {
    /// The text of the line.
    text: &'static str,
    /// The number of failures since the last line.
    count: u64,
    last: Option<Error>,
    /// The time of the last line.
    told: Option<Instant>,
}

impl Failures {
    /// No failures yet. `text` is the log line: what failed, and its effect.
    pub(super) fn new(text: &'static str) -> Failures {
        Failures { text, count: 0, last: None, told: None }
    }

    /// Counts a failure.
    pub(super) fn note(&mut self, error: &Error) {
        self.count += 1;
        self.last = Some(error.clone());
    }

    /// Logs the failures since the last line, unless that was less than ten seconds ago. Returns
    /// whether it logged.
    pub(super) fn report(&mut self, now: Instant) -> bool {
        let is_early = self.told.is_some_and(|told| now < told + REPORT_EVERY);
        let Some(error) = self.last.take_if(|_| !is_early) else { return false };
        tracing::warn!(failures = self.count, %error, "{}", self.text);
        (self.count, self.told) = (0, Some(now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::time::monotonic;

    #[test]
    fn many_failures_are_one_line_in_ten_seconds() {
        let (mut failures, now) = (Failures::new("it failed"), monotonic());
        assert!(!failures.report(now), "nothing has failed");
        failures.note(&Error::DeadlineExceeded);
        assert!(failures.report(now));
        failures.note(&Error::DeadlineExceeded);
        failures.note(&Error::DeadlineExceeded);
        assert!(!failures.report(now + Duration::from_secs(9)));
        assert_eq!(failures.count, 2);
        assert!(failures.report(now + REPORT_EVERY));
        assert!(!failures.report(now + 2 * REPORT_EVERY));
    }
}
