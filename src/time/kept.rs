//! A clock that never runs backwards, over restarts too.
//!
//! The rule: it begins at the system's time or right after the high-water mark, whichever
//! is later, and goes on by the monotonic clock. So
//! - while a server runs, no step of the system's clock moves anything;
//! - a system clock that was set back before a start, by a second or by a year, takes
//!   nothing back: time goes on from the mark, leases last their length, and no instant,
//!   and so no token and no number of a calendar, is used twice;
//! - a system clock that was set forward before a start is believed: what would have ended
//!   by then has ended. Nothing tells it from time that has passed. Who sets it back later
//!   has gone back in the sense above.
//!
//! The mark is written now and then, and with every change. What a process that was killed
//! had reached beyond it nobody knows:
//! - [`Keeps::All`]: what was answered is down, and with it a mark that is no earlier. The
//!   next process goes on from the mark: no lease ends early for the kill, however short it
//!   is, but for the microsecond that keeps the two apart. (A refusal may have been told a
//!   later time, and be told an earlier one if the system's clock was set back meanwhile: it
//!   has changed nothing.)
//! - [`Keeps::Most`]: what was answered may be lost, and must not be told again as another
//!   instant's. The mark is ahead of the time, by [`AHEAD`], and the clock stands still
//!   rather than pass one that is not down. The next process stands still at the mark until
//!   as much time has passed as that was ahead: a lease that had less than [`AHEAD`] left
//!   may end early by that, once, however often it is killed; no other does. Fencing tokens
//!   rise by one with each grant while it stands: what is answered within a second of the
//!   mark is down first, so that no token that was told is told again.
//!
//! One that ends in order writes the instant that it has reached.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::{Clock, Millis, Timestamp};

/// How far the mark is ahead of the time.
pub const AHEAD: Millis = Millis::from_secs(3);
/// A partition grants less often than once a µs for so long.
const MARGIN: Millis = Millis::from_secs(1);
/// A mark that is older is written anew.
const RENEWED_AFTER: Millis = Millis::from_secs(1);

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

/// What is left of what was answered when a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// All of it.
    All,
    /// What is not of the last moments.
    Most,
}

/// A clock that goes on from a mark.
#[derive(Debug)]
pub struct KeptClock {
    source: Clock,
    keeps: Keeps,
    /// What is added to the source, in µs.
    shift: u64,
    /// It has been this late already.
    floor: Timestamp,
    /// It does not pass this instant, in µs.
    limit: AtomicU64,
    /// What the mark says that is down, in µs.
    marked: AtomicU64,
}

impl KeptClock {
    /// Goes on from a mark; where the mark is ahead, stands still until another one is down.
    pub fn resume(source: Clock, mark: Option<Mark>, keeps: Keeps) -> KeptClock {
        let now = source.now();
        let (reached, floor) = match mark {
            // Its limit may have been answered with: whoever stands still stands there.
            Some(mark) => (mark.reached, now.max(Timestamp(mark.limit.0.saturating_add(1)))),
            None => (now, now),
        };
        let shift = reached.0.saturating_sub(now.0);
        let limit = match keeps {
            Keeps::All => u64::MAX,
            Keeps::Most => floor.0,
        };
        let (limit, marked) = (AtomicU64::new(limit), AtomicU64::new(reached.0));
        KeptClock { source, keeps, shift, floor, limit, marked }
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
        self.reached().max(self.floor)
    }

    /// Whether it stands still for want of a mark further on.
    pub fn is_standing(&self) -> bool {
        self.unlimited().0 > self.limit.load(Ordering::Acquire)
    }

    /// Whether what is answered now can be lost, and nothing of it told again: the mark that is
    /// down is far enough ahead. `source` is the time of what it goes by.
    pub fn is_ahead(&self, source: Timestamp) -> bool {
        let now = Timestamp(source.0 + self.shift).max(self.floor);
        now.after(MARGIN).0 <= self.limit.load(Ordering::Acquire)
    }

    /// Whether a mark has to be written.
    pub fn is_due(&self) -> bool {
        let marked = Timestamp(self.marked.load(Ordering::Acquire));
        marked.after(RENEWED_AFTER) < self.reached()
    }

    /// A mark to write; [`KeptClock::pass`] once it is down.
    pub fn reserve(&self) -> Mark {
        let reached = self.reached();
        let limit = match self.keeps {
            Keeps::All => reached,
            Keeps::Most => reached.after(AHEAD),
        };
        Mark { reached, limit: limit.max(self.floor), is_last: false }
    }

    /// How far it is, wherever it stands still.
    fn reached(&self) -> Timestamp {
        Timestamp(self.source.now().0 + self.shift)
    }

    /// May run up to a mark, which is down.
    pub fn pass(&self, mark: Mark) {
        self.limit.fetch_max(mark.limit.0, Ordering::AcqRel);
        self.marked.fetch_max(mark.reached.0, Ordering::AcqRel);
    }

    /// Stops it for good; the mark to write.
    pub fn stop(&self) -> Mark {
        let before = self.limit.swap(self.now().0, Ordering::AcqRel);
        // Read again: whoever went by the limit before has looked at the time by now.
        let limit = self.unlimited().min(Timestamp(before));
        Mark { reached: self.reached().min(limit), limit, is_last: true }
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
        started_with(source, mark, Keeps::Most)
    }

    fn started_with(source: Clock, mark: Option<Mark>, keeps: Keeps) -> KeptClock {
        let clock = KeptClock::resume(source, mark, keeps);
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
        assert!(!clock.is_standing());
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
        assert_eq!(clock.now(), Timestamp(mark.limit.0 + 1));
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
    fn a_process_that_keeps_all_goes_on_where_it_was_killed() {
        let (mut source, mut now) = source(NOON);
        let mut mark = None;
        for life in 0..100 {
            let clock = started_with(source, mark, Keeps::All);
            let next = u64::from(life > 0);
            assert_eq!(clock.now(), Timestamp(NOON + life * 100_000 + next), "nothing is gained");
            now.fetch_add(100_000, Ordering::SeqCst);
            // A change, which is down; and a second in which nothing is asked.
            mark = Some(clock.reserve());
            now.fetch_add(10_000_000, Ordering::SeqCst);
            assert!(!clock.is_standing() && clock.is_due());
            (source, now) = self::source(NOON - DAY);
        }
    }

    #[test]
    fn two_processes_share_no_instant() {
        for keeps in [Keeps::All, Keeps::Most] {
            let (before, now) = source(NOON);
            let clock = started_with(before, None, keeps);
            let first = clock.reserve();
            if keeps == Keeps::Most {
                now.fetch_add(DAY, Ordering::SeqCst);
            }
            let last = clock.now();
            assert_eq!(last, first.limit, "{keeps:?}: it has reached its mark");
            // Killed there; or ended in order.
            for mark in [first, clock.stop()] {
                let clock = started_with(source(NOON - DAY).0, Some(mark), keeps);
                assert!(clock.now() > last, "{keeps:?}: {:?} again", clock.now());
            }
        }
    }

    #[test]
    fn kills_in_a_row_gain_no_more_than_one() {
        let mut mark = None;
        for life in 0..100 {
            let (source, now) = source(NOON + life * 10_000);
            let clock = started(source, mark);
            assert!(clock.now() <= Timestamp(NOON + life * 10_000 + 1).after(AHEAD), "{life}");
            now.fetch_add(10_000, Ordering::SeqCst);
            mark = Some(clock.reserve());
        }
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
