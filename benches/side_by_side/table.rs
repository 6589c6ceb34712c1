//! Markdown tables that are readable in a terminal.

use std::fmt;

/// A table; its `Display` writes it.
#[derive(Debug)]
pub(crate) struct Table {
    /// All of equal length; the first is the heading.
    lines: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<'a>(heading: impl IntoIterator<Item = &'a str>) -> Table {
        Table { lines: vec![heading.into_iter().map(str::to_owned).collect()] }
    }

    pub(crate) fn line(&mut self, cells: impl IntoIterator<Item = String>) {
        self.lines.push(cells.into_iter().collect());
    }

    /// Whether the table has no line below its heading.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.len() == 1
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.lines[0].len()).map(width).collect();
        for (number, line) in self.lines.iter().enumerate() {
            for (cell, width) in line.iter().zip(&widths) {
                write!(f, "| {cell:width$} ")?;
            }
            writeln!(f, "|")?;
            if number == 0 {
                writeln!(f, "|{}", "---|".repeat(widths.len()))?;
            }
        }
        Ok(())
    }
}

/// Formats a rate with three significant digits, and a comma before every group of three digits.
pub(crate) fn rate(value: f64) -> String {
    let unit = 10_f64.powf((value.max(1.0).log10().floor() - 2.0).max(0.0));
    let digits = format!("{:.0}", (value / unit).round() * unit);
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a time in µs with a suitable unit.
pub(crate) fn time(micros: f64) -> String {
    match micros {
        micros if micros < 1000.0 => format!("{micros:.0} µs"),
        micros if micros < 10_000.0 => format!("{:.2} ms", micros / 1000.0),
        micros => format!("{:.1} ms", micros / 1000.0),
    }
}

/// Formats a fraction in per cent.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// Formats a value with `show`; returns a dash if there is no finite value.
pub(crate) fn or_dash(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.filter(|value| value.is_finite()).map_or("–".to_owned(), show)
}
