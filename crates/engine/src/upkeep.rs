//! Background work on the state: the sweeper, and the counts of namespaces.

pub(crate) mod counter;
pub(crate) mod sweeper;

use std::time::Duration;

use tollgate_core::error::Error;
use tollgate_telemetry::line_pace::LinePace;

/// Logs the failures of one kind of background work, with at most one line in ten seconds.
#[derive(Debug)]
pub(super) struct Failures {
    /// The log line: what failed, and its effect.
    text: &'static str,
    pace: LinePace,
}

impl Failures {
    /// Creates the state without failures. `text` is the log line: what failed, and its effect.
    pub(super) const fn new(text: &'static str) -> Failures {
        Failures { text, pace: LinePace::new(1, Duration::from_secs(10)) }
    }

    /// Logs a failure and the number of failures since the last line. Only counts the failure
    /// within ten seconds of that line.
    pub(super) fn log(&self, error: &Error) {
        if let Some(suppressed) = self.pace.due() {
            tracing::warn!(failures = suppressed + 1, %error, "{}", self.text);
        }
    }
}
