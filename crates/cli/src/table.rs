//! Tables with aligned columns, for people.

use std::fmt::Write;

use tollgate_telemetry::text::escaped;

/// A column with its heading. Texts are left-aligned, numbers right-aligned.
#[derive(Debug, Clone, Copy)]
pub enum Column {
    /// Text, aligned to the left, with its title.
    Text(&'static str),
    /// A number, aligned to the right, with its title.
    Number(&'static str),
}

impl Column {
    fn heading(self) -> &'static str {
        match self {
            Column::Text(heading) | Column::Number(heading) => heading,
        }
    }
}

/// A table that is printed page by page. Columns are as wide as their widest cell so far, so a
/// table of one page is aligned throughout.
#[derive(Debug)]
pub struct Table<const N: usize> {
    columns: [Column; N],
    widths: [usize; N],
    has_headings: bool,
}

impl<const N: usize> Table<N> {
    /// Creates a table without rows.
    pub fn new(columns: [Column; N]) -> Table<N> {
        let widths = columns.map(|column| column.heading().len());
        Table { columns, widths, has_headings: false }
    }

    /// Formats the next rows, one line each, with the headings before the first ones. Escapes the
    /// cells.
    pub fn page(&mut self, rows: impl IntoIterator<Item = [String; N]>) -> String {
        let mut lines: Vec<[String; N]> = Vec::new();
        if !self.has_headings {
            lines.push(self.columns.map(|column| column.heading().to_owned()));
            self.has_headings = true;
        }
        lines.extend(rows.into_iter().map(|row| row.map(|cell| escaped(&cell).into_owned())));
        for line in &lines {
            for (width, cell) in self.widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        lines.iter().map(|line| self.line(line)).collect()
    }

    fn line(&self, cells: &[String; N]) -> String {
        let mut line = String::new();
        for ((cell, column), width) in cells.iter().zip(self.columns).zip(self.widths) {
            // Writing to a String cannot fail.
            let _ = match column {
                Column::Text(_) => write!(line, "{cell:<width$}  "),
                Column::Number(_) => write!(line, "{cell:>width$}  "),
            };
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_so_far() {
        let mut table = Table::new([Column::Text("NAME"), Column::Number("COUNT")]);
        let row = |name: &str, count: u32| [name.to_owned(), count.to_string()];
        assert_eq!(
            table.page([row("a", 1), row("longer", 1_000_000)]),
            "NAME      COUNT\na             1\nlonger  1000000\n"
        );
        assert_eq!(table.page([row("b\u{202e}", 2)]), "b\\u{202e}        2\n");
        assert_eq!(table.page([]), "");
    }
}
