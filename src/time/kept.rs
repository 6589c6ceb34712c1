//! A clock that never runs backwards, over restarts too.
//!
//! The rule: it begins at the system's time or at the high-water mark, whichever is
//! later, and goes on by the monotonic clock. So
//! - while a server runs, no step of the system's clock moves anything;
//! - a system clock that was set back before a start, by a second or by a year, takes
//!   nothing back: time goes on from the mark, leases last their length, and no instant,
//!   and so no token and no number of a calendar, is used twice;
//! - a system clock that was set forward before a start is believed: what would have ended
//!   by then has ended. Nothing tells it from time that has passed. Who sets it back later
//!   has gone back in the sense above.
//!
//! The mark is written ahead of the time, by [`AHEAD`], so that not every instant costs a
//! write; the clock stands still rather than pass a mark that is not down. A process that
//! is killed has reached some instant below its mark, nobody knows which: the next one
//! stands still at the mark until as much time has passed as that was ahead. So leases
//! never end early for it; some last up to [`AHEAD`] longer. One that ends in order writes
//! the instant that it has reached.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::{Clock, Millis, Timestamp};

/// How far the mark is ahead of the time.
pub const AHEAD: Millis = Millis::from_secs(3);
/// A mark that is no further ahead is written anew.
const RENEWED_AT: Millis = Millis::from_secs(2);

/// How far a clock has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// It has reached this instant.
    pub reached: Timestamp,
    /// It has not passed this one.
    pub limit: Timestamp,
    /// It has ended in order, and passes nothing any more.
    pub is_last: bool,
}

/// A clock that goes on from a mark.
#[derive(Debug)]
pub struct KeptClock {
    source: Clock,
    /// What is added to the source, in µs.
    shift: u64,
    /// It has been this late already.
    floor: Timestamp,
    /// The mark that is down, in µs.
    limit: AtomicU64,
}

impl KeptClock {
    /// Goes on from a mark; stands still until another one is down.
    pub fn resume(source: Clock, mark: Option<Mark>) -> KeptClock {
        let now = source.now();
        let mark = mark.unwrap_or(Mark { reached: now, limit: now, is_last: true });
        let shift = mark.reached.0.saturating_sub(now.0);
        let floor = mark.limit.max(now);
        KeptClock { source, shift, floor, limit: AtomicU64::new(floor.0) }
    }

    /// The time of what it goes by, for intervals.
    pub fn source(&self) -> Timestamp {
        self.source.now()
    }

    /// How far the mark that it goes on from is beyond the system's time.
    pub fn ahead(&self) -> Millis {
        Millis(self.shift / 1000)
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.unlimited().0.min(self.limit.load(Ordering::Acquire)))
    }

    fn unlimited(&self) -> Timestamp {
        Timestamp(self.source.now().0 + self.shift).max(self.floor)
    }

    /// Whether it stands still for want of a mark further on.
    pub fn is_standing(&self) -> bool {
        self.unlimited().0 > self.limit.load(Ordering::Acquire)
    }

    /// Whether a mark has to be written.
    pub fn is_due(&self) -> bool {
        let limit = Timestamp(self.limit.load(Ordering::Acquire));
        limit < self.unlimited().after(RENEWED_AT)
    }

    /// A mark to write; [`KeptClock::pass`] once it is down.
    pub fn reserve(&self) -> Mark {
        let reached = Timestamp(self.source.now().0 + self.shift);
        Mark { reached, limit: reached.max(self.floor).after(AHEAD), is_last: false }
    }

    /// May run up to a mark, which is down.
    pub fn pass(&self, mark: Mark) {
        self.limit.fetch_max(mark.limit.0, Ordering::AcqRel);
    }

    /// Stops it for good; the mark to write.
    pub fn stop(&self) -> Mark {
        let reached = Timestamp(self.source.now().0 + self.shift);
        let limit = self.now();
        self.limit.store(limit.0, Ordering::Release);
        Mark { reached: reached.min(limit), limit, is_last: true }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const DAY: u64 = 86_400_000_000;
    const NOON: u64 = 1_767_225_600_000_000;

    fn source(now: u64) -> (Clock, Arc<AtomicU64>) {
        let now = Arc::new(AtomicU64::new(now));
        (Clock::Stepped(now.clone()), now)
    }

    fn started(source: Clock, mark: Option<Mark>) -> KeptClock {
        let clock = KeptClock::resume(source, mark);
        clock.pass(clock.reserve());
        clock
    }

    #[test]
    fn it_stands_still_rather_than_pass_its_mark() {
        let (source, now) = source(NOON);
        let clock = started(source, None);
        assert_eq!((clock.now(), clock.is_due()), (Timestamp(NOON), false));
        now.fetch_add(2_999_999, Ordering::SeqCst);
        assert_eq!((clock.now(), clock.is_due()), (Timestamp(NOON + 2_999_999), true));
        now.fetch_add(DAY, Ordering::SeqCst);
        assert_eq!(clock.now(), Timestamp(NOON + AHEAD.micros()));
        clock.pass(clock.reserve());
        assert_eq!(clock.now(), Timestamp(NOON + DAY + 2_999_999));
    }

    #[test]
    fn a_system_clock_set_back_by_a_day_takes_nothing_back() {
        let (before, now) = source(NOON);
        let clock = started(before, None);
        now.fetch_add(1_000_000, Ordering::SeqCst);
        let last = clock.now();
        // Killed: what is down is the mark of its start.
        let limit = Timestamp(NOON + AHEAD.micros());
        let mark = Mark { reached: Timestamp(NOON), limit, is_last: false };
        let (after, now) = source(NOON - DAY);
        let clock = started(after, Some(mark));
        assert_eq!(clock.now(), mark.limit);
        assert!(clock.now() > last);
        // A lease of ten seconds, granted at the last instant, lasts no less from here on.
        let end = last.after(Millis::from_secs(10));
        now.fetch_add(9_000_000, Ordering::SeqCst);
        clock.pass(clock.reserve());
        assert!(clock.now() < end);
        now.fetch_add(1_000_000 + AHEAD.micros(), Ordering::SeqCst);
        clock.pass(clock.reserve());
        assert!(clock.now() >= end, "and not much longer");
    }

    #[test]
    fn a_system_clock_set_forward_is_believed_at_the_next_start() {
        let mark = Mark { reached: Timestamp(NOON), limit: Timestamp(NOON), is_last: true };
        let clock = started(source(NOON + DAY).0, Some(mark));
        assert_eq!(clock.now(), Timestamp(NOON + DAY));
    }

    #[test]
    fn one_that_ends_in_order_goes_on_where_it_was() {
        let (before, now) = source(NOON);
        let clock = started(before, None);
        now.fetch_add(1_000_000, Ordering::SeqCst);
        let mark = clock.stop();
        now.fetch_add(DAY, Ordering::SeqCst);
        assert_eq!(clock.now(), mark.limit, "it is stopped");
        let (after, now) = source(NOON + 1_000_000);
        let clock = started(after, Some(mark));
        now.fetch_add(1, Ordering::SeqCst);
        assert_eq!(clock.now(), Timestamp(NOON + 1_000_001));
    }
}
