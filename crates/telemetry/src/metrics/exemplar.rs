//! The exemplar of each RPC: a sampled call that was slow, with its trace.
//!
//! Only sampled calls come here, so the cost of a lock does not matter.

use parking_lot::Mutex;

use super::METHODS_MAX;
use crate::spans::TraceId;

/// The time after which any sampled call replaces an exemplar, in µs.
const AGE_MAX: u64 = 60_000_000;

/// A call of a histogram, with its trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exemplar {
    /// The trace.
    pub trace: TraceId,
    /// When the call ended.
    pub end: u64,
    /// Its duration, in seconds.
    pub seconds: f64,
}

static ALL: Mutex<[Option<Exemplar>; METHODS_MAX]> = Mutex::new([None; METHODS_MAX]);

impl Exemplar {
    /// Records a sampled call of the RPC at this position. It replaces the exemplar unless that one
    /// was slower and is younger than a minute.
    pub fn record(method: usize, trace: TraceId, start: u64, end: u64) {
        let seconds = end.saturating_sub(start) as f64 / 1e6;
        let new = Exemplar { trace, end, seconds };
        let mut all = ALL.lock();
        let Some(last) = all.get_mut(method) else { return };
        if last.is_none_or(|last| last.seconds <= seconds || last.end + AGE_MAX < end) {
            *last = Some(new);
        }
    }

    /// Returns the exemplar of the RPC at this position.
    pub fn lookup(method: usize) -> Option<Exemplar> {
        ALL.lock().get(method).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_call_stays_for_a_minute() {
        let method = METHODS_MAX - 1;
        let note = |trace, start, end| {
            Exemplar::record(method, TraceId(trace), start, end);
            Exemplar::lookup(method).unwrap().trace.0
        };
        assert_eq!(note(1, 1_000, 2_000), 1);
        assert_eq!(note(2, 2_000, 4_000), 2, "a slower call");
        assert_eq!(note(3, 4_000, 6_000), 3, "a later call of the same duration");
        assert_eq!(note(4, 6_000, 6_100), 3, "a faster call");
        assert_eq!(note(5, 60_006_001, 60_006_101), 5, "a faster call after a minute");
        assert_eq!(Exemplar::lookup(method).unwrap().seconds, 0.0001);
        Exemplar::record(METHODS_MAX, TraceId(6), 0, 1);
        assert_eq!(Exemplar::lookup(METHODS_MAX), None);
    }
}
