//! A clock that never runs backwards, over restarts too.
//!
//! The rule: *after a start it is the system's time, or the instant after the last one that is
//! synced, whichever is later; from there time goes on by the monotonic clock, at its rate,
//! and waits for nothing. What two lives of a server must not give out twice does not rest on
//! time: each life takes its fencing tokens and its dated serials above everything that the
//! life before had reserved.* So what is synced ends at its `expire_time` by the system's
//! clock, not before and not after, however the server ended.
//!
//! # Time
//! - While a server runs, no step of the system's clock moves anything.
//! - A system clock that was set back before a start takes nothing back: time goes on from
//!   the mark, the last synced instant, and leases last their length.
//! - A system clock that was set forward before a start is believed: what would have ended by
//!   then has ended. Nothing tells it from time that has passed. Who sets it back later has
//!   set it back in the sense above.
//!
//! # Uniqueness
//! The mark is written with every change, and about once a second without one. It says which
//! instant the clock has reached, and up to which instant tokens are reserved:
//! - [`Keeps::All`]: what was answered is synced. The next life begins after the mark, and
//!   its tokens with it; nothing is reserved ahead.
//! - [`Keeps::Most`]: what was answered last may be lost. The reservation is ahead of the time
//!   by [`AHEAD`], and what is answered before it is synced stays below it
//!   ([`KeptClock::is_reserved`]). The next life gives out greater tokens
//!   ([`KeptClock::token_floor`]): where the system's clock is right, time passes the floor
//!   within [`AHEAD`]. Instants themselves are told twice only if the system's clock was set
//!   back by more than the restart took.
//!
//! One that ends in order reserves nothing ahead.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::{Clock, Millis, Timestamp};

/// How far ahead of the time tokens are reserved.
pub const AHEAD: Millis = Millis::from_secs(3);
/// A token is the time, or one more than the partition's last one. It stays within the
/// reservation, since no partition grants once a µs for so long.
const MARGIN: Millis = Millis::from_secs(1);
/// A mark that is older is written anew.
const RENEWED_AFTER: Millis = Millis::from_secs(1);

/// How far a clock has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The instant that it has reached.
    pub reached: Timestamp,
    /// No token above this has been given out that is not synced.
    pub limit: Timestamp,
    /// Whether the process has ended in order.
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
    /// Lives before this one may have given out tokens up to this.
    token_floor: Timestamp,
    /// The reservation that is synced, in µs; 0 once the process ends.
    limit: AtomicU64,
    /// The instant of the mark that is synced, in µs.
    marked: AtomicU64,
}

impl KeptClock {
    /// Goes on from a mark.
    pub fn resume(source: Clock, mark: Option<Mark>, keeps: Keeps) -> KeptClock {
        let now = source.now();
        // The last instant may have been told.
        let begin = mark.map_or(now, |mark| now.max(Timestamp(mark.reached.0.saturating_add(1))));
        let token_floor = mark.map_or(Timestamp(0), |mark| mark.limit);
        let (limit, marked) = (AtomicU64::new(0), AtomicU64::new(begin.0));
        KeptClock { source, keeps, shift: begin.0 - now.0, token_floor, limit, marked }
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
        self.at(self.source.now())
    }

    /// The time when the source said this.
    fn at(&self, source: Timestamp) -> Timestamp {
        Timestamp(source.0 + self.shift)
    }

    /// What tokens and dated serials have to be above.
    pub fn token_floor(&self) -> Timestamp {
        self.token_floor
    }

    /// Whether every token that is given out now is within the synced reservation: it can be
    /// told and lost, and is not told again. `source` is the time of what the clock goes by.
    pub fn is_reserved(&self, source: Timestamp) -> bool {
        let latest = self.at(source).max(self.token_floor);
        latest.after(MARGIN).0 <= self.limit.load(Ordering::Acquire)
    }

    /// Whether a mark has to be written.
    pub fn is_due(&self) -> bool {
        let marked = Timestamp(self.marked.load(Ordering::Acquire));
        marked.after(RENEWED_AFTER) < self.now()
    }

    /// A mark to write; [`KeptClock::note_synced`] once it is.
    pub fn mark(&self) -> Mark {
        let reached = self.now();
        let limit = match self.keeps {
            Keeps::All => reached,
            Keeps::Most => reached.after(AHEAD),
        };
        Mark { reached, limit: limit.max(self.token_floor), is_last: false }
    }

    /// Takes note that a mark is synced.
    pub fn note_synced(&self, mark: Mark) {
        if !mark.is_last {
            self.limit.fetch_max(mark.limit.0, Ordering::AcqRel);
        }
        self.marked.fetch_max(mark.reached.0, Ordering::AcqRel);
    }

    /// Ends the reservation: from here on nothing is told before it is synced.
    pub fn end_reservation(&self) {
        self.limit.store(0, Ordering::Release);
    }

    /// The mark to write with the last changes, after [`KeptClock::end_reservation`].
    pub fn last_mark(&self) -> Mark {
        let reached = self.now();
        Mark { reached, limit: reached.max(self.token_floor), is_last: true }
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

    fn started(source: Clock, mark: Option<Mark>, keeps: Keeps) -> KeptClock {
        let clock = KeptClock::resume(source, mark, keeps);
        clock.note_synced(clock.mark());
        clock
    }

    #[test]
    fn time_waits_for_no_mark_and_what_is_told_does() {
        let (source, now) = source(NOON);
        let clock = started(source, None, Keeps::Most);
        assert!(!clock.is_due() && clock.is_reserved(clock.source()));
        now.fetch_add(2_000_000, Ordering::SeqCst);
        assert!(clock.is_due() && clock.is_reserved(clock.source()));
        now.fetch_add(1, Ordering::SeqCst);
        assert!(!clock.is_reserved(clock.source()));
        now.fetch_add(DAY, Ordering::SeqCst);
        assert_eq!(clock.now(), Timestamp(NOON + DAY + 2_000_001));
        clock.note_synced(clock.mark());
        assert!(clock.is_reserved(clock.source()));
    }

    #[test]
    fn after_a_kill_it_is_the_system_s_time() {
        for keeps in [Keeps::All, Keeps::Most] {
            let mut mark = None;
            for life in 0..100 {
                let (source, now) = source(NOON + life * 10_000);
                let clock = started(source, mark, keeps);
                assert_eq!(clock.now(), Timestamp(NOON + life * 10_000), "{keeps:?}, {life}");
                now.fetch_add(9_999, Ordering::SeqCst);
                assert_eq!(clock.now(), Timestamp(NOON + life * 10_000 + 9_999));
                mark = Some(clock.mark());
            }
        }
    }

    #[test]
    fn a_system_clock_set_back_by_a_day_takes_nothing_back() {
        for keeps in [Keeps::All, Keeps::Most] {
            let (before, now) = source(NOON);
            let clock = started(before, None, keeps);
            now.fetch_add(1_000_000, Ordering::SeqCst);
            // A lease of ten seconds, which is synced, and a second that is not.
            let (mark, end) = (clock.mark(), clock.now().after(Millis::from_secs(10)));
            now.fetch_add(1_000_000, Ordering::SeqCst);
            let (after, now) = source(NOON - DAY);
            let clock = started(after, Some(mark), keeps);
            assert_eq!(clock.now(), Timestamp(NOON + 1_000_001), "it goes on from the mark");
            now.fetch_add(9_999_998, Ordering::SeqCst);
            assert!(clock.now() < end);
            now.fetch_add(1, Ordering::SeqCst);
            assert_eq!(clock.now(), end);
        }
    }

    #[test]
    fn two_lives_share_no_token() {
        for back in [0, 1, 500_000, 2_000_000, DAY] {
            let (before, now) = source(NOON);
            let clock = started(before, None, Keeps::Most);
            // The latest instant at which a token is told before it is synced.
            now.fetch_add(2_000_000, Ordering::SeqCst);
            assert!(clock.is_reserved(clock.source()));
            let told = clock.now();
            let next = started(source(told.0 - back).0, Some(clock_mark(NOON)), Keeps::Most);
            assert!(next.token_floor() > told, "set back by {back}");
        }
    }

    /// The mark of a start at this time.
    fn clock_mark(at: u64) -> Mark {
        KeptClock::resume(source(at).0, None, Keeps::Most).mark()
    }

    #[test]
    fn kills_in_a_row_reserve_no_more_than_one() {
        let mut mark = None;
        for life in 0..100 {
            let (source, now) = source(NOON + life * 10_000);
            let clock = started(source, mark, Keeps::Most);
            let most = Timestamp(NOON + life * 10_000).after(AHEAD);
            assert!(clock.token_floor() <= most, "{life}");
            now.fetch_add(9_999, Ordering::SeqCst);
            mark = Some(clock.mark());
        }
    }

    #[test]
    fn a_system_clock_set_forward_is_believed_at_the_next_start() {
        let mark = Mark { reached: Timestamp(NOON), limit: Timestamp(NOON), is_last: true };
        let clock = started(source(NOON + DAY).0, Some(mark), Keeps::Most);
        assert_eq!(clock.now(), Timestamp(NOON + DAY));
    }

    #[test]
    fn one_that_ends_in_order_reserves_nothing() {
        let (before, now) = source(NOON);
        let clock = started(before, None, Keeps::Most);
        now.fetch_add(1_000_000, Ordering::SeqCst);
        clock.end_reservation();
        assert!(!clock.is_reserved(clock.source()), "nothing is told that is not synced");
        let mark = clock.last_mark();
        clock.note_synced(mark);
        assert!(!clock.is_reserved(clock.source()));
        assert_eq!(mark.limit, Timestamp(NOON + 1_000_000));
        let clock = started(source(NOON).0, Some(mark), Keeps::Most);
        assert_eq!(clock.now(), Timestamp(NOON + 1_000_001));
    }
}
