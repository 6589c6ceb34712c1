//! The pools as a plain table, for output without a terminal.

use std::fmt::Write;

use super::{cells, model::Model};
use crate::decision::text::{escaped, grouped};

const HEADINGS: [&str; 6] = ["POOL", "IN USE", "OLDEST", "QUEUED", "WAITING", "FULL"];

/// Formats one line per pool, with aligned columns. FULL is the number of refused calls since the
/// start of the server, because a single reading has no rate.
pub(super) fn table(model: &Model) -> String {
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    for row in model.rows() {
        let state = &row.state;
        let [queued, waiters] = cells::queues(row);
        let in_use = match state.paused {
            true => format!("{} paused", cells::usage(state)),
            false => cells::usage(state),
        };
        lines.push([
            escaped(&state.name).into_owned(),
            in_use,
            cells::oldest(state, model.now),
            queued,
            waiters,
            grouped(state.refused),
        ]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..HEADINGS.len()).filter_map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let mut written = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            // Names are left-aligned, numbers right-aligned. Writing to a String cannot fail.
            let _ = match column {
                0 => write!(written, "{cell:<width$}"),
                _ => write!(written, "  {cell:>width$}"),
            };
        }
        text += &written;
        text.push('\n');
    }
    if model.more {
        text += "and more pools\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_client::PoolState;

    use crate::decision::time::Timestamp;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut model = Model::new("", Timestamp(100_000_000));
        model.state(PoolState {
            name: "ar:0571".to_owned(),
            capacity: 60,
            in_use: 45,
            paused: true,
            oldest_grant: Some(cells::wall(Timestamp(88_000_000))),
            queued: 3210,
            waiters: 4,
            refused: 12,
            readable: true,
        });
        model.state(PoolState { name: "b".to_owned(), ..PoolState::default() });
        model.more = true;
        assert_eq!(
            table(&model),
            "POOL           IN USE  OLDEST  QUEUED  WAITING  FULL\n\
             ar:0571  45/60 paused     12s   3,210        4    12\n\
             b          unreadable       -       0        0     0\n\
             and more pools\n"
        );
    }
}
