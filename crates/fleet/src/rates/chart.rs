//! A plain-text column chart of allowed calls over time, with the limit as a horizontal line.

use std::{
    iter::repeat_n,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tollgate_telemetry::text::{grouped, length};

/// Number of time slots: enough for a detailed chart even if the run ends early.
const SLOTS: u32 = 960;
/// Maximum number of columns of the chart.
const COLUMNS: usize = 60;
/// Runs of at least this many windows get columns of whole windows, because in a column shorter
/// than a window, the start of a new window would look like an excess.
const WINDOWS: u32 = 20;

/// Counts allowed calls by time slot.
#[derive(Debug)]
pub(super) struct Timeline {
    slot: Duration,
    counts: Vec<AtomicU64>,
}

/// The columns of the chart.
#[derive(Debug)]
pub(super) struct Columns {
    /// Calls per second, one number per column.
    per_second: Vec<f64>,
    /// Time that one column covers.
    length: Duration,
}

impl Timeline {
    /// Creates the timeline for a run of this length and a limit with this window.
    pub(super) fn new(run: Duration, window: Duration) -> Timeline {
        let fine = (run / SLOTS).max(Duration::from_millis(1));
        let slot = if run >= window * WINDOWS { window * whole(fine, window) } else { fine };
        let counts = (0..whole(run, slot)).map(|_| AtomicU64::new(0)).collect();
        Timeline { slot, counts }
    }

    /// Counts an allowed call that was answered `passed` after the start. Ignores calls that were
    /// answered after the end of the run.
    pub(super) fn add(&self, passed: Duration) {
        let slot = passed.as_nanos() / self.slot.as_nanos();
        if let Some(count) = usize::try_from(slot).ok().and_then(|slot| self.counts.get(slot)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the columns for the first part of the timeline, `run`. Omits an incomplete last
    /// column unless it is the only one.
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

/// Returns how many `part`s cover `all`: rounded up, and at least one.
fn whole(all: Duration, part: Duration) -> u32 {
    let times = all.as_nanos().div_ceil(part.as_nanos().max(1));
    u32::try_from(times).unwrap_or(u32::MAX).max(1)
}

/// Maximum total width of the columns.
const WIDTH: usize = 60;
/// Number of rows, not counting the line of the limit.
const ROWS: usize = 8;
/// Characters for zero to eight eighths of a row.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A row of the chart, or a line between rows.
struct ChartRow {
    label: String,
    /// The axis at this row.
    axis: char,
    cells: String,
}

impl Columns {
    /// Draws the chart with a horizontal line at the limit. The parts above and below the line have
    /// about the same scale.
    pub(super) fn draw(&self, title: &str, limit: f64) -> String {
        let most = self.per_second.iter().copied().fold(0.0, f64::max);
        let below = match limit {
            limit if limit <= 0.0 => 0,
            limit if most <= limit => ROWS,
            limit => ((limit / most * ROWS as f64).round() as usize).clamp(1, ROWS - 1),
        };
        let above = if most > limit { ROWS - below } else { 0 };
        // A column that exceeds the limit covers the line.
        let line = self.cells(|value| if value > limit * 1.01 { '█' } else { '─' });
        let bottom = self.cells(|_| '─');
        let times = self.times(bottom.chars().count());

        let mut rows = self.rows(limit, limit, most, above);
        rows.push(ChartRow { label: format!("limit {}", number(limit)), axis: '┼', cells: line });
        rows.extend(self.rows(limit, 0.0, limit, below));
        rows.push(ChartRow { label: "0".to_owned(), axis: '└', cells: bottom });
        rows.push(ChartRow { label: String::new(), axis: ' ', cells: times });

        let margin = rows.iter().map(|row| row.label.len()).max().unwrap_or(0);
        let mut text = format!("{title}, a column for each {}:", length(self.length));
        for ChartRow { label, axis, cells } in &rows {
            text += &format!("\n{label:>margin$} {axis}{}", cells.trim_end());
        }
        text
    }

    /// Divides a range into rows of equal height, from the top; every other row has a label.
    fn rows(&self, limit: f64, from: f64, to: f64, count: usize) -> Vec<ChartRow> {
        let height = (to - from) / count as f64;
        let row = |index: usize| {
            let (top, is_lowest) = (to - height * index as f64, index + 1 == count);
            // The line of the limit has its own label.
            let is_labelled = index.is_multiple_of(2) && top != limit;
            let label = if is_labelled { number(top) } else { String::new() };
            let axis = if label.is_empty() { '│' } else { '┤' };
            let cells = self.cells(|value| {
                let eighths = ((value - top + height) / height * 8.0).round().clamp(0.0, 8.0);
                // A small value is drawn as one eighth rather than as zero.
                let least = usize::from(from == 0.0 && is_lowest && value > 0.0);
                BLOCKS[(eighths as usize).max(least)]
            });
            ChartRow { label, axis, cells }
        };
        (0..count).map(row).collect()
    }

    /// Draws one character for each column, as wide as the column.
    fn cells(&self, draw: impl Fn(f64) -> char) -> String {
        let wide = (WIDTH / self.per_second.len().max(1)).max(1);
        self.per_second.iter().flat_map(|value| repeat_n(draw(*value), wide)).collect()
    }

    /// Returns the labels of the time axis, at both ends and in the middle.
    fn times(&self, width: usize) -> String {
        let whole = self.length * self.per_second.len() as u32;
        let (middle, end) = (length(whole / 2), length(whole));
        let space = width.saturating_sub("0 s".len() + middle.len() + end.len());
        if space < 4 {
            return format!("0 s … {end}");
        }
        let before = (width / 2).saturating_sub("0 s".len() + middle.len() / 2).min(space - 1);
        format!("0 s{:before$}{middle}{:after$}{end}", "", "", after = space - before)
    }
}

fn number(value: f64) -> String {
    if value < 10.0 && value.fract() > 0.0 {
        return format!("{value:.1}");
    }
    grouped(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn plot(per_second: &[f64], limit: f64) -> String {
        let columns = Columns { per_second: per_second.to_vec(), length: Duration::from_secs(1) };
        columns.draw("Allowed", limit)
    }

    #[test]
    fn columns_above_the_limit_cross_its_line() {
        let seen = plot(&[0.0, 20.0, 0.1, 11.0, 5.0], 10.0);
        let expected = "\
Allowed, a column for each 1.0 s:
      20 ┤            ████████████
         │            ████████████
      15 ┤            ████████████
         │            ████████████            ▃▃▃▃▃▃▃▃▃▃▃▃
limit 10 ┼────────────████████████────────────████████████────────────
         │            ████████████            ████████████
         │            ████████████            ████████████
       5 ┤            ████████████            ████████████████████████
         │            ████████████▁▁▁▁▁▁▁▁▁▁▁▁████████████████████████
       0 └────────────────────────────────────────────────────────────
          0 s                         2.5 s                      5.0 s";
        assert_eq!(seen, expected, "\n{seen}");
    }

    #[test]
    fn columns_at_the_limit_touch_its_line() {
        let seen = plot(&[10.0], 10.0);
        assert!(seen.contains("limit 10 ┼──────"), "{seen}");
        assert_eq!(seen.lines().filter(|line| line.contains("███")).count(), ROWS, "{seen}");
    }

    #[test]
    fn empty_and_extreme_charts_can_be_drawn() {
        for (per_second, limit) in [
            (vec![0.0], 0.0),
            (vec![3.0, 0.0], 0.0),
            (vec![0.0; 60], 1_234_567.0),
            (vec![500.0, 0.1, 0.0], 0.2),
            (vec![1e9; 7], 1.0),
        ] {
            let text = plot(&per_second, limit);
            assert!(text.lines().count() <= 12, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
    }

    #[test]
    fn long_runs_have_columns_of_whole_windows() {
        let timeline = Timeline::new(30 * SECOND, SECOND);
        for millis in [100, 200, 300, 1100, 29_999, 30_001] {
            timeline.add(Duration::from_millis(millis));
        }
        let columns = timeline.columns(30 * SECOND);
        assert_eq!((columns.length, columns.per_second.len()), (SECOND, 30));
        assert_eq!(columns.per_second[..3], [3.0, 1.0, 0.0]);
        assert_eq!(columns.per_second[29], 1.0);
        // One hour: each column covers several windows.
        let hour = Timeline::new(3600 * SECOND, SECOND).columns(3600 * SECOND);
        assert_eq!((hour.length, hour.per_second.len()), (60 * SECOND, 60));
    }

    #[test]
    fn short_runs_have_columns_shorter_than_the_window() {
        let timeline = Timeline::new(30 * SECOND, 60 * SECOND);
        let columns = timeline.columns(30 * SECOND);
        assert_eq!((columns.length, columns.per_second.len()), (SECOND / 2, 60));
    }

    #[test]
    fn a_run_that_ends_early_still_has_a_chart() {
        let timeline = Timeline::new(3600 * SECOND, SECOND);
        timeline.add(Duration::ZERO);
        let columns = timeline.columns(40 * SECOND);
        assert_eq!((columns.length, columns.per_second.len()), (4 * SECOND, 10));
        assert_eq!(columns.per_second[0], 0.25);
        assert_eq!(timeline.columns(SECOND).per_second.len(), 1);
    }
}
