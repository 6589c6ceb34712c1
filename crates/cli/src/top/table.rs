//! The pools as a plain table, for output without a terminal.

use super::{
    cells,
    model::{Model, PoolRow},
};
use crate::table::{Column, Table};
use tollgate_telemetry::text::grouped;

const COLUMNS: [Column; 6] = [
    Column::Text("POOL"),
    Column::Number("IN USE"),
    Column::Number("OLDEST"),
    Column::Number("QUEUED"),
    Column::Number("WAITING"),
    Column::Number("FULL"),
];

/// Formats one line per pool, with aligned columns. FULL is the number of refused calls since the
/// start of the server, because a single reading has no rate.
pub(super) fn table(model: &Model) -> String {
    let row = |row: &PoolRow| {
        let state = &row.state;
        let [queued, waiters] = cells::queues(row);
        let in_use = if state.paused {
            format!("{} paused", cells::usage(state))
        } else {
            cells::usage(state)
        };
        let oldest = cells::oldest(state, model.now);
        [state.name.clone(), in_use, oldest, queued, waiters, grouped(state.refused)]
    };
    let mut text = Table::new(COLUMNS).page(model.rows().into_iter().map(row));
    if model.more {
        text += "and more pools\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_client::PoolState;

    use tollgate_core::time::Timestamp;

    #[test]
    fn columns_are_as_wide_as_their_contents() {
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
