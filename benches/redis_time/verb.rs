//! What the rows measure.

use std::{fmt, ops::Range};

use crate::{
    envoy, keys::Keys, prototype::Prototype, rates, rates::Check, singles, site::Site, tasks,
};

/// What a row measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// A script of this benchmark.
    Prototype(Prototype),
    /// CheckRates; all checks pass.
    CheckRate(Check),
    /// AdmitTasks; all tasks are admitted.
    AdmitTask,
    /// CompleteTasks of admitted tasks.
    CompleteTask,
    /// RenewTasks of admitted tasks.
    RenewTask,
    /// AdmitTasks for a full pool.
    AdmitTaskFull,
    /// ReserveStock of one sku.
    ReserveStock,
    /// AcquireLock; the last lease of the lock has ended.
    AcquireLock,
    /// NextSequence of one value.
    NextSequence,
    /// ShouldRateLimit with this number of descriptors; each is a decision.
    ShouldRateLimit(u64),
}

/// How the decisions of a run are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// Calls with this number of decisions, one after the other.
    Bulk(u64),
    /// This number of calls in flight on one connection.
    InFlight(u64),
}

/// Decisions per call, by position of the column.
pub(crate) const BATCHES: [u64; 4] = [1, 8, 32, BATCH_MAX];
/// Decisions of the longest call: the maximum that CheckRates accepts.
pub(crate) const BATCH_MAX: u64 = 100;
const BULK: &[Column] =
    &[Column::Bulk(1), Column::Bulk(8), Column::Bulk(32), Column::Bulk(BATCH_MAX)];
const SINGLE: &[Column] = &[Column::InFlight(1), Column::InFlight(32)];

impl Verb {
    /// Returns the columns of the table in which the verb has a value.
    pub(crate) fn columns(self) -> &'static [Column] {
        match self {
            Verb::Prototype(_)
            | Verb::CheckRate(_)
            | Verb::AdmitTask
            | Verb::CompleteTask
            | Verb::RenewTask
            | Verb::AdmitTaskFull => BULK,
            Verb::ReserveStock
            | Verb::AcquireLock
            | Verb::NextSequence
            | Verb::ShouldRateLimit(_) => SINGLE,
        }
    }

    /// Returns the number of decisions per call of a verb without a bulk call.
    pub(crate) fn decisions(self) -> u64 {
        match self {
            Verb::ShouldRateLimit(descriptors) => descriptors,
            _ => 1,
        }
    }

    /// Makes one call with these decisions, and checks its answer.
    pub(crate) async fn call(self, site: &Site, keys: Keys, decisions: Range<u64>) {
        let first = keys.number(decisions.start);
        let numbers = decisions.clone().map(|decision| keys.number(decision));
        match self {
            Verb::Prototype(prototype) => prototype.call(site, numbers).await,
            Verb::CheckRate(check) => rates::check(site, check, keys, decisions).await,
            Verb::AdmitTask => tasks::admit(site, tasks::ADMITTED, numbers).await,
            Verb::CompleteTask => tasks::complete(site, tasks::COMPLETED, numbers).await,
            Verb::RenewTask => tasks::renew(site, numbers).await,
            Verb::AdmitTaskFull => tasks::admit_to_full(site, numbers).await,
            Verb::ReserveStock => singles::reserve(site, first).await,
            Verb::AcquireLock => singles::acquire(site, first, decisions.start).await,
            Verb::NextSequence => singles::next(site).await,
            Verb::ShouldRateLimit(descriptors) => envoy::call(site, descriptors, first).await,
        }
    }
}

impl Column {
    /// Returns the position in [`BATCHES`].
    pub(crate) fn position(self) -> usize {
        let (Column::Bulk(size) | Column::InFlight(size)) = self;
        BATCHES.iter().position(|batch| *batch == size).expect("a column of the table")
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Column::Bulk(size) => write!(f, "{size} a call"),
            Column::InFlight(calls) => write!(f, "{calls} in flight"),
        }
    }
}
