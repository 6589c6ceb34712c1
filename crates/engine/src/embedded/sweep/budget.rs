//! The budget of a sweep step: a number of entries, and a time.

use std::time::Instant;

use tollgate_core::time::monotonic;

/// The number of entries that are dropped between two readings of the clock.
const SLICE: usize = 16;

/// The budget that a step has left.
#[derive(Debug)]
pub(super) struct Budget {
    /// Entries that may still be dropped.
    left: usize,
    /// Entries dropped so far.
    dropped: usize,
    /// The end of the step's time; `None` if the result must not depend on the speed of the
    /// machine.
    until: Option<Instant>,
    /// Entries dropped since the last reading of the clock.
    unseen: usize,
}

impl Budget {
    /// Creates a budget of `left` entries until a point in time.
    pub(super) fn new(left: usize, until: Option<Instant>) -> Budget {
        Budget { left, dropped: 0, until, unseen: 0 }
    }

    /// Returns the number of entries to drop next; 0 only if the budget is spent.
    pub(super) fn slice(&self) -> usize {
        self.left.min(SLICE)
    }

    /// Counts dropped entries. The budget is spent when the time is over.
    pub(super) fn spend(&mut self, dropped: usize) {
        self.dropped += dropped;
        self.unseen += dropped;
        self.left = self.left.saturating_sub(dropped);
        if self.unseen >= SLICE {
            self.unseen = 0;
            if self.is_over() {
                self.left = 0;
            }
        }
    }

    /// Whether the time is over.
    pub(super) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| monotonic() >= until)
    }

    /// Whether no more entries may be dropped.
    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Returns the number of entries dropped so far.
    pub(super) fn dropped(&self) -> usize {
        self.dropped
    }
}
