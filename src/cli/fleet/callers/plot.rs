//! A column chart in plain text, with the limit as a horizontal line.

use std::fmt;

use super::timeline::Columns;
use crate::decision::text::{grouped, length};

/// Maximum total width of the columns.
const WIDTH: usize = 60;
/// Number of rows, without the line of the limit.
const ROWS: usize = 8;
/// Characters for zero to eight eighths of a row.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The chart; `Display` draws it.
#[derive(Debug)]
pub(super) struct Plot<'a> {
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

impl fmt::Display for Plot<'_> {
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

impl Plot<'_> {
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
    use std::time::Duration;

    use super::*;

    fn plot(per_second: &[f64], limit: f64) -> String {
        let columns = Columns { per_second: per_second.to_vec(), length: Duration::from_secs(1) };
        Plot { title: "Allowed", columns: &columns, limit }.to_string()
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
}
