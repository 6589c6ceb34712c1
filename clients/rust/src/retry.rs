//! When a failed call is sent again.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use crate::{Error, random};

/// Maximum number of attempts of a call.
pub(crate) const ATTEMPTS: u32 = 5;
/// Longest pause before the second attempt; doubled before each further attempt.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Longest RetryInfo that a call waits for. A longer one is returned to the caller.
const RETRY_INFO_MAX: Duration = Duration::from_secs(5);
/// Tokens are counted in thousandths.
const TOKEN: i64 = 1000;

/// The budget of retries of a connection: a token bucket.
///
/// Each call adds `share` of a token, each retry takes one. The bucket holds at most `reserve`
/// tokens and is full at first. An outage thus adds at most that share to the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryBudget {
    /// Retries per call: 0.2 allows one retry for five calls. Default: 0.2.
    pub share: f64,
    /// Retries that are allowed without earlier calls. Default: 10.
    pub reserve: u32,
}

impl RetryBudget {
    /// No call is sent again.
    pub const NONE: RetryBudget = RetryBudget { share: 0.0, reserve: 0 };
}

impl Default for RetryBudget {
    fn default() -> RetryBudget {
        RetryBudget { share: 0.2, reserve: 10 }
    }
}

/// The tokens of a budget.
#[derive(Debug)]
pub(crate) struct Tokens {
    left: AtomicI64,
    most: i64,
    per_call: i64,
}

impl Tokens {
    pub(crate) fn new(budget: RetryBudget) -> Tokens {
        let most = i64::from(budget.reserve) * TOKEN;
        let per_call = (budget.share.clamp(0.0, 1.0) * TOKEN as f64) as i64;
        Tokens { left: AtomicI64::new(most), most, per_call }
    }

    /// Whether any call may be sent again.
    pub(crate) fn exist(&self) -> bool {
        self.most > 0
    }

    /// Counts a call.
    pub(crate) fn earn(&self) {
        let add = |left: i64| Some((left + self.per_call).min(self.most));
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Takes a token for a retry. Returns false if there is none.
    pub(crate) fn take(&self) -> bool {
        let take = |left: i64| (left >= TOKEN).then(|| left - TOKEN);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// Returns the pause before attempt `next` (2 and up); `None` if the error is final.
pub(crate) fn pause(error: &Error, next: u32) -> Option<Duration> {
    let backoff = random::up_to((PAUSE * 2_u32.pow(next.saturating_sub(2).min(10))).min(PAUSE_MAX));
    match (error.code, error.retry_after) {
        (_, Some(after)) if after > RETRY_INFO_MAX => None,
        ("UNAVAILABLE" | "RESOURCE_EXHAUSTED", Some(after)) => {
            Some(after + backoff.min(random::up_to(after)))
        }
        ("UNAVAILABLE" | "DEADLINE_EXCEEDED", None) => Some(backoff),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &'static str, retry_after: Option<Duration>) -> Error {
        Error { code, retry_after, ..Error::default() }
    }

    #[test]
    fn retries_are_a_share_of_the_calls() {
        let tokens = Tokens::new(RetryBudget { share: 0.2, reserve: 2 });
        assert!(tokens.take() && tokens.take() && !tokens.take());
        for _ in 0..4 {
            tokens.earn();
        }
        assert!(!tokens.take());
        tokens.earn();
        assert!(tokens.take());
        (0..100).for_each(|_| tokens.earn());
        assert!(tokens.take() && tokens.take() && !tokens.take());
        assert!(!Tokens::new(RetryBudget::NONE).exist());
    }

    #[test]
    fn only_passing_errors_are_retried() {
        let second = Some(Duration::from_secs(1));
        assert!(pause(&error("UNAVAILABLE", None), 2).unwrap() <= PAUSE);
        assert!(pause(&error("UNAVAILABLE", None), 50).unwrap() <= PAUSE_MAX);
        assert!(pause(&error("DEADLINE_EXCEEDED", None), 2).is_some());
        assert!(pause(&error("RESOURCE_EXHAUSTED", second), 2) >= second);
        assert!(pause(&error("UNAVAILABLE", second), 2) >= second);
        for (code, after) in [
            ("RESOURCE_EXHAUSTED", None),
            ("RESOURCE_EXHAUSTED", Some(Duration::from_secs(60))),
            ("INVALID_ARGUMENT", None),
            ("INTERNAL", None),
        ] {
            assert_eq!(pause(&error(code, after), 2), None, "{code} {after:?}");
        }
    }
}
