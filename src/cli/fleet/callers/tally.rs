//! Counters of a run of callers.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use super::timeline::Timeline;
use crate::{
    cli::fleet::tally::{Count, Failures, Times},
    grpc::client::RateAnswer,
    rate::Verdict,
};

/// All counters.
#[derive(Debug)]
pub(super) struct Tally {
    /// Answers ALLOW.
    pub(super) allow: Count,
    /// Answers WARN.
    pub(super) warn: Count,
    /// Answers THROTTLE.
    pub(super) throttle: Count,
    /// Answers BAN.
    pub(super) ban: Count,
    /// Answers that ask for a notice, with any verdict.
    pub(super) notices: Count,
    /// Calls, answered or failed.
    pub(super) calls: Count,
    /// Failed calls.
    pub(super) failed: Failures,
    /// Latencies of answered calls.
    pub(super) latencies: Times,
    /// Times of allowed calls.
    pub(super) timeline: Timeline,
    most: AtomicU64,
}

impl Tally {
    /// Creates empty counters.
    pub(super) fn new(start: Instant, run: Duration, window: Duration) -> Tally {
        Tally {
            allow: Count::default(),
            warn: Count::default(),
            throttle: Count::default(),
            ban: Count::default(),
            notices: Count::default(),
            calls: Count::default(),
            failed: Failures::default(),
            latencies: Times::default(),
            timeline: Timeline::new(start, run, window),
            most: AtomicU64::new(0),
        }
    }

    /// Counts an answer.
    pub(super) fn answer(&self, answer: &RateAnswer) {
        match answer.verdict {
            Verdict::Allow => self.allow.add(),
            Verdict::Warn => self.warn.add(),
            Verdict::Throttle => self.throttle.add(),
            Verdict::Ban => self.ban.add(),
        }
        if answer.crossed {
            self.notices.add();
        }
    }

    /// Returns the number of allowed calls.
    pub(super) fn allowed(&self) -> u64 {
        self.allow.get() + self.warn.get()
    }

    /// Records the number of allowed calls of a key in a window.
    pub(super) fn seen(&self, allowed: u64) {
        self.most.fetch_max(allowed, Ordering::Relaxed);
    }

    /// Returns the maximum over all keys.
    pub(super) fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
}
