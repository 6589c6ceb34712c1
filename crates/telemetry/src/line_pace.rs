//! Limits on log lines that a caller or a failing store can repeat.

use std::{collections::HashMap, hash::Hash, mem, sync::LazyLock, time::Duration};

use ahash::RandomState;
use parking_lot::Mutex;

use super::clock::coarse;

/// A limit on one kind of line. After suppressed lines, the next line reports their number.
#[derive(Debug)]
pub struct LinePace {
    lines_max: u32,
    period: Duration,
    paced: Mutex<Paced>,
}

#[derive(Debug, Clone, Copy)]
struct Paced {
    /// Start of the period on the coarse clock.
    start: Duration,
    /// The lines of the period so far.
    lines: u32,
    /// The lines that were suppressed since the last logged one.
    suppressed: u64,
}

impl Paced {
    const NEW: Paced = Paced { start: Duration::ZERO, lines: 0, suppressed: 0 };

    fn due(&mut self, lines_max: u32, period: Duration, now: Duration) -> Option<u64> {
        if now.saturating_sub(self.start) >= period {
            (self.start, self.lines) = (now, 0);
        }
        if self.lines >= lines_max {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        Some(mem::take(&mut self.suppressed))
    }
}

impl LinePace {
    /// Permits at most `lines_max` lines in a period.
    pub const fn new(lines_max: u32, period: Duration) -> LinePace {
        LinePace { lines_max, period, paced: Mutex::new(Paced::NEW) }
    }

    /// Returns how many lines were suppressed since the last one, if a line may be logged.
    pub fn due(&self) -> Option<u64> {
        self.due_at(coarse())
    }

    fn due_at(&self, now: Duration) -> Option<u64> {
        self.paced.lock().due(self.lines_max, self.period, now)
    }
}

/// A limit on each of many kinds of lines. Above the maximum number of kinds, all further kinds
/// share one limit.
#[derive(Debug)]
pub struct LinePaces<K> {
    lines_max: u32,
    period: Duration,
    kinds_max: usize,
    kinds: LazyLock<Mutex<HashMap<Option<K>, Paced, RandomState>>>,
}

impl<K: Eq + Hash> LinePaces<K> {
    /// Permits at most `lines_max` lines of a kind in a period.
    pub const fn new(lines_max: u32, period: Duration, kinds_max: usize) -> LinePaces<K> {
        LinePaces { lines_max, period, kinds_max, kinds: LazyLock::new(Mutex::default) }
    }

    /// Returns how many lines of this kind were suppressed since the last one, if a line may be
    /// logged.
    pub fn due(&self, kind: K) -> Option<u64> {
        self.due_at(kind, coarse())
    }

    fn due_at(&self, kind: K, now: Duration) -> Option<u64> {
        let mut kinds = self.kinds.lock();
        let kind = Some(kind);
        let kind =
            if kinds.len() < self.kinds_max || kinds.contains_key(&kind) { kind } else { None };
        kinds.entry(kind).or_insert(Paced::NEW).due(self.lines_max, self.period, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(1);

    #[test]
    fn a_flood_of_lines_is_a_few_lines_with_a_count() {
        let (pace, now) = (LinePace::new(20, PERIOD), Duration::from_secs(100));
        for _ in 0..20 {
            assert_eq!(pace.due_at(now), Some(0));
        }
        for _ in 0..5 {
            assert_eq!(pace.due_at(now), None);
        }
        assert_eq!(pace.due_at(now + PERIOD), Some(5));
        assert_eq!(pace.due_at(now + PERIOD), Some(0));
    }

    #[test]
    fn kinds_do_not_suppress_each_other_and_their_number_is_bounded() {
        let (paces, now) = (LinePaces::new(1, PERIOD, 100), Duration::from_secs(100));
        let logged = (0..1_000).filter(|kind| paces.due_at(*kind, now).is_some()).count();
        assert_eq!(logged, 101, "the kinds above the maximum share a limit");
        assert_eq!(paces.kinds.lock().len(), 101);
        assert_eq!(paces.due_at(7, now), None);
        assert_eq!(paces.due_at(7, now + PERIOD), Some(1));
    }
}
