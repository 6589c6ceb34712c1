//! Values that the embedded engine reserves on its disk, ahead of those that it issues.
//!
//! Under `interval` and `none` a change can be lost after it was answered. Its values must not be
//! issued again, so an answer waits until a reservation that covers them is synced. The first
//! answer of a sequence waits for a sync; later ones do not, since the next values are reserved
//! when half of the last reservation is used. After a loss the sequence continues above the
//! reservation, with a gap.
//!
//! Values of a calendar need no reservation if their period ends before the reserved time of the
//! clock ([`KeptClock`](crate::time::KeptClock)), because the next process begins with a later
//! period. Milliseconds and seconds therefore need none.

use super::VALUE_MAX;
use crate::{
    record::Changes,
    time::{Millis, Timestamp},
};

/// Letter of the last reserved value, on the disk.
pub const RESERVED: u8 = b'u';

/// The smallest and the largest number of values that are reserved together.
const FEWEST: u64 = 64;
const MOST: u64 = 1 << 20;
/// A reservation should last longer than this, which is usually twice as long as syncing takes.
const LASTS: Millis = Millis::from_secs(2);

/// The reserved values of a sequence.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The last two reservations.
    reserved: [ReservedAhead; 2],
    /// Whether the last one is neither persisted nor numbered yet.
    is_new: bool,
    /// When the last one was made.
    since: Timestamp,
    /// The number of values of the last one.
    size: u64,
    /// Values below this one belong to periods that the clock does not repeat.
    by_clock: u64,
}

/// A reservation.
#[derive(Debug, Clone, Copy, Default)]
struct ReservedAhead {
    /// The last reserved value.
    upto: u64,
    /// The change that persists it.
    change: u64,
}

impl Ahead {
    /// Returns a persisted reservation.
    pub(super) fn restored(upto: u64) -> Ahead {
        let last = ReservedAhead { upto, change: 0 };
        Ahead { reserved: [ReservedAhead::default(), last], size: FEWEST, ..Ahead::default() }
    }

    /// Records the first value of the period in which the reserved time of the clock ends.
    pub(super) fn set_by_clock(&mut self, first: u64) {
        self.by_clock = first;
    }

    /// Reserves further values if half of them are used. `last` is the last value in use.
    pub(super) fn reserve(&mut self, last: u64, now: Timestamp) {
        let newest = self.reserved[1];
        if last < self.by_clock {
            return;
        }
        if last.saturating_add(self.size / 2) <= newest.upto && self.size > 0 {
            return;
        }
        let is_soon = now < self.since.after(LASTS);
        let size = if is_soon { self.size * 4 } else { self.size / 2 };
        self.size = size.clamp(FEWEST, MOST);
        let upto = last.saturating_add(self.size).min(VALUE_MAX);
        if upto > newest.upto {
            self.reserved = [newest, ReservedAhead { upto, change: 0 }];
            (self.is_new, self.since) = (true, now);
        }
    }

    /// Returns the change that reserves `last`; 0 for none. `change` is the number of a new
    /// reservation.
    pub(super) fn change(&mut self, last: u64, change: u64) -> u64 {
        let [before, newest] = &mut self.reserved;
        if std::mem::take(&mut self.is_new) {
            newest.change = change;
        }
        match last {
            _ if last < self.by_clock => 0,
            _ if last <= before.upto => before.change,
            _ => newest.change,
        }
    }

    /// Appends a new reservation.
    pub(super) fn drain(&self, to: &mut Changes) {
        if self.is_new {
            to.put(&[&[RESERVED]], &self.reserved[1].upto);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issues values, one at each of these times. Returns how many answers would wait for a sync
    /// that takes `sync`, and the last reserved value.
    fn given(times: impl Iterator<Item = u64>, sync: u64) -> (u64, u64) {
        let (mut ahead, mut waits) = (Ahead::default(), 0);
        let mut last = 0;
        for now in times {
            last += 1;
            ahead.reserve(last, Timestamp(now));
            // The number of a change is its time.
            waits += u64::from(ahead.change(last, now) + sync > now);
        }
        (waits, ahead.reserved[1].upto - last)
    }

    #[test]
    fn only_the_first_answers_of_a_sequence_wait_for_a_sync() {
        let second = 1_000_000;
        let (waits, ahead) = given((0..1000).map(|it| (it + 5) * second), second / 2);
        assert_eq!(waits, 1, "a slow sequence");
        assert!(ahead <= FEWEST, "{ahead}");
        // 20,000 values a second.
        let (waits, ahead) = given((0..200_000).map(|it| 5 * second + it * 50), second / 2);
        assert!(waits < 30_000, "{waits} answers wait, those of the first second");
        assert!(ahead < 200_000, "{ahead}");
    }
}
