//! Counts the AdmitTask calls that this server has answered FULL, per pool.

use std::{collections::HashMap, mem};

use ahash::RandomState;

use tollgate_core::names::Name;
use tollgate_telemetry::metrics::ByThread;

/// Number of pools per generation. A thread keeps two generations, so it counts at most twice as
/// many pools.
const GENERATION: usize = 1_000;

/// The FULL answers of one pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Refused {
    /// Total.
    pub(super) all: u64,
    /// Answered from the denial cache.
    pub(super) cached: u64,
}

/// The counts of the pools that refused calls most recently; further pools lose their count. Each
/// thread counts for itself, so that a storm of refusals on all threads contends for no lock.
#[derive(Debug, Default)]
pub(super) struct Refusals(ByThread<FullCounts>);

/// When `young` is full it becomes `old`, and the previous `old` is dropped.
#[derive(Debug, Default)]
struct FullCounts {
    young: HashMap<Box<[u8]>, Refused, RandomState>,
    old: HashMap<Box<[u8]>, Refused, RandomState>,
}

impl Refusals {
    /// Counts one FULL answer.
    pub(super) fn add(&self, pool: &Name, is_cached: bool) {
        self.0.own().add(pool.as_bytes(), is_cached);
    }

    /// Returns the counts of a pool; zero if the pool is not counted.
    pub(super) fn lookup(&self, pool: &Name) -> Refused {
        let mut sum = Refused::default();
        self.0.each(|counts| {
            let count = counts.young.get(pool.as_bytes()).or(counts.old.get(pool.as_bytes()));
            let Refused { all, cached } = count.copied().unwrap_or_default();
            sum = Refused { all: sum.all + all, cached: sum.cached + cached };
        });
        sum
    }
}

impl FullCounts {
    /// Counts a refusal, and moves the pool to the young generation.
    fn add(&mut self, pool: &[u8], is_cached: bool) {
        if let Some(count) = self.young.get_mut(pool) {
            count.add(is_cached);
            return;
        }
        let mut count = self.old.remove(pool).unwrap_or_default();
        count.add(is_cached);
        if self.young.len() >= GENERATION {
            self.old = mem::take(&mut self.young);
        }
        // Copied, because the name is a slice of a message, which must not stay in memory.
        self.young.insert(pool.into(), count);
    }
}

impl Refused {
    fn add(&mut self, is_cached: bool) {
        self.all += 1;
        self.cached += u64::from(is_cached);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j24_refusals_on_all_threads_are_counted_exactly() {
        let refusals = Refusals::default();
        let pool = Name::parse("pool".into()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..1000).for_each(|number| refusals.add(&pool, number % 4 == 0)));
            }
        });
        assert_eq!(refusals.lookup(&pool), Refused { all: 20_000, cached: 5_000 });
    }

    #[test]
    fn pools_that_keep_refusing_keep_their_count() {
        let mut counts = FullCounts::default();
        for number in 0..100_000u64 {
            counts.add(&number.to_le_bytes(), false);
            if number % 1000 == 0 {
                counts.add(b"busy", number % 4000 == 0);
            }
        }
        let busy = counts.young.get(&b"busy"[..]).or(counts.old.get(&b"busy"[..]));
        assert_eq!(busy, Some(&Refused { all: 100, cached: 25 }));
        assert!(counts.young.len() + counts.old.len() <= 2 * GENERATION);
        assert_eq!(counts.old.get(&0u64.to_le_bytes()[..]), None);
    }
}
