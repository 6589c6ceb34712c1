//! Histograms of fixed buckets.

use std::time::Duration;

use super::ThreadCounter;

/// The number of finite buckets of durations: from 50 µs to over a minute, two per doubling.
const DURATIONS: usize = 42;
/// A quarter of the second bound and half of the first one, in ns: the unit of the bounds.
const UNIT: u64 = 25_000;
/// The number of finite buckets of sizes: 1, 2, 4 … 1024.
const SIZES: usize = 11;

/// Durations, in log-linear buckets: 50, 75, 100, 150, 200, 300 µs and so on.
#[derive(Debug)]
pub struct Durations {
    buckets: [ThreadCounter; DURATIONS + 1],
    /// In ns.
    sum: ThreadCounter,
}

/// Sizes, in buckets of powers of two.
#[derive(Debug)]
pub struct Sizes {
    buckets: [ThreadCounter; SIZES + 1],
    sum: ThreadCounter,
}

/// A summed histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// The sum of the values: seconds, or a number.
    pub sum: f64,
    /// The number of values.
    pub count: u64,
    /// The upper bound of each bucket with its own number of values; the last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
}

impl Default for Durations {
    fn default() -> Durations {
        Durations::new()
    }
}

impl Durations {
    /// Creates an empty histogram.
    pub const fn new() -> Durations {
        Durations {
            buckets: [const { ThreadCounter::new() }; DURATIONS + 1],
            sum: ThreadCounter::new(),
        }
    }

    /// Adds a duration. Only the thread that owns the cells may call it.
    #[inline]
    pub fn observe(&self, duration: Duration) {
        let nanos = duration.as_nanos() as u64;
        self.buckets[bucket(nanos)].add(1);
        self.sum.add(nanos);
    }

    /// Returns the sum of the histograms of all threads.
    pub fn total<'a>(all: &(impl Iterator<Item = &'a Durations> + Clone)) -> Histogram {
        let bounds = (0..DURATIONS).map(|index| bound(index) as f64 / 1e9);
        let counts =
            |index: usize| all.clone().map(|of| of.buckets[index].get()).fold(0, u64::wrapping_add);
        let sum = all.clone().map(|of| of.sum.get()).fold(0, u64::wrapping_add);
        Histogram::new(sum as f64 / 1e9, bounds, counts)
    }
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes::new()
    }
}

impl Sizes {
    /// Creates an empty histogram.
    pub const fn new() -> Sizes {
        Sizes { buckets: [const { ThreadCounter::new() }; SIZES + 1], sum: ThreadCounter::new() }
    }

    /// Adds a size. Only the thread that owns the cells may call it.
    pub fn observe(&self, size: usize) {
        let index = size.max(1).next_power_of_two().trailing_zeros() as usize;
        self.buckets[index.min(SIZES)].add(1);
        self.sum.add(size as u64);
    }

    /// Returns the sum of the histograms of all threads.
    pub fn total<'a>(all: &(impl Iterator<Item = &'a Sizes> + Clone)) -> Histogram {
        let bounds = (0..SIZES).map(|index| (1u64 << index) as f64);
        let counts =
            |index: usize| all.clone().map(|of| of.buckets[index].get()).fold(0, u64::wrapping_add);
        let sum = all.clone().map(|of| of.sum.get()).fold(0, u64::wrapping_add);
        Histogram::new(sum as f64, bounds, counts)
    }
}

impl Histogram {
    fn new(
        sum: f64,
        bounds: impl Iterator<Item = f64>,
        counts: impl Fn(usize) -> u64,
    ) -> Histogram {
        let bounds = bounds.chain([f64::MAX]).enumerate();
        let buckets: Vec<_> = bounds.map(|(index, bound)| (bound, counts(index))).collect();
        Histogram { sum, count: buckets.iter().map(|(_, count)| count).sum(), buckets }
    }
}

/// Returns the bucket of a duration. A duration that equals a bound is below it.
#[inline]
fn bucket(nanos: u64) -> usize {
    let units = nanos.saturating_sub(1) / UNIT;
    if units < 2 {
        return 0;
    }
    let octave = units.ilog2() as usize;
    let half = (units >> (octave - 1)) as usize & 1;
    (octave * 2 + half - 1).min(DURATIONS)
}

/// Returns the upper bound of a bucket, in ns.
fn bound(index: usize) -> u64 {
    match index {
        0 => 2 * UNIT,
        _ => {
            let (octave, half) = (index.div_ceil(2), (index as u64 - 1) % 2);
            UNIT * ((1 << octave) + (half + 1) * (1 << (octave - 1)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_buckets_agree() {
        let bounds: Vec<u64> = (0..7).map(|index| bound(index) / 1000).collect();
        assert_eq!(bounds, [50, 75, 100, 150, 200, 300, 400]);
        for index in 0..DURATIONS {
            let most = bound(index);
            assert_eq!(bucket(most), index, "{most} ns");
            assert_eq!(bucket(most + 1), index + 1, "{} ns", most + 1);
        }
        assert!((60..100).contains(&(bound(DURATIONS - 1) / 1_000_000_000)));
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, DURATIONS));
    }

    #[test]
    fn sizes_lie_below_their_bound() {
        let sizes = Sizes::new();
        for size in [0, 1, 2, 3, 4, 5, 1024, 1025, usize::MAX / 4] {
            sizes.observe(size);
        }
        let counts: Vec<u64> = sizes.buckets.iter().map(ThreadCounter::get).collect();
        assert_eq!(counts, [2, 1, 2, 1, 0, 0, 0, 0, 0, 0, 1, 2]);
    }
}
