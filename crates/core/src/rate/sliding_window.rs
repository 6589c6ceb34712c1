//! Sliding windows: counts per sub-bucket, a sixtieth of the window or less.
//!
//! A sub-bucket expires as a whole, when its newest possible call is one window old. Therefore at
//! most `max` calls pass in any interval of the window's length, and a call counts at most one
//! sixtieth of the window too long. The memory does not depend on `max`.
//!
//! The length of a sub-bucket is a power of two in µs. The sub-buckets of any two windows therefore
//! nest, and recounting for another window and back does not drift.
//!
//! This is not the sliding window counter, which weights the count of the previous window: that
//! estimate bounds neither the calls in an interval nor the delay.

use serde::{Deserialize, Serialize};

use super::rule::Limit;
use crate::time::Timestamp;

/// The counts by sub-bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SlidingWindow {
    /// The length of a sub-bucket in µs.
    pub(super) width: u64,
    /// Number (time divided by width) and count of each non-empty sub-bucket, in order of time. A
    /// number occurs twice if its count exceeds 32 bits.
    #[serde(default)]
    pub(super) buckets: Vec<(u64, u32)>,
}

impl SlidingWindow {
    /// Creates a window without calls.
    pub(super) fn empty(limit: &Limit) -> SlidingWindow {
        SlidingWindow { width: limit.bucket_width(), buckets: Vec::new() }
    }

    /// Returns the window as of `now`, without the sub-buckets that have expired.
    pub(super) fn roll(&self, limit: &Limit, now: Timestamp) -> SlidingWindow {
        let mut rolled = SlidingWindow::empty(limit);
        rolled.buckets.reserve_exact(self.buckets.len() + 1);
        let present = now.0 / rolled.width;
        for &(number, count) in &self.buckets {
            let number = if self.width == rolled.width {
                number
            } else {
                // Stored with another width: count its calls as late as they can have been.
                ((number + 1) * self.width - 1) / rolled.width
            };
            // The clock was set back: a call must not count longer than one window from now.
            let number = number.min(present);
            if rolled.gives_back(number, limit) > now.0 {
                rolled.add(number, count);
            }
        }
        rolled
    }

    /// Whether the width has changed or the clock was set back, so that the rolled window must be
    /// stored even for a refused call.
    pub(super) fn is_moved(&self, limit: &Limit, now: Timestamp) -> bool {
        let Some((last, _)) = self.buckets.last() else { return false };
        self.width != limit.bucket_width() || last * self.width > now.0
    }

    /// Returns the number of calls in the window.
    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Returns the time in µs until enough sub-buckets have expired for a call of this cost; 0 for
    /// now.
    pub(super) fn wait(&self, limit: &Limit, cost: u32, now: Timestamp) -> u64 {
        let count = self.count();
        if !limit.refuses(count, cost) {
            return 0;
        }
        let mut over = count + u64::from(cost) - u64::from(limit.ceiling);
        for &(number, count) in &self.buckets {
            over = over.saturating_sub(count.into());
            if over == 0 {
                return self.gives_back(number, limit) - now.0;
            }
        }
        0
    }

    /// Counts a call.
    pub(super) fn spend(&mut self, cost: u32, now: Timestamp) {
        self.add(now.0 / self.width, cost);
    }

    /// Returns the time in µs until all calls have expired.
    pub(super) fn reset(&self, limit: &Limit, now: Timestamp) -> u64 {
        self.buckets.last().map_or(0, |(number, _)| self.gives_back(*number, limit) - now.0)
    }

    /// Returns the time in µs at which the calls of a sub-bucket expire.
    fn gives_back(&self, number: u64, limit: &Limit) -> u64 {
        (number + 1) * self.width + limit.window.micros()
    }

    /// Adds to the newest sub-bucket, or appends one. Calls beyond 32 bits go into a second entry
    /// of the sub-bucket; with two full entries the count exceeds every limit, so further calls are
    /// not counted.
    fn add(&mut self, number: u64, mut cost: u32) {
        if let Some((last, count)) = self.buckets.last_mut()
            && *last == number
        {
            let fits = cost.min(u32::MAX - *count);
            *count += fits;
            cost -= fits;
            let before = self.buckets.len().checked_sub(2).map(|index| self.buckets[index].0);
            if cost == 0 || before == Some(number) {
                return;
            }
        }
        // Most keys have few sub-buckets; the default growth to four would be most of their memory.
        self.buckets.reserve_exact(1);
        self.buckets.push((number, cost));
    }
}
