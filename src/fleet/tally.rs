//! What came of a run, counted while it runs.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use hdrhistogram::Histogram;

use super::gauge::Gauge;
use crate::admission::{CompleteVerdict, Usage};

/// A number that only grows. Nothing is ordered by it.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    /// One more.
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Failed calls by gRPC code.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<BTreeMap<&'static str, u64>>);

impl Failures {
    /// Notes a failed call.
    pub(super) fn add(&self, code: &'static str) {
        *self.lock().entry(code).or_default() += 1;
    }

    /// How many of each code.
    pub(super) fn by_code(&self) -> BTreeMap<&'static str, u64> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything that is counted. Leases are counted once each; answers, as they
/// come, so that a message sent twice has two.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Devices in flight.
    pub(super) gauge: Gauge,
    /// Leases that devices came to hold.
    pub(super) admitted: Count,
    /// Leases whose report was answered, whatever the verdict.
    pub(super) reported: Count,
    /// Leases that ended without a result.
    pub(super) expired: Count,
    /// Tasks that waited for a slot when the fleet stopped. Their waits are
    /// not among `waits`, which then looks shorter than it was.
    pub(super) unserved: Count,
    /// Answers that gave a lease once more.
    pub(super) replayed: Count,
    /// Answers FULL.
    pub(super) full: Count,
    /// Answers PAUSED.
    pub(super) paused: Count,
    /// Answers ALREADY_COMPLETED to a device that asked for a slot.
    pub(super) done_before: Count,
    /// Verdicts COMPLETED.
    pub(super) completed: Count,
    /// Verdicts ALREADY_COMPLETED.
    pub(super) already_completed: Count,
    /// Verdicts LATE.
    pub(super) late: Count,
    /// Verdicts STALE_TOKEN.
    pub(super) stale: Count,
    /// Verdicts UNKNOWN.
    pub(super) unknown: Count,
    /// Calls, answered or failed.
    pub(super) calls: Count,
    /// Failed calls.
    pub(super) failed: Failures,
    capacity: AtomicU32,
    /// First ask to admission, of each task.
    pub(super) waits: Times,
    /// Sent to answered, of each answered call.
    pub(super) latencies: Times,
}

impl Tally {
    /// Notes a pool's capacity; the highest is what the cap was.
    pub(super) fn usage(&self, usage: Usage) {
        self.capacity.fetch_max(usage.capacity, Ordering::Relaxed);
    }

    /// The highest capacity seen.
    pub(super) fn capacity(&self) -> u32 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Notes what became of a result.
    pub(super) fn verdict(&self, verdict: CompleteVerdict) {
        match verdict {
            CompleteVerdict::AlreadyCompleted => self.already_completed.add(),
            CompleteVerdict::Completed => self.completed.add(),
            CompleteVerdict::Late => self.late.add(),
            CompleteVerdict::StaleToken => self.stale.add(),
            CompleteVerdict::Unknown => self.unknown.add(),
        }
    }

    /// Leases of which neither a report was answered nor the end seen.
    pub(super) fn left_running(&self) -> u64 {
        self.admitted.get().saturating_sub(self.reported.get() + self.expired.get())
    }
}

/// Lengths of time, to three digits.
#[derive(Debug)]
pub(super) struct Times(Mutex<Option<Histogram<u64>>>);

impl Default for Times {
    fn default() -> Times {
        // Up to a day in microseconds; longer ones count as that.
        Times(Mutex::new(Histogram::new_with_bounds(1, 86_400_000_000, 3).ok()))
    }
}

impl Times {
    /// Notes one.
    pub(super) fn add(&self, length: Duration) {
        let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        if let Some(histogram) = &mut *self.lock() {
            histogram.saturating_record(micros);
        }
    }

    /// The length that `share` of them do not exceed; none without any.
    pub(super) fn quantile(&self, share: f64) -> Option<Duration> {
        let histogram = self.lock();
        let histogram = histogram.as_ref().filter(|histogram| !histogram.is_empty())?;
        Some(Duration::from_micros(histogram.value_at_quantile(share)))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Histogram<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_noted() {
        let times = Times::default();
        assert_eq!(times.quantile(0.5), None);
        (1..=100).for_each(|millis| times.add(Duration::from_millis(millis)));
        times.add(Duration::from_secs(1_000_000));
        let near = |share: f64| times.quantile(share).expect("not empty").as_millis();
        assert_eq!((near(0.5), near(0.98)), (51, 99));
    }

    #[test]
    fn the_cap_is_the_highest_capacity_seen() {
        let tally = Tally::default();
        for capacity in [60, 80, 5] {
            tally.usage(Usage { capacity, in_use: 0 });
        }
        assert_eq!(tally.capacity(), 80);
    }

    #[test]
    fn every_lease_is_accounted_for_once() {
        let tally = Tally::default();
        (0..5).for_each(|_| tally.admitted.add());
        (0..2).for_each(|_| tally.reported.add());
        tally.expired.add();
        assert_eq!(tally.left_running(), 2);
    }
}
