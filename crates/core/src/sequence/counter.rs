//! The state of one sequence in the embedded engine.

use serde::{Deserialize, Serialize};

use super::{ahead::Ahead, allocation::Range};
use crate::{
    Bin, Footprint, State,
    collections::{ExpiringMap, ExpiringValue},
    time::Timestamp,
};

impl ExpiringValue for (Range, bool) {}

/// The state of a sequence. It never expires, because its values must not be allocated again.
#[derive(Debug, Default)]
pub struct Counter {
    /// The last allocated value, and when it was allocated.
    pub(super) last: Option<(u64, Timestamp)>,
    /// The marks of a sequence that reserves values ahead.
    pub(super) marks: Option<Marks>,
    /// The values that the embedded engine has reserved on its disk; `None` without a disk.
    pub(super) ahead: Option<Box<Ahead>>,
    /// Allocated ranges by request id, for repeats; true if the floor was applied.
    pub(super) replays: ExpiringMap<(Range, bool)>,
}

/// High-water marks.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Marks {
    /// No value above this was allocated.
    pub(super) reserved: u64,
    /// The replicas have acknowledged a reservation up to this.
    pub(super) confirmed: u64,
}

/// The reserved values of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedBlock {
    /// The reserved mark: no value above it was allocated.
    pub upto: u64,
    /// The epoch of the store: another one after a restart or a failover. Empty in the embedded
    /// engine, which has only one.
    pub epoch: Vec<u8>,
}

impl Counter {
    /// Returns the last reserved value that replicas have, from the stored mark and the caller's
    /// knowledge.
    pub(super) fn confirmed(&self, known: Option<&ReservedBlock>) -> u64 {
        // The embedded engine has a single epoch, so the caller's knowledge is always valid.
        let known = known.map_or(0, |known| known.upto);
        self.marks.map_or(0, |marks| marks.confirmed.max(known))
    }
}

impl State for Counter {
    const CAPABILITY: &'static str = "sequence";
    const NAME_KEY: Option<&'static str> = Some("counter");

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.replays.bytes(), ..Footprint::default() }
    }

    fn sweep(&mut self, now: Timestamp, budget: usize, _: &mut Bin) -> usize {
        self.replays.sweep(now, budget)
    }

    fn is_vacant(&self, _: Timestamp) -> bool {
        self.last.is_none() && self.marks.is_none() && self.replays.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeping_removes_answers_but_no_values() {
        let range = Range { last: 1, step: 1, count: 1 };
        let mut counter = Counter::default();
        counter.replays.insert(b"request", (range, false), Timestamp(10), Timestamp(0));
        counter.sweep(Timestamp(9), 100, &mut Bin::new());
        assert!(!counter.is_vacant(Timestamp(9)));
        counter.sweep(Timestamp(10), 100, &mut Bin::new());
        assert!(counter.is_vacant(Timestamp(10)));
        counter.last = Some((1, Timestamp(0)));
        counter.sweep(Timestamp(u64::MAX), 100, &mut Bin::new());
        assert!(!counter.is_vacant(Timestamp(u64::MAX)));
    }
}
