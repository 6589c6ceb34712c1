//! Decides requests of one sequence that were combined by the coalescer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::{
    decision::error::Error,
    engine::{
        BATCH_MAX, Engine,
        coalescer::{Outcomes, Take},
    },
    sequence::{Allocation, Dating, NextSequence, Reservation, ReserveSequence},
};

/// Maximum number of reservations for a request. More than one is needed if other servers take the
/// reserved values in between.
const RESERVATIONS_MAX: usize = 4;

/// Number of values that this server has given out, and of the script calls for them.
#[derive(Debug, Default)]
pub(super) struct Given {
    values: AtomicU64,
    calls: AtomicU64,
}

/// Runs combined requests on the engine, and reserves values first if necessary.
#[derive(Debug)]
pub(super) struct Allot {
    engine: Arc<Engine>,
    given: Arc<Given>,
}

impl Given {
    /// Counts the values of an allocation, except for a repeat.
    pub(super) fn note(&self, allocation: &Allocation) {
        if let Allocation::Given { range, replayed: false, .. } = allocation {
            self.values.fetch_add(range.count, Ordering::Relaxed);
        }
    }

    /// Returns the numbers of values and script calls.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.values.load(Ordering::Relaxed), self.calls.load(Ordering::Relaxed))
    }

    /// Counts the script calls of a number of decisions.
    fn called(&self, decisions: usize) {
        self.calls.fetch_add(decisions.div_ceil(BATCH_MAX) as u64, Ordering::Relaxed);
    }
}

impl Allot {
    pub(super) fn new(engine: Arc<Engine>, given: Arc<Given>) -> Allot {
        Allot { engine, given }
    }

    /// Runs the requests on the engine, in order.
    async fn decide(&self, asked: &[NextSequence], deadline: Instant) -> Outcomes<Allocation> {
        self.given.called(asked.len());
        self.engine.run_all(asked, deadline).await
    }

    /// Reserves the values that the requests need plus one block. `lasts` is the last value of each
    /// request, computed separately. `None` if nothing must be reserved.
    async fn reserve(
        &self,
        asked: &[NextSequence],
        lasts: &[u64],
        deadline: Instant,
    ) -> Option<Result<Reservation, Error>> {
        let (first, furthest) = (asked.first()?, *lasts.iter().max()?);
        let reserve = first.reserve?;
        // Together the requests reach further than each one separately. During the reservation, the
        // clock of a dated sequence advances.
        let per_second = first.sequence.dating().map_or(0, Dating::values_per_second);
        let block = reserve.block.max(per_second);
        let sizes = asked.iter().map(|one| one.count.saturating_mul(one.step));
        let ahead = sizes.fold(block, u64::saturating_add);
        let decision = ReserveSequence {
            sequence: first.sequence.clone(),
            last: furthest,
            ahead,
            confirmation: reserve.confirmation,
        };
        self.given.called(1);
        Some(self.engine.run(&decision, deadline).await)
    }
}

impl Take<NextSequence> for Allot {
    /// Decides the requests. Those that lack reserved values are decided again after a reservation,
    /// up to [`RESERVATIONS_MAX`] times.
    async fn take(&self, asked: Vec<NextSequence>, deadline: Instant) -> Outcomes<Allocation> {
        let mut outcomes = self.decide(&asked, deadline).await?;
        for _ in 0..RESERVATIONS_MAX {
            let unreserved = outcomes.iter().enumerate().filter_map(|(index, outcome)| {
                let Ok(Allocation::Unreserved { last }) = outcome else { return None };
                Some((index, *last))
            });
            let (open, lasts): (Vec<usize>, Vec<u64>) = unreserved.unzip();
            let mut again: Vec<NextSequence> =
                open.iter().map(|index| asked[*index].clone()).collect();
            let Some(reserved) = self.reserve(&again, &lasts, deadline).await else { break };
            let decided = match reserved {
                Ok(confirmed) => {
                    again.iter_mut().for_each(|one| one.confirmed = Some(confirmed.clone()));
                    self.decide(&again, deadline).await
                }
                Err(error) => Err(error),
            };
            let decided = decided.unwrap_or_else(|error| vec![Err(error); open.len()]);
            for (index, outcome) in open.into_iter().zip(decided) {
                outcomes[index] = outcome;
            }
        }
        outcomes.iter().flatten().for_each(|allocation| self.given.note(allocation));
        Ok(outcomes)
    }
}
