//! Number of devices in flight, as the devices see it.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use tollgate_core::time::monotonic;

/// Fraction 1/1000 of a lease by which the server's clock may gain on ours: twice the rate of a
/// clock under correction.
const DRIFT: u32 = 1000;

/// Counts the leases that certainly run on the server, and keeps the maximum.
///
/// The count never exceeds the server's own, otherwise it could report a false fault. A lease
/// counts from the receipt of its grant, which follows the grant. It counts until just before its
/// report is sent, which precedes the release, and at most until [`certain_end`], which precedes
/// its end.
/// The clock is read and the count taken under one lock, so a late timer cannot falsify it.
#[derive(Debug, Default)]
pub(super) struct Concurrency(Mutex<RunningLeases>);

#[derive(Debug, Default)]
struct RunningLeases {
    /// The earliest end first.
    running: BTreeSet<CountedLease>,
    entered: u64,
    most: usize,
    /// Time that leases held slots, summed over the leases.
    held: Duration,
    /// The instant up to which `held` counts.
    counted: Option<Instant>,
}

/// A counted lease: its end, and a unique number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CountedLease(Instant, u64);

/// Returns when to stop counting a lease. It was granted after `sent`, the instant before the
/// granted call was sent, so it still runs at the returned instant.
pub(super) fn certain_end(sent: Instant, length: Duration) -> Instant {
    sent + (length - length / DRIFT)
}

impl Concurrency {
    /// Starts counting a lease.
    pub(super) fn enter(&self, end: Instant) -> CountedLease {
        let mut state = self.0.lock();
        // Read under the lock: an earlier reading would count ended leases.
        state.enter(monotonic(), end)
    }

    /// Stops counting a lease; does nothing if it has ended.
    pub(super) fn leave(&self, hold: CountedLease) {
        let mut state = self.0.lock();
        state.reclaim(monotonic());
        state.running.remove(&hold);
    }

    /// Returns how long leases held slots until now, summed over the leases.
    pub(super) fn held(&self) -> Duration {
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
        // The lease has ended if the answer took longer than the lease.
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
        // Granted at the instant at which the first one ended, so never two at once.
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
        // The first one ended at 2 s, whenever that is noticed.
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
