//! Allowed calls over time.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Number of time slots, so that a run that ends early still has a detailed chart.
const SLOTS: u32 = 960;
/// Maximum number of columns of the chart.
const COLUMNS: usize = 60;
/// Runs of at least this many windows get columns of whole windows. In a column shorter than a
/// window, the start of a new window would look like an excess.
const WINDOWS: u32 = 20;

/// Counts allowed calls by time slot.
#[derive(Debug)]
pub(super) struct Timeline {
    start: Instant,
    slot: Duration,
    counts: Vec<AtomicU64>,
}

/// The chart: calls per second in each interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Columns {
    /// Calls per second, one number per column.
    pub(super) per_second: Vec<f64>,
    /// Time that one column covers.
    pub(super) length: Duration,
}

impl Timeline {
    /// Creates the timeline of a run of this length, for a limit with this window.
    pub(super) fn new(start: Instant, run: Duration, window: Duration) -> Timeline {
        let fine = (run / SLOTS).max(Duration::from_millis(1));
        let slot = match run >= window * WINDOWS {
            true => window * whole(fine, window),
            false => fine,
        };
        let counts = (0..whole(run, slot)).map(|_| AtomicU64::new(0)).collect();
        Timeline { start, slot, counts }
    }

    /// Counts an allowed call; ignores calls that were answered after the end of the run.
    pub(super) fn add(&self, received: Instant) {
        let passed = received.saturating_duration_since(self.start);
        let slot = passed.as_nanos() / self.slot.as_nanos();
        if let Some(count) = usize::try_from(slot).ok().and_then(|slot| self.counts.get(slot)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the columns of the first part of the run. An incomplete last column is omitted,
    /// unless it is the only one.
    pub(super) fn columns(&self, run: Duration) -> Columns {
        let passed = (run.as_nanos() / self.slot.as_nanos()) as usize;
        let slots = &self.counts[..passed.clamp(1, self.counts.len())];
        let each = slots.len().div_ceil(COLUMNS);
        let length = self.slot * each as u32;
        let sum = |slots: &[AtomicU64]| -> u64 {
            slots.iter().map(|count| count.load(Ordering::Relaxed)).sum()
        };
        let per_second = slots
            .chunks_exact(each)
            .map(|column| sum(column) as f64 / length.as_secs_f64())
            .collect();
        Columns { per_second, length }
    }
}

/// Returns how many `part`s cover `all`, rounded up, at least one.
fn whole(all: Duration, part: Duration) -> u32 {
    let times = all.as_nanos().div_ceil(part.as_nanos().max(1));
    u32::try_from(times).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::time::monotonic;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn long_runs_have_columns_of_whole_windows() {
        let start = monotonic();
        let timeline = Timeline::new(start, 30 * SECOND, SECOND);
        for millis in [100, 200, 300, 1100, 29_999, 30_001] {
            timeline.add(start + Duration::from_millis(millis));
        }
        let columns = timeline.columns(30 * SECOND);
        assert_eq!((columns.length, columns.per_second.len()), (SECOND, 30));
        assert_eq!(columns.per_second[..3], [3.0, 1.0, 0.0]);
        assert_eq!(columns.per_second[29], 1.0);
        // One hour: each column covers several windows.
        let hour = Timeline::new(start, 3600 * SECOND, SECOND).columns(3600 * SECOND);
        assert_eq!((hour.length, hour.per_second.len()), (60 * SECOND, 60));
    }

    #[test]
    fn short_runs_have_columns_shorter_than_the_window() {
        let timeline = Timeline::new(monotonic(), 30 * SECOND, 60 * SECOND);
        let columns = timeline.columns(30 * SECOND);
        assert_eq!((columns.length, columns.per_second.len()), (SECOND / 2, 60));
    }

    #[test]
    fn a_run_ended_early_still_has_a_picture() {
        let start = monotonic();
        let timeline = Timeline::new(start, 3600 * SECOND, SECOND);
        timeline.add(start);
        let columns = timeline.columns(40 * SECOND);
        assert_eq!((columns.length, columns.per_second.len()), (4 * SECOND, 10));
        assert_eq!(columns.per_second[0], 0.25);
        assert_eq!(timeline.columns(SECOND).per_second.len(), 1);
    }
}
