//! What a step of the sweep may do: so many entries, and so much time.

use std::time::Instant;

use crate::time::monotonic;

/// So many entries are dropped between two looks at the clock.
const SLICE: usize = 16;

/// What a step may still drop.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
    dropped: usize,
    /// By when it is spent, whatever is left; never where nothing may depend on how fast the
    /// machine is.
    until: Option<Instant>,
    /// Dropped since the clock was looked at.
    unseen: usize,
}

impl Budget {
    pub(super) fn new(left: usize, until: Option<Instant>) -> Budget {
        Budget { left, dropped: 0, until, unseen: 0 }
    }

    /// What may be dropped at once; not 0 unless it is spent.
    pub(super) fn slice(&self) -> usize {
        self.left.min(SLICE)
    }

    /// Counts what was dropped.
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

    /// Whether its time has passed.
    pub(super) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| monotonic() >= until)
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }

    pub(super) fn dropped(&self) -> usize {
        self.dropped
    }
}
