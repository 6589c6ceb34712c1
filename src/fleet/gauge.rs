//! How many devices are in flight, as they see it themselves.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::time::monotonic;

/// What the server's clock may gain on ours while a lease runs: 1/1000 of it,
/// twice what a clock under correction is allowed to.
const DRIFT: u32 = 1000;

/// Counts the leases that certainly run at the server, and keeps the most.
///
/// It never counts more than the server does, or a cap that held would be
/// called broken. A lease is counted from the receipt of its grant (it was
/// granted before) to just before its report is sent (it is freed after), at
/// most to [`ends`], which lies before its end. The count is taken in one
/// step together with the clock, and never depends on a timer that fires late.
#[derive(Debug, Default)]
pub(super) struct Gauge(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The earliest end first.
    running: BTreeSet<Hold>,
    entered: u64,
    most: usize,
}

/// One counted lease: its end, and a number that tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hold(Instant, u64);

/// When to stop counting a lease of this length: it was granted after `sent`,
/// the instant before the call that it was granted to left, so it runs on.
pub(super) fn ends(sent: Instant, length: Duration) -> Instant {
    sent + (length - length / DRIFT)
}

impl Gauge {
    /// Counts a lease in.
    pub(super) fn enter(&self, end: Instant) -> Hold {
        let mut state = self.lock();
        // Read under the lock: an earlier reading would count ended leases.
        state.enter(monotonic(), end)
    }

    /// Counts a lease out; nothing happens when it has ended.
    pub(super) fn leave(&self, hold: Hold) {
        self.lock().running.remove(&hold);
    }

    /// How many are in flight now.
    pub(super) fn now(&self) -> usize {
        let mut state = self.lock();
        state.reclaim(monotonic());
        state.running.len()
    }

    /// The most that ever were.
    pub(super) fn most(&self) -> usize {
        self.lock().most
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn enter(&mut self, now: Instant, end: Instant) -> Hold {
        self.reclaim(now);
        self.entered += 1;
        let hold = Hold(end, self.entered);
        // An answer that took longer than the lease grants nothing any more.
        if end > now {
            self.running.insert(hold);
            self.most = self.most.max(self.running.len());
        }
        hold
    }

    /// Each lease ends once, so the work is amortized over the grants.
    fn reclaim(&mut self, now: Instant) {
        while self.running.first().is_some_and(|hold| hold.0 <= now) {
            self.running.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_most_stays_when_the_count_falls() {
        let (gauge, end) = (Gauge::default(), monotonic() + 60 * SECOND);
        let holds: Vec<Hold> = (0..3).map(|_| gauge.enter(end)).collect();
        gauge.leave(holds[1]);
        gauge.leave(holds[1]);
        assert_eq!((gauge.now(), gauge.most()), (2, 3));
        gauge.enter(end);
        assert_eq!((gauge.now(), gauge.most()), (3, 3));
    }

    #[test]
    fn a_lease_counts_until_its_end_without_a_timer() {
        let (mut state, start) = (State::default(), monotonic());
        state.enter(start, start + SECOND);
        // Granted the instant the first one ended: never two at once.
        state.enter(start + SECOND, start + 2 * SECOND);
        assert_eq!((state.running.len(), state.most), (1, 1));
        // A reading of the clock that others overtook revives nothing.
        state.enter(start + SECOND / 2, start + 3 * SECOND);
        assert_eq!((state.running.len(), state.most), (2, 2));
    }

    #[test]
    fn an_answer_that_outlasted_its_lease_does_not_count() {
        let (mut state, start) = (State::default(), monotonic());
        let hold = state.enter(start + SECOND, start + SECOND);
        assert_eq!((state.running.contains(&hold), state.most), (false, 0));
    }

    #[test]
    fn an_end_is_never_after_the_servers() {
        let sent = monotonic();
        assert!(ends(sent, 300 * SECOND) < sent + 300 * SECOND);
        assert!(ends(sent, 300 * SECOND) > sent + 299 * SECOND);
    }
}
