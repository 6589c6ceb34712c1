//! Allowed calls over time, as a column chart in plain text with the limit as a horizontal line.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::decision::text::{grouped, length};

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
    pub(super) fn new(run: Duration, window: Duration) -> Timeline {
        let fine = (run / SLOTS).max(Duration::from_millis(1));
        let slot = match run >= window * WINDOWS {
            true => window * whole(fine, window),
            false => fine,
        };
        let counts = (0..whole(run, slot)).map(|_| AtomicU64::new(0)).collect();
        Timeline { slot, counts }
    }

    /// Counts an allowed call that was answered `passed` after the start; ignores calls that were
    /// answered after the end of the run.
    pub(super) fn add(&self, passed: Duration) {
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

/// Maximum total width of the columns.
const WIDTH: usize = 60;
/// Number of rows, without the line of the limit.
const ROWS: usize = 8;
/// Characters for zero to eight eighths of a row.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The chart; `Display` draws it.
#[derive(Debug)]
pub(super) struct Chart<'a> {
    /// Title of the columns.
    pub(super) title: &'a str,
    pub(super) columns: &'a Columns,
    /// Value of the horizontal line.
    pub(super) limit: f64,
}

/// A range of the vertical scale, one row high, with the label of its top.
struct Row {
    from: f64,
    to: f64,
    label: String,
}

impl fmt::Display for Chart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = &self.columns.per_second;
        let most = values.iter().copied().fold(0.0, f64::max);
        let (above, below) = self.rows(most);
        let line = format!("limit {}", number(self.limit));
        let labels = above.iter().chain(&below).map(|row| row.label.len());
        let margin = labels.chain([line.len()]).max().unwrap_or(0);
        let wide = (WIDTH / values.len().max(1)).max(1);

        writeln!(f, "{}, a column for each {}:", self.title, length(self.columns.length))?;
        for row in &above {
            self.draw(f, margin, wide, row)?;
        }
        // A column that exceeds the limit covers the line.
        let crossing = |value: f64| if value > self.limit * 1.01 { '█' } else { '─' };
        write!(f, "{line:>margin$} ┼")?;
        for value in values {
            write!(f, "{}", crossing(*value).to_string().repeat(wide))?;
        }
        writeln!(f)?;
        for row in &below {
            self.draw(f, margin, wide, row)?;
        }
        writeln!(f, "{:>margin$} └{}", 0, "─".repeat(wide * values.len()))?;
        writeln!(f, "{:margin$}  {}", "", self.times(wide * values.len()))
    }
}

impl Chart<'_> {
    /// Returns the rows above and below the line, from the top. Both parts get about the same
    /// scale.
    fn rows(&self, most: f64) -> (Vec<Row>, Vec<Row>) {
        let below = match self.limit {
            limit if limit <= 0.0 => 0,
            limit if most <= limit => ROWS,
            limit => ((limit / most * ROWS as f64).round() as usize).clamp(1, ROWS - 1),
        };
        let above = if most > self.limit { ROWS - below } else { 0 };
        let mut above = stretch(self.limit, most, above);
        if let Some(top) = above.first_mut() {
            top.label = number(top.to);
        }
        let mut below = stretch(0.0, self.limit, below);
        // The line has its own label.
        if let Some(top) = below.first_mut() {
            top.label.clear();
        }
        (above, below)
    }

    fn draw(
        &self,
        f: &mut fmt::Formatter<'_>,
        margin: usize,
        wide: usize,
        row: &Row,
    ) -> fmt::Result {
        let mut cells = String::new();
        for value in &self.columns.per_second {
            let share = ((value - row.from) / (row.to - row.from)).clamp(0.0, 1.0);
            let mut eighths = (share * 8.0).round() as usize;
            // A small value is drawn as one eighth, not as zero.
            if row.from == 0.0 && *value > 0.0 {
                eighths = eighths.max(1);
            }
            cells.extend(std::iter::repeat_n(BLOCKS[eighths.min(8)], wide));
        }
        let tick = if row.label.is_empty() { '│' } else { '┤' };
        writeln!(f, "{:>margin$} {tick}{}", row.label, cells.trim_end())
    }

    /// Labels of the time axis: both ends and the middle.
    fn times(&self, width: usize) -> String {
        let whole = self.columns.length * self.columns.per_second.len() as u32;
        let (middle, end) = (length(whole / 2), length(whole));
        let space = width.saturating_sub("0 s".len() + middle.len() + end.len());
        if space < 4 {
            return format!("0 s … {end}");
        }
        let before = (width / 2).saturating_sub("0 s".len() + middle.len() / 2).min(space - 1);
        format!("0 s{:before$}{middle}{:after$}{end}", "", "", after = space - before)
    }
}

/// Divides a range into rows of equal height, from the top; every second row has a label.
fn stretch(from: f64, to: f64, rows: usize) -> Vec<Row> {
    let height = (to - from) / rows.max(1) as f64;
    let row = |index: usize| {
        let top = from + height * (rows - index) as f64;
        let label = if index.is_multiple_of(2) { number(top) } else { String::new() };
        Row { from: from + height * (rows - index - 1) as f64, to: top, label }
    };
    (0..rows).map(row).collect()
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
        Chart { title: "Allowed", columns: &columns, limit }.to_string()
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
          0 s                         2.5 s                      5.0 s
";
        assert_eq!(seen, expected, "\n{seen}");
    }

    #[test]
    fn columns_at_the_limit_touch_its_line() {
        let seen = plot(&[10.0], 10.0);
        assert!(seen.contains("limit 10 ┼──────"), "{seen}");
        assert_eq!(seen.lines().filter(|line| line.contains("███")).count(), ROWS, "{seen}");
    }

    #[test]
    fn nothing_and_very_much_can_be_drawn() {
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
    fn a_run_ended_early_still_has_a_picture() {
        let timeline = Timeline::new(3600 * SECOND, SECOND);
        timeline.add(Duration::ZERO);
        let columns = timeline.columns(40 * SECOND);
        assert_eq!((columns.length, columns.per_second.len()), (4 * SECOND, 10));
        assert_eq!(columns.per_second[0], 0.25);
        assert_eq!(timeline.columns(SECOND).per_second.len(), 1);
    }
}
