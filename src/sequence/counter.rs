//! What is kept of a sequence.

use super::allotment::Range;
use crate::{decision::State, replays::Replays, time::Timestamp};

/// How far a sequence has come. It never lapses: what was given out must not be
/// given out again.
#[derive(Debug, Default)]
pub struct Counter {
    /// The last value given out, and when.
    pub(super) last: Option<(u64, Timestamp)>,
    /// Of a sequence that reserves ahead.
    pub(super) marks: Option<Marks>,
    pub(super) replays: Replays<(Range, bool)>,
}

/// High-water marks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Marks {
    /// No store has given out a value above this.
    pub(super) reserved: u64,
    /// The replicas are known to have a reservation up to this.
    pub(super) confirmed: u64,
}

impl State for Counter {
    const CAPABILITY: &'static str = "sequence";

    fn sweep(&mut self, now: Timestamp, budget: usize) {
        self.replays.sweep(now, budget);
    }

    fn is_vacant(&self, _: Timestamp) -> bool {
        self.last.is_none() && self.marks.is_none() && self.replays.is_empty()
    }
}
