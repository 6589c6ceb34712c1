//! The token lead: how far fencing tokens must be ahead of a primary's clock, so that they exceed
//! the tokens of earlier primaries.
//!
//! A token is the time of the primary that grants it (`lua/lib/fencing.lua`). After a failover to a
//! primary whose clock is behind, new tokens would be smaller than old ones.
//!
//! Each probe reads the primary's clock together with this server's monotonic clock; the difference
//! is the primary's offset. When a primary has failed, its offset still bounds every token that it
//! can have handed out to any server: offset + monotonic time. If the clock of its successor is
//! behind this bound, tokens lead that clock by the difference. Servers need not coordinate this.
//!
//! A server that started after the failover has no reading from before. It learns the lead from the
//! probe key (`lua/index/probe.lua`), which all servers write every second.
//!
//! Limitation: a forward step of the clock in the last second before its primary fails goes
//! unnoticed.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use tollgate_core::time::monotonic;

/// The allowed drift between two clocks: 1 in this number. NTP slews by at most 1 in 2,000.
const DRIFT: i64 = 1000;

/// A reading of a primary's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// The time that the primary reported, in µs.
    pub(super) time: u64,
    /// The monotonic time before the request and after the answer.
    pub(super) asked: Instant,
    pub(super) answered: Instant,
}

/// The highest clock of all primaries, as an offset from this server's monotonic clock.
#[derive(Debug)]
pub(super) struct Skew {
    /// The origin of monotonic times.
    since: Instant,
    /// `None` before the first reading.
    highest: Mutex<Option<Highest>>,
}

/// The highest offset, in µs.
#[derive(Debug, Clone, Copy)]
struct Highest {
    /// The primary's time minus the monotonic time.
    offset: i64,
    /// The monotonic time of its measurement.
    at: i64,
}

impl Skew {
    /// Creates the state of a server that has measured nothing.
    pub(super) fn new() -> Skew {
        Skew { since: monotonic(), highest: Mutex::default() }
    }

    /// Returns a monotonic time in µs since the start.
    fn micros(&self, instant: Instant) -> i64 {
        instant.saturating_duration_since(self.since).as_micros() as i64
    }

    /// Returns the lead over this primary's clock that covers all tokens of other primaries, in µs.
    pub(super) fn ahead(&self, reading: &Reading) -> u64 {
        let highest = *self.highest.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(highest) = highest else { return 0 };
        let now = self.micros(reading.answered);
        let drift = (now - highest.at) / DRIFT;
        // The lowest offset that fits the reading, so the lead may be too large by a round trip.
        let lowest = reading.time as i64 - now;
        (highest.offset + drift - lowest).max(0) as u64
    }

    /// Records a primary's clock and the lead of its tokens, in µs.
    pub(super) fn record(&self, reading: &Reading, ahead: u64) {
        let at = self.micros(reading.answered);
        // The highest offset that fits the reading.
        let offset = (reading.time + ahead) as i64 - self.micros(reading.asked);
        let mut highest = self.highest.lock().unwrap_or_else(PoisonError::into_inner);
        *highest = Some(match *highest {
            // An old offset decays by the allowed drift. It still bounds the earlier tokens,
            // because it falls more slowly than time rises.
            Some(before) if before.offset - (at - before.at) / DRIFT > offset => before,
            _ => Highest { offset, at },
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TIME: u64 = 1_767_225_600_000_000;

    /// Returns the reading of a clock with this offset at `at`, with a round trip of 2 ms.
    fn reading(skew: &Skew, at: u64, offset: i64) -> Reading {
        let asked = skew.since + Duration::from_micros(at);
        let time = (TIME + at + 1000).saturating_add_signed(offset);
        Reading { time, asked, answered: asked + Duration::from_millis(2) }
    }

    #[test]
    fn tokens_stay_above_those_of_all_earlier_primaries() {
        let skew = Skew::new();
        let first = reading(&skew, 0, 0);
        assert_eq!(skew.ahead(&first), 0, "there were no earlier tokens");
        skew.record(&first, 0);
        // Ten seconds later, there is a primary whose clock is 3 s behind, and then one that is 2 s
        // behind that.
        let mut bound = TIME;
        for (at, offset, behind) in [(10_000_000, -3_000_000, 3), (20_000_000, -5_000_000, 5)] {
            let next = reading(&skew, at, offset);
            let ahead = skew.ahead(&next);
            assert!(next.time + ahead >= TIME + at + 2000, "{ahead}");
            assert!(next.time + ahead > bound);
            assert!(ahead.abs_diff(behind * 1_000_000) < 50_000, "{ahead}");
            skew.record(&next, ahead);
            bound = next.time + ahead;
        }
        // Then the first primary again, whose clock was right all along.
        let back = reading(&skew, 30_000_000, 0);
        assert!(skew.ahead(&back) < 100_000);
        assert!(back.time + skew.ahead(&back) > bound);
    }

    #[test]
    fn a_clock_that_drifts_is_followed() {
        let skew = Skew::new();
        for second in 0..10_000 {
            let drifted = -(second as i64) * 200;
            skew.record(&reading(&skew, second * 1_000_000, drifted), 0);
        }
        let ahead = skew.ahead(&reading(&skew, 10_000_000_000, -2_000_000));
        assert!(ahead < 2_000_000, "{ahead}");
    }
}
