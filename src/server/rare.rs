//! Log lines that peers can cause: at most one in ten seconds, with the number of suppressed lines.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tollgate_telemetry::coarse;

/// The shortest time between two lines.
const EVERY: Duration = Duration::from_secs(10);

/// The limit on one kind of line.
#[derive(Debug)]
pub(super) struct Rare {
    /// Time of the next line on the coarse clock, ms.
    next: AtomicU64,
    /// Lines since the last one.
    suppressed: AtomicU64,
}

impl Rare {
    pub(super) const fn new() -> Rare {
        Rare { next: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }

    /// Returns how many lines were suppressed since the last one, if a line may be logged now.
    pub(super) fn due(&self) -> Option<u64> {
        self.due_at(coarse())
    }

    fn due_at(&self, now: Duration) -> Option<u64> {
        let (now, next) = (now.as_millis() as u64, self.next.load(Ordering::Relaxed));
        let after = now + EVERY.as_millis() as u64;
        let relaxed = Ordering::Relaxed;
        if now < next || self.next.compare_exchange(next, after, relaxed, relaxed).is_err() {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.suppressed.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_in_ten_seconds() {
        let (rare, now) = (Rare::new(), Duration::from_secs(100));
        assert_eq!(rare.due_at(now), Some(0));
        assert_eq!(rare.due_at(now), None);
        assert_eq!(rare.due_at(now + Duration::from_secs(9)), None);
        assert_eq!(rare.due_at(now + EVERY), Some(2));
        assert_eq!(rare.due_at(now + EVERY), None);
    }
}
