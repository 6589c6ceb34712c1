//! Rows of the table, and their measurement.

use std::ops::Range;

use futures_util::stream::{self, StreamExt};

use crate::{
    keys::{Keys, MANY},
    prototype::Prototype,
    rates::Check,
    singles,
    site::Site,
    tasks,
    verb::{Column, Verb},
};

/// Decisions of a run, by the position of its column: enough for a run of about 0.1 s. The number
/// of script calls is a multiple of 50, because Redis runs a step of Lua's garbage collection after
/// every 50 of them.
const DECISIONS: [u64; 4] = [1_000, 3_200, 4_800, 10_000];
/// Decisions before the first round for a row whose names are not stored in advance.
const WARM_UP: u64 = 2_000;

/// A row of the table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) title: &'static str,
    pub(crate) keys: Keys,
    pub(crate) verb: Verb,
    /// Decisions so far.
    decided: u64,
}

/// Time of a decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    /// Time in scripts, µs.
    pub(crate) micros: f64,
    /// Decisions of a script call.
    pub(crate) batch: f64,
}

const fn row(title: &'static str, keys: Keys, verb: Verb) -> Row {
    Row { title, keys, verb, decided: 0 }
}

const fn check(title: &'static str, keys: Keys, policy: &'static str) -> Row {
    row(title, keys, Verb::CheckRate(Check { policy, has_request_ids: false }))
}

const fn prototype(title: &'static str, keys: Keys, prototype: Prototype) -> Row {
    row(title, keys, Verb::Prototype(prototype))
}

/// All rows, in the order of the table.
pub(crate) const ROWS: &[Row] = &[
    prototype("counter.lua", Keys::One, Prototype::Counter),
    prototype("counter.lua", Keys::Many, Prototype::Counter),
    prototype("packed.lua", Keys::One, Prototype::Packed),
    prototype("packed.lua", Keys::Many, Prototype::Packed),
    prototype("gcra.lua", Keys::One, Prototype::Gcra),
    prototype("gcra.lua", Keys::Many, Prototype::Gcra),
    check("CheckRate, fixed window", Keys::One, "fixed"),
    check("CheckRate, fixed window", Keys::Many, "fixed"),
    check("CheckRate, calendar window", Keys::One, "calendar"),
    check("CheckRate, calendar window", Keys::Many, "calendar"),
    check("CheckRate, sliding window", Keys::One, "sliding"),
    check("CheckRate, sliding window", Keys::Many, "sliding"),
    check("CheckRate, token bucket", Keys::One, "bucket"),
    check("CheckRate, token bucket", Keys::Many, "bucket"),
    check("CheckRate, two tiers", Keys::Many, "tiers"),
    row(
        "CheckRate, request_id",
        Keys::Many,
        Verb::CheckRate(Check { policy: "requests", has_request_ids: true }),
    ),
    row("AdmitTask", Keys::New, Verb::AdmitTask),
    row("CompleteTask", Keys::New, Verb::CompleteTask),
    row("RenewTask", Keys::Many, Verb::RenewTask),
    row("AdmitTask, pool full", Keys::New, Verb::AdmitTaskFull),
    row("ReserveStock", Keys::New, Verb::ReserveStock),
    row("AcquireLock", Keys::Many, Verb::AcquireLock),
    row("NextSequence", Keys::One, Verb::NextSequence),
    row("ShouldRateLimit, 1 descriptor", Keys::Many, Verb::ShouldRateLimit(1)),
    row("ShouldRateLimit, 10 descriptors", Keys::Many, Verb::ShouldRateLimit(10)),
];

impl Row {
    /// Whether the ratios of other rows refer to this row.
    pub(crate) fn is_reference(&self) -> bool {
        self.verb == Verb::Prototype(Prototype::Packed)
    }

    /// Whether the ratio of this row refers to `reference`: new names cost as much as many names,
    /// because each decision has its own.
    pub(crate) fn refers_to(&self, reference: &Row) -> bool {
        let is_one = |row: &Row| row.keys == Keys::One;
        reference.is_reference() && is_one(self) == is_one(reference)
    }

    /// Creates what the decisions need, and stores the names of a row with many keys.
    pub(crate) async fn prepare(&mut self, site: &mut Site) {
        match self.verb {
            Verb::RenewTask => tasks::admit_in_turn(site, tasks::RENEWED, 1..MANY + 1).await,
            Verb::AdmitTaskFull => tasks::fill(site).await,
            Verb::ReserveStock => singles::stock(site).await,
            Verb::Prototype(_)
            | Verb::CheckRate(_)
            | Verb::AdmitTask
            | Verb::CompleteTask
            | Verb::AcquireLock
            | Verb::NextSequence
            | Verb::ShouldRateLimit(_) => {}
        }
        let decisions = if self.keys == Keys::Many { MANY } else { WARM_UP };
        let longest = self.verb.columns().last().expect("each row has columns");
        self.run(site, *longest, decisions).await;
    }

    /// Measures the decisions of a column.
    pub(crate) async fn measure(&mut self, site: &mut Site, column: Column) -> Time {
        self.run(site, column, DECISIONS[column.position()]).await
    }

    async fn run(&mut self, site: &mut Site, column: Column, count: u64) -> Time {
        let decisions = self.decided..self.decided + count;
        self.decided = decisions.end;
        if self.verb == Verb::CompleteTask {
            tasks::admit_in_turn(site, tasks::COMPLETED, decisions.clone()).await;
        }
        let before = site.meter.read();
        self.send(site, column, decisions.clone()).await;
        let used = site.meter.read().since(&before);
        if self.verb == Verb::AdmitTask {
            tasks::complete_in_turn(site, tasks::ADMITTED, decisions).await;
        }
        let count = count as f64;
        Time { micros: used.scripts_micros as f64 / count, batch: count / used.scripts as f64 }
    }

    async fn send(&self, site: &Site, column: Column, decisions: Range<u64>) {
        let (size, in_flight) = match column {
            Column::Bulk(size) => (size, 1),
            Column::InFlight(calls) => (self.verb.decisions(), calls),
        };
        let calls = decisions
            .step_by(size as usize)
            .map(|first| self.verb.call(site, self.keys, first..first + size));
        stream::iter(calls).buffer_unordered(in_flight as usize).collect::<()>().await;
    }
}
