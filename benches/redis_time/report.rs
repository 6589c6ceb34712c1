//! The table of a run.

use std::fmt;

use crate::{
    row::{Row, Time},
    table::{Table, or_dash},
    verb::{BATCHES, Column},
};

/// Fraction by which the number of decisions per script call may differ from its column before the
/// table shows it. The server also makes about 10 script calls of its own every 0.6 s.
const TOLERANCE: f64 = 0.15;

/// The results of a run; its `Display` writes the table.
#[derive(Debug)]
pub(crate) struct Report {
    rounds: u32,
    lines: Vec<Line>,
}

/// The results of a row.
#[derive(Debug)]
struct Line {
    row: Row,
    /// The smallest time of each column.
    times: [Option<(Column, Time)>; BATCHES.len()],
}

impl Report {
    pub(crate) fn new(rows: &[Row], rounds: u32) -> Report {
        let lines = rows.iter().map(|row| Line { row: row.clone(), times: [None; BATCHES.len()] });
        Report { rounds, lines: lines.collect() }
    }

    /// Adds the result of a round for the row at this position.
    pub(crate) fn add(&mut self, row: usize, column: Column, time: Time) {
        let smallest = &mut self.lines[row].times[column.position()];
        if smallest.is_none_or(|(_, smallest)| time.micros < smallest.micros) {
            *smallest = Some((column, time));
        }
    }

    /// Returns the time of a row in its last column, divided by its reference's time in that
    /// column.
    fn ratio(&self, line: &Line) -> Option<f64> {
        let reference = self.lines.iter().find(|other| line.row.refers_to(&other.row))?;
        let times = line.times.into_iter().zip(reference.times).rev();
        let mut times = times.filter_map(|(time, reference)| time.zip(reference));
        times.next().map(|((_, time), (_, reference))| time.micros / reference.micros)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Time in scripts for a decision, in µs: the smallest of {} rounds. Columns: decisions of a \
             bulk call, which is one script call; for verbs without a bulk call, calls in flight on one \
             connection. In brackets: the measured decisions of a script call, for several calls in \
             flight, or if they differ from the column. Ratio: the last column of the row, relative to \
             packed.lua.\n",
            self.rounds
        )?;
        let batches = BATCHES.map(|batch| batch.to_string());
        let batches = batches.iter().map(String::as_str);
        let heading = ["decision", "names"].into_iter().chain(batches).chain(["ratio"]);
        let mut table = Table::new(heading);
        for line in &self.lines {
            let row = [line.row.title, line.row.keys.title()].map(str::to_owned);
            let times = line.times.map(|time| time.map_or(String::new(), cell));
            let ratio = or_dash(self.ratio(line), |ratio| format!("{ratio:.1}"));
            table.line(row.into_iter().chain(times).chain([ratio]));
        }
        write!(f, "{table}")
    }
}

fn cell((column, time): (Column, Time)) -> String {
    let expected = match column {
        Column::Bulk(size) => Some(size as f64),
        Column::InFlight(1) => Some(1.0),
        // It depends on when the calls arrive.
        Column::InFlight(_) => None,
    };
    let Time { micros, batch } = time;
    if expected.is_some_and(|size| (batch - size).abs() <= size * TOLERANCE) {
        format!("{micros:.1}")
    } else {
        format!("{micros:.1} ({batch:.0})")
    }
}
