//! Fixed and calendar windows: a count and the start of its window (fixed window counter).
//!
//! A fixed window starts with its first call and ends its length later; calls in between do not
//! move it. A calendar window is aligned to the clock, such as a minute or a day.

use serde::{Deserialize, Serialize};

use super::rule::{Limit, WINDOW_COUNT_MAX};
use crate::time::Timestamp;

/// A window and its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Window {
    pub(super) start: Timestamp,
    pub(super) count: u64,
}

impl Window {
    /// Returns the current fixed window, with the stored count if that window has not ended.
    pub(super) fn fixed(limit: &Limit, stored: Option<Window>, now: Timestamp) -> Window {
        match stored {
            Some(window) if now < window.start.after(limit.window) => {
                // The clock was set back: the window must not last longer than its length from now.
                Window { start: window.start.min(now), ..window }
            }
            _ => Window { start: now, count: 0 },
        }
    }

    /// Returns the current calendar window, with the stored count if it belongs to it.
    pub(super) fn calendar(limit: &Limit, stored: Option<Window>, now: Timestamp) -> Window {
        let length = limit.window.micros();
        let start = (now.0 + limit.shift) / length * length;
        let start = Timestamp(start.saturating_sub(limit.shift));
        // A stored window that starts later means that the clock was set back; its count still
        // applies.
        let count = stored.filter(|window| window.start >= start).map_or(0, |window| window.count);
        Window { start, count }
    }

    /// Returns the time in µs until a call of this cost passes: 0, or the rest of the window.
    pub(super) fn wait(&self, limit: &Limit, cost: u32, now: Timestamp) -> u64 {
        if limit.refuses(self.count, cost) { self.end(limit, now) } else { 0 }
    }

    /// Counts a call.
    pub(super) fn spend(&mut self, cost: u32) {
        self.count = (self.count + u64::from(cost)).min(WINDOW_COUNT_MAX);
    }

    /// Returns the time in µs until the count is 0 again.
    pub(super) fn reset(&self, limit: &Limit, now: Timestamp) -> u64 {
        if self.count == 0 { 0 } else { self.end(limit, now) }
    }

    /// Returns the time in µs until the window ends.
    fn end(&self, limit: &Limit, now: Timestamp) -> u64 {
        self.start.after(limit.window).0 - now.0
    }
}
