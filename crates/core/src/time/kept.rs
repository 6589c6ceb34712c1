//! The clock of a server with a data directory, which never runs backwards, not even across
//! restarts.
//!
//! After a start the time is the system clock, or the instant after the last synced mark if that is
//! later. From there it follows the monotonic clock. A synced lease or window therefore ends at its
//! `expire_time` by the system clock, however the server ended.
//!
//! # Time
//! - While a server runs, steps of the system clock have no effect.
//! - If the system clock was set back before a start, time continues from the mark. Leases keep
//!   their length.
//! - If the system clock was set forward before a start, it is trusted, because that cannot be
//!   distinguished from elapsed time.
//!
//! # Uniqueness
//! The uniqueness of fencing tokens and dated serials does not depend on the time. After a start
//! they are above everything that the previous process may have issued. The mark is written with
//! every change, and otherwise about once a second. It stores the time reached and the limit of
//! reserved tokens:
//! - [`Keeps::All`]: every answer is synced before it is sent. Nothing is reserved ahead; the next
//!   process starts above the mark.
//! - [`Keeps::Most`]: the last answers may be lost. Tokens are reserved [`AHEAD`] of the time, and
//!   an answer that is sent before it is synced stays within the reservation
//!   ([`KeptClock::is_reserved`]). The next process issues tokens above it
//!   ([`KeptClock::token_floor`]) until the time has passed the floor. Only the time itself can
//!   repeat, if the system clock was set back by more than the restart took.
//!
//! A process that shuts down in an orderly way reserves nothing ahead.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::{Clock, Millis, Timestamp};

/// How far ahead of the time tokens are reserved under [`Keeps::Most`].
pub const AHEAD: Millis = Millis::from_secs(3);
/// A token is the time, or one above the last token of the partition. Tokens can run ahead of the
/// time by less than this, because no partition issues one per µs for that long. An answer is sent
/// before it is synced only if the time up to this much later is reserved.
pub const RESERVED_AFTER: Millis = Millis::from_secs(1);
/// A mark that is older than this is written again.
const RENEWED_AFTER: Millis = Millis::from_secs(1);

/// The persisted progress of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The time reached.
    pub reached: Timestamp,
    /// The reserved limit: no unsynced token above this was issued.
    pub limit: Timestamp,
    /// Whether the process shut down in an orderly way.
    pub is_last: bool,
}

/// Which answers survive if the process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// All answers.
    All,
    /// All except the answers of the last moments.
    Most,
}

/// A clock that continues from a mark.
#[derive(Debug)]
pub struct KeptClock {
    /// The monotonic source of the time.
    source: Clock,
    /// Which answers survive a kill.
    keeps: Keeps,
    /// Added to the source, in µs.
    shift: u64,
    /// Earlier processes may have issued tokens up to this.
    token_floor: Timestamp,
    /// The synced limit of reserved tokens, in µs; 0 during shutdown.
    limit: AtomicU64,
    /// The time of the last synced mark, in µs.
    marked: AtomicU64,
}

impl KeptClock {
    /// Continues from a mark; without one, starts at the time of `source`.
    pub fn resume(source: Clock, mark: Option<Mark>, keeps: Keeps) -> KeptClock {
        let now = source.now();
        // The last instant may have been used in an answer.
        let begin = mark.map_or(now, |mark| now.max(Timestamp(mark.reached.0.saturating_add(1))));
        let token_floor = mark.map_or(Timestamp(0), |mark| mark.limit);
        let (limit, marked) = (AtomicU64::new(0), AtomicU64::new(begin.0));
        KeptClock { source, keeps, shift: begin.0 - now.0, token_floor, limit, marked }
    }

    /// Returns the time of the source, for intervals and ages.
    pub fn source(&self) -> Timestamp {
        self.source.now()
    }

    /// Returns how far the time was ahead of the system clock at the start.
    pub fn ahead(&self) -> Millis {
        Millis(self.shift / 1000)
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        self.at(self.source.now())
    }

    /// Returns the time that corresponds to this time of the source.
    fn at(&self, source: Timestamp) -> Timestamp {
        Timestamp(source.0 + self.shift)
    }

    /// Returns the floor of tokens and dated serials: new ones must be above it.
    pub fn token_floor(&self) -> Timestamp {
        self.token_floor
    }

    /// Whether every token issued now is within the synced reservation. An answer may then be sent
    /// before it is synced: if it is lost, its token is not issued again. `source` is
    /// [`KeptClock::source`].
    pub fn is_reserved(&self, source: Timestamp) -> bool {
        let latest = self.at(source).max(self.token_floor);
        latest.after(RESERVED_AFTER).0 <= self.limit.load(Ordering::Acquire)
    }

    /// Whether a new mark must be written.
    pub fn is_due(&self) -> bool {
        let marked = Timestamp(self.marked.load(Ordering::Acquire));
        marked.after(RENEWED_AFTER) < self.now()
    }

    /// Returns the mark to write. Call [`KeptClock::record_synced`] after it is synced.
    pub fn mark(&self) -> Mark {
        let reached = self.now();
        let limit = match self.keeps {
            Keeps::All => reached,
            Keeps::Most => reached.after(AHEAD),
        };
        Mark { reached, limit: limit.max(self.token_floor), is_last: false }
    }

    /// Records that a mark is synced.
    pub fn record_synced(&self, mark: Mark) {
        if !mark.is_last {
            self.limit.fetch_max(mark.limit.0, Ordering::AcqRel);
        }
        self.marked.fetch_max(mark.reached.0, Ordering::AcqRel);
    }

    /// Ends the reservation. From now on no answer may be sent before it is synced.
    pub fn end_reservation(&self) {
        self.limit.store(0, Ordering::Release);
    }

    /// Returns the mark of an orderly shutdown; call [`KeptClock::end_reservation`] before.
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
        clock.record_synced(clock.mark());
        clock
    }

    #[test]
    fn answers_wait_for_a_mark_but_time_does_not() {
        let (source, now) = source(NOON);
        let clock = started(source, None, Keeps::Most);
        assert!(!clock.is_due() && clock.is_reserved(clock.source()));
        now.fetch_add(2_000_000, Ordering::SeqCst);
        assert!(clock.is_due() && clock.is_reserved(clock.source()));
        now.fetch_add(1, Ordering::SeqCst);
        assert!(!clock.is_reserved(clock.source()));
        now.fetch_add(DAY, Ordering::SeqCst);
        assert_eq!(clock.now(), Timestamp(NOON + DAY + 2_000_001));
        clock.record_synced(clock.mark());
        assert!(clock.is_reserved(clock.source()));
    }

    #[test]
    fn after_a_kill_the_clock_shows_system_time() {
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
    fn leases_keep_their_length_if_the_system_clock_is_set_back_by_a_day() {
        for keeps in [Keeps::All, Keeps::Most] {
            let (before, now) = source(NOON);
            let clock = started(before, None, keeps);
            now.fetch_add(1_000_000, Ordering::SeqCst);
            // A synced lease of 10 s, and 1 s that is not synced.
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
    fn a_restarted_process_repeats_no_token() {
        for back in [0, 1, 500_000, 2_000_000, DAY] {
            let (before, now) = source(NOON);
            let clock = started(before, None, Keeps::Most);
            // The last instant at which an answer may be sent before it is synced.
            now.fetch_add(2_000_000, Ordering::SeqCst);
            assert!(clock.is_reserved(clock.source()));
            let answered = clock.now();
            let next = started(source(answered.0 - back).0, Some(clock_mark(NOON)), Keeps::Most);
            assert!(next.token_floor() > answered, "set back by {back}");
        }
    }

    /// Returns the mark of a start at this time.
    fn clock_mark(at: u64) -> Mark {
        KeptClock::resume(source(at).0, None, Keeps::Most).mark()
    }

    #[test]
    fn repeated_kills_reserve_no_more_than_one_kill() {
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
    fn an_orderly_shutdown_reserves_nothing() {
        let (before, now) = source(NOON);
        let clock = started(before, None, Keeps::Most);
        now.fetch_add(1_000_000, Ordering::SeqCst);
        clock.end_reservation();
        assert!(!clock.is_reserved(clock.source()), "no answer before it is synced");
        let mark = clock.last_mark();
        clock.record_synced(mark);
        assert!(!clock.is_reserved(clock.source()));
        assert_eq!(mark.limit, Timestamp(NOON + 1_000_000));
        let clock = started(source(NOON).0, Some(mark), Keeps::Most);
        assert_eq!(clock.now(), Timestamp(NOON + 1_000_001));
    }
}
