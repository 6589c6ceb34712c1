//! Sliding windows: counts of sixtieths of a window, or less.
//!
//! A hit is given back when its sub-bucket as a whole is a window old. So there
//! are never more than `max` in any interval of the window's length, a hit is
//! kept at most one sixtieth too long, and memory does not grow with `max`.
//!
//! The length of a sub-bucket is a power of two, so that those of any two
//! windows nest: what is counted anew for another window, and again for the
//! first, does not drift.
//! (The two-bucket estimate that is often called a sliding window, which weighs
//! the previous window's count, bounds neither.)

use serde::{Deserialize, Serialize};

use super::rule::Limit;
use crate::time::Timestamp;

/// The fewest sub-buckets of a window; there are at most 122.
const PARTS: u64 = 60;

/// What was counted, by sub-bucket of the clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SlidingWindow {
    /// The length of a sub-bucket in µs.
    pub(super) width: u64,
    /// Number (instant / width) and count; none is empty, the oldest first.
    pub(super) buckets: Vec<(u64, u32)>,
}

/// The length of a sub-bucket in µs.
pub(super) fn width(window: u64) -> u64 {
    1 << (window / PARTS).max(1).ilog2()
}

impl SlidingWindow {
    pub(super) fn empty(limit: &Limit) -> SlidingWindow {
        SlidingWindow { width: width(limit.window.micros()), buckets: Vec::new() }
    }

    /// Drops what is a window old.
    pub(super) fn roll(&self, limit: &Limit, now: Timestamp) -> SlidingWindow {
        let mut rolled = SlidingWindow::empty(limit);
        rolled.buckets.reserve_exact(self.buckets.len() + 1);
        let present = now.0 / rolled.width;
        for &(number, count) in &self.buckets {
            let number = if self.width == rolled.width {
                number
            } else {
                // Of another width: as late as its hits can have been.
                ((number + 1) * self.width - 1) / rolled.width
            };
            // A clock that was set back must not hold a key up for longer.
            let number = number.min(present);
            if rolled.gives_back(number, limit) > now.0 {
                rolled.add(number, count);
            }
        }
        rolled
    }

    pub(super) fn is_moved(&self, limit: &Limit, now: Timestamp) -> bool {
        let Some((last, _)) = self.buckets.last() else { return false };
        self.width != width(limit.window.micros()) || last * self.width > now.0
    }

    pub(super) fn count(&self) -> u32 {
        self.buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    pub(super) fn wait(&self, limit: &Limit, cost: u32, now: Timestamp) -> u64 {
        let wanted = self.count().saturating_add(cost);
        let mut over = wanted.saturating_sub(limit.ceiling);
        for &(number, count) in &self.buckets {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(count);
            if over == 0 {
                return self.gives_back(number, limit) - now.0;
            }
        }
        0
    }

    pub(super) fn spend(&mut self, cost: u32, now: Timestamp) {
        self.add(now.0 / self.width, cost);
    }

    pub(super) fn reset(&self, limit: &Limit, now: Timestamp) -> u64 {
        self.buckets.last().map_or(0, |(number, _)| self.gives_back(*number, limit) - now.0)
    }

    /// When the hits of a sub-bucket are given back.
    fn gives_back(&self, number: u64, limit: &Limit) -> u64 {
        (number + 1) * self.width + limit.window.micros()
    }

    fn add(&mut self, number: u64, cost: u32) {
        match self.buckets.last_mut() {
            Some((last, count)) if *last == number => *count = count.saturating_add(cost),
            _ => {
                // Most keys have few: room for four would be most of their memory.
                self.buckets.reserve_exact(1);
                self.buckets.push((number, cost));
            }
        }
    }
}
