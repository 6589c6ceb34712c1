//! What came of a run of callers, counted while it runs.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use super::timeline::Timeline;
use crate::{
    fleet::tally::{Count, Failures, Times},
    grpc::client::RateAnswer,
    rate::Verdict,
};

/// Everything that is counted.
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
    /// Answers of any kind that ask for a notice.
    pub(super) notices: Count,
    /// Calls, answered or failed.
    pub(super) calls: Count,
    /// Failed calls.
    pub(super) failed: Failures,
    /// Sent to answered, of each answered call.
    pub(super) latencies: Times,
    /// When calls were allowed.
    pub(super) timeline: Timeline,
    most: AtomicU64,
}

impl Tally {
    /// Of nothing yet.
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

    /// Notes an answer.
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

    /// How many calls were allowed.
    pub(super) fn allowed(&self) -> u64 {
        self.allow.get() + self.warn.get()
    }

    /// Notes how many calls of some key were allowed in a window.
    pub(super) fn seen(&self, allowed: u64) {
        self.most.fetch_max(allowed, Ordering::Relaxed);
    }

    /// The most of any key.
    pub(super) fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
}
