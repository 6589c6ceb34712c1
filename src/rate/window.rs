//! Fixed and calendar windows: a count and the instant it started.
//!
//! A fixed window starts with its first hit and ends its length later; hits in
//! between move nothing. A calendar window is the classic key per minute: the
//! window of the clock that the call falls into.

use serde::{Deserialize, Serialize};

use super::rule::Limit;
use crate::time::Timestamp;

/// A window and what was counted in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    pub(super) start: Timestamp,
    pub(super) count: u32,
}

impl Window {
    /// The fixed window that runs now.
    pub(super) fn fixed(limit: &Limit, stored: Option<Window>, now: Timestamp) -> Window {
        match stored {
            Some(window) if now < window.start.after(limit.window) => {
                // A clock that was set back must not hold a key up for longer.
                Window { start: window.start.min(now), ..window }
            }
            _ => Window { start: now, count: 0 },
        }
    }

    /// The window of the clock.
    pub(super) fn calendar(limit: &Limit, stored: Option<Window>, now: Timestamp) -> Window {
        let length = limit.window.micros();
        let start = (now.0 + limit.shift) / length * length;
        let start = Timestamp(start.saturating_sub(limit.shift));
        // One that starts later: the clock was set back; its count is kept.
        let count = stored.filter(|window| window.start >= start).map_or(0, |window| window.count);
        Window { start, count }
    }

    pub(super) fn wait(&self, limit: &Limit, cost: u32, now: Timestamp) -> u64 {
        if self.count.saturating_add(cost) <= limit.ceiling { 0 } else { self.end(limit, now) }
    }

    pub(super) fn spend(&mut self, cost: u32) {
        self.count = self.count.saturating_add(cost);
    }

    pub(super) fn reset(&self, limit: &Limit, now: Timestamp) -> u64 {
        if self.count == 0 { 0 } else { self.end(limit, now) }
    }

    fn end(&self, limit: &Limit, now: Timestamp) -> u64 {
        self.start.after(limit.window).0 - now.0
    }
}
