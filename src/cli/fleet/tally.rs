//! Counters of a run of devices.

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

/// A counter. It orders no other memory accesses.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    /// Adds one.
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the count.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Failed calls by gRPC code.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<BTreeMap<&'static str, u64>>);

impl Failures {
    /// Counts a failed call.
    pub(super) fn add(&self, code: &'static str) {
        *self.lock().entry(code).or_default() += 1;
    }

    /// Returns the count of each code.
    pub(super) fn by_code(&self) -> BTreeMap<&'static str, u64> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All counters. Leases count once. Answers count each, so a message that is sent twice counts
/// twice.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Devices in flight.
    pub(super) gauge: Gauge,
    /// Leases that devices held.
    pub(super) admitted: Count,
    /// Leases whose report was answered, with any verdict.
    pub(super) reported: Count,
    /// Leases that ended without a result.
    pub(super) expired: Count,
    /// Tasks that waited for a slot when the fleet stopped. `waits` does not contain them, so its
    /// values are too low then.
    pub(super) unserved: Count,
    /// Answers that repeated a lease.
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
    /// Time from the first request to the admission of each task.
    pub(super) waits: Times,
    /// Latencies of answered calls.
    pub(super) latencies: Times,
}

impl Tally {
    /// Records the capacity of the pool; the highest value is the cap.
    pub(super) fn usage(&self, usage: Usage) {
        self.capacity.fetch_max(usage.capacity, Ordering::Relaxed);
    }

    /// Returns the highest capacity.
    pub(super) fn capacity(&self) -> u32 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Counts the verdict on a result.
    pub(super) fn verdict(&self, verdict: CompleteVerdict) {
        match verdict {
            CompleteVerdict::AlreadyCompleted => self.already_completed.add(),
            CompleteVerdict::Completed => self.completed.add(),
            CompleteVerdict::Late => self.late.add(),
            CompleteVerdict::StaleToken => self.stale.add(),
            CompleteVerdict::Unknown => self.unknown.add(),
        }
    }

    /// Returns the number of leases without an answered report and without a known end.
    pub(super) fn left_running(&self) -> u64 {
        self.admitted.get().saturating_sub(self.reported.get() + self.expired.get())
    }
}

/// Durations, with three significant digits.
#[derive(Debug)]
pub(super) struct Times(Mutex<Option<Histogram<u64>>>);

impl Default for Times {
    fn default() -> Times {
        // Up to one day in µs; longer values count as one day.
        Times(Mutex::new(Histogram::new_with_bounds(1, 86_400_000_000, 3).ok()))
    }
}

impl Times {
    /// Adds a duration.
    pub(super) fn add(&self, length: Duration) {
        let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        if let Some(histogram) = &mut *self.lock() {
            histogram.saturating_record(micros);
        }
    }

    /// Returns the duration that `share` of the values do not exceed; `None` without values.
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
