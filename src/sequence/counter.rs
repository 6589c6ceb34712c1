//! What is kept of a sequence.

use serde::{Deserialize, Serialize};

use super::{allotment::Range, reserve::Reservation};
use crate::{
    decision::{Bin, State},
    memory::Memory,
    time::Timestamp,
};

/// How far a sequence has come. It never lapses: what was given out must not be
/// given out again.
#[derive(Debug, Default)]
pub struct Counter {
    /// The last value given out, and when.
    pub(super) last: Option<(u64, Timestamp)>,
    /// Of a sequence that reserves ahead.
    pub(super) marks: Option<Marks>,
    pub(super) replays: Memory<(Range, bool)>,
}

/// High-water marks.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Marks {
    /// No store has given out a value above this.
    pub(super) reserved: u64,
    /// The replicas are known to have a reservation up to this.
    pub(super) confirmed: u64,
}

impl Counter {
    /// What is confirmed, by what is kept and what the caller knows.
    pub(super) fn confirmed(&self, known: Option<&Reservation>) -> u64 {
        // One that leads for as long as it is there: there is no other epoch.
        let known = known.map_or(0, |known| known.upto);
        self.marks.map_or(0, |marks| marks.confirmed.max(known))
    }
}

impl State for Counter {
    const CAPABILITY: &'static str = "sequence";

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
    fn answers_are_swept_and_values_are_not() {
        let range = Range { last: 1, step: 1, count: 1 };
        let mut counter = Counter::default();
        counter.replays.keep(b"request", (range, false), Timestamp(10), Timestamp(0));
        counter.sweep(Timestamp(9), 100, &mut Bin::new());
        assert!(!counter.is_vacant(Timestamp(9)));
        counter.sweep(Timestamp(10), 100, &mut Bin::new());
        assert!(counter.is_vacant(Timestamp(10)));
        counter.last = Some((1, Timestamp(0)));
        counter.sweep(Timestamp(u64::MAX), 100, &mut Bin::new());
        assert!(!counter.is_vacant(Timestamp(u64::MAX)));
    }
}
