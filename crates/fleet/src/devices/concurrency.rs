//! Number of devices in flight, from their own point of view.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use tollgate_core::time::monotonic;

/// The server's clock may gain a thousandth of a lease on ours, which is twice the rate of a clock
/// that is being corrected.
const DRIFT: u32 = 1000;

/// Counts the leases that are certainly running on the server, and keeps the maximum.
///
/// The count must never exceed the server's own, or it could report a fault that does not exist. A
/// lease counts from when its grant is received, which is after it was granted, until just before
/// its result is sent, which is before it is released, and no longer than until [`certain_end`],
/// which is before it expires. The clock is read under the same lock as the count, so that a late
/// timer cannot distort it.
#[derive(Debug, Default)]
pub(super) struct Concurrency(Mutex<RunningLeases>);

#[derive(Debug, Default)]
struct RunningLeases {
    /// The earliest end first.
    running: BTreeSet<CountedLease>,
    entered: u64,
    most: usize,
    /// How long leases have held slots, summed over all leases.
    held: Duration,
    /// The instant up to which `held` counts.
    counted: Option<Instant>,
}

/// A counted lease: its end, and a unique number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CountedLease(Instant, u64);

/// Returns when to stop counting a lease, at which time it is certainly still running, because it
/// was granted after the call was sent at `sent`.
pub(super) fn certain_end(sent: Instant, length: Duration) -> Instant {
    sent + (length - length / DRIFT)
}

impl Concurrency {
    /// Starts counting a lease.
    pub(super) fn enter(&self, end: Instant) -> CountedLease {
        let mut state = self.0.lock();
        // Read under the lock, because an earlier reading would count ended leases.
        state.enter(monotonic(), end)
    }

    /// Stops counting a lease; does nothing if it has ended.
    pub(super) fn leave(&self, hold: CountedLease) {
        let mut state = self.0.lock();
        state.reclaim(monotonic());
        state.running.remove(&hold);
    }

    /// Returns how long leases have held slots until now, summed over all leases.
    pub(super) fn slot_time(&self) -> Duration {
        let mut state = self.0.lock();
        state.reclaim(monotonic());
        state.held
    }

    /// Returns the number in flight now.
    pub(super) fn now(&self) -> usize {
        let mut state = self.0.lock();
        state.reclaim(monotonic());
        state.running.len()
    }

    /// Returns the maximum.
    pub(super) fn most(&self) -> usize {
        self.0.lock().most
    }
}

impl RunningLeases {
    fn enter(&mut self, now: Instant, end: Instant) -> CountedLease {
        self.reclaim(now);
        self.entered += 1;
        let hold = CountedLease(end, self.entered);
        // If the answer took longer than the lease, the lease has ended.
        if end > now {
            self.running.insert(hold);
            self.most = self.most.max(self.running.len());
        }
        hold
    }

    /// Removes ended leases. Each lease ends once, so the work is amortized over the grants.
    fn reclaim(&mut self, now: Instant) {
        while let Some(hold) = self.running.first().copied().filter(|hold| hold.0 <= now) {
            self.count_to(hold.0);
            self.running.pop_first();
        }
        self.count_to(now);
    }

    /// Adds the slot time up to an instant. An older reading of the clock adds nothing.
    fn count_to(&mut self, now: Instant) {
        let before = self.counted.unwrap_or(now);
        self.held += now.saturating_duration_since(before) * self.running.len() as u32;
        self.counted = Some(now.max(before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_lease_counts_until_its_end_without_a_timer() {
        let (mut state, start) = (RunningLeases::default(), monotonic());
        state.enter(start, start + SECOND);
        // Granted at the instant at which the first one ended, so there are never two.
        state.enter(start + SECOND, start + 2 * SECOND);
        assert_eq!((state.running.len(), state.most), (1, 1));
        // An older reading of the clock does not bring ended leases back.
        state.enter(start + SECOND / 2, start + 3 * SECOND);
        assert_eq!((state.running.len(), state.most), (2, 2));
    }

    #[test]
    fn slot_time_counts_each_lease_until_its_end() {
        let (mut state, start) = (RunningLeases::default(), monotonic());
        state.enter(start, start + 2 * SECOND);
        state.enter(start + SECOND, start + 5 * SECOND);
        // The first one ended at 2 s, no matter when that is noticed.
        state.reclaim(start + 4 * SECOND);
        assert_eq!(state.held, 5 * SECOND);
        state.reclaim(start + 3 * SECOND);
        assert_eq!(state.held, 5 * SECOND);
    }

    #[test]
    fn an_answer_that_outlasted_its_lease_does_not_count() {
        let (mut state, start) = (RunningLeases::default(), monotonic());
        let hold = state.enter(start + SECOND, start + SECOND);
        assert_eq!((state.running.contains(&hold), state.most), (false, 0));
    }

    #[test]
    fn an_end_is_never_after_the_servers() {
        let sent = monotonic();
        assert!(certain_end(sent, 300 * SECOND) < sent + 300 * SECOND);
        assert!(certain_end(sent, 300 * SECOND) > sent + 299 * SECOND);
    }
}
