//! Counts the decisions of callers by their outcome.

use super::{Answered, AnsweredBy, Batch};
use tollgate_core::{
    Decision, Priority,
    error::Error,
    script::{self, Script},
};
use tollgate_telemetry::metrics::{self, Cells, OUTCOMES_MAX, SCRIPTS_MAX, StoreFailure};

const _: () = assert!(script::ALL.len() <= SCRIPTS_MAX, "too many scripts for the counters");

/// A verb whose outcomes are counted.
#[derive(Debug, Clone, Copy)]
pub struct CountedVerb {
    /// Whether it frees capacity or extends a lease.
    pub frees_capacity: bool,
    /// Its script, with the name of the verb and the position of its counters.
    pub script: &'static Script,
    /// The labels of its outcomes, in the order of the counters.
    pub outcomes: &'static [&'static str],
}

impl CountedVerb {
    /// Returns the counters of a verb.
    pub fn of<D: Decision>() -> CountedVerb {
        CountedVerb {
            frees_capacity: D::PROPERTIES.priority == Priority::FreesCapacity,
            script: D::SCRIPT,
            outcomes: D::PROPERTIES.outcomes.labels,
        }
    }
}

/// Counts the answer to a call.
#[inline]
pub(super) fn record<D: Decision>(answered: &Result<Answered<D::Outcome>, Error>) {
    const { assert!(D::PROPERTIES.outcomes.labels.len() <= OUTCOMES_MAX, "too many outcomes") };
    metrics::count(|cells| match answered {
        Ok(Answered { outcome, source }) => {
            if !D::PROPERTIES.outcomes.labels.is_empty() {
                cells.decisions[D::SCRIPT.index][(D::PROPERTIES.outcomes.index)(outcome)].add(1);
            }
            match source {
                AnsweredBy::Store => {}
                AnsweredBy::DenialCache => cells.cached.add(1),
                AnsweredBy::Refusal => cells.fallback_refusals.add(1),
                AnsweredBy::Share => cells.fallback_shares.add(1),
            }
        }
        Err(error) => record_failure(cells, error),
    });
}

/// Counts the answers of a batch.
pub(super) fn record_all<D: Decision>(answers: &Batch<Answered<D::Outcome>>) {
    match answers {
        Ok(answers) => answers.iter().for_each(record::<D>),
        Err(error) => metrics::count(|cells| record_failure(cells, error)),
    }
}

/// Counts an error of the store; other errors are refusals by this server.
#[cold]
fn record_failure(cells: &Cells, error: &Error) {
    let failure = match error {
        Error::Unavailable(_) => StoreFailure::Unavailable,
        Error::Refused(_) | Error::StoreLost | Error::Denied(_) => StoreFailure::Refused,
        Error::DeadlineExceeded => StoreFailure::DeadlineExceeded,
        Error::Corrupt(_) => StoreFailure::Corrupt,
        _ => return,
    };
    cells.store_failures[failure as usize].add(1);
}
