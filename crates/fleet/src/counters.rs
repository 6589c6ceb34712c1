//! Counters of a run.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use hdrhistogram::Histogram;
use parking_lot::Mutex;

/// A counter. It orders no other memory accesses.
#[derive(Debug, Default)]
pub(super) struct AtomicCounter(AtomicU64);

impl AtomicCounter {
    /// Adds one.
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Raises the counter to a value.
    pub(super) fn raise(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    /// Returns the count.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters by name: gRPC codes, or outcomes by their names on the wire.
#[derive(Debug, Default)]
pub(super) struct NamedCounts(Mutex<BTreeMap<&'static str, u64>>);

impl NamedCounts {
    /// Adds one.
    pub(super) fn add(&self, name: &'static str) {
        *self.0.lock().entry(name).or_default() += 1;
    }

    /// Returns the count for a name.
    pub(super) fn get(&self, name: &str) -> u64 {
        self.0.lock().get(name).copied().unwrap_or_default()
    }

    /// Returns all counts, by name.
    pub(super) fn all(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().clone()
    }
}

/// Durations, with three significant digits.
#[derive(Debug)]
pub(super) struct Times(Mutex<Option<Histogram<u64>>>);

impl Default for Times {
    fn default() -> Times {
        // In µs, up to one day; longer values count as one day.
        Times(Mutex::new(Histogram::new_with_bounds(1, 86_400_000_000, 3).ok()))
    }
}

impl Times {
    /// Adds a duration.
    pub(super) fn add(&self, length: Duration) {
        let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        if let Some(histogram) = &mut *self.0.lock() {
            histogram.saturating_record(micros);
        }
    }

    /// Returns the duration that the fraction `share` of the values do not exceed; `None` without
    /// values.
    pub(super) fn quantile(&self, share: f64) -> Option<Duration> {
        let histogram = self.0.lock();
        let histogram = histogram.as_ref().filter(|histogram| !histogram.is_empty())?;
        Some(Duration::from_micros(histogram.value_at_quantile(share)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_the_added_values() {
        let times = Times::default();
        assert_eq!(times.quantile(0.5), None);
        (1..=100).for_each(|millis| times.add(Duration::from_millis(millis)));
        times.add(Duration::from_secs(1_000_000));
        let near = |share: f64| times.quantile(share).expect("not empty").as_millis();
        assert_eq!((near(0.5), near(0.98)), (51, 99));
    }
}
