//! Decides requests for values that waited together.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::{
    engine::{
        BATCH_MAX, Engine,
        lanes::{Outcomes, Take},
    },
    error::Error,
    sequence::{Allotment, Dating, NextSequence, Reservation, ReserveSequence},
};

/// Reservations that a request may wait for: values that others took meanwhile
/// are not there for it.
const RESERVATIONS_MAX: usize = 4;

/// How many values this server has given out, and with how many script calls.
#[derive(Debug, Default)]
pub(super) struct Given {
    values: AtomicU64,
    calls: AtomicU64,
}

/// Takes requests to the engine, with a reservation before them where one is
/// needed.
#[derive(Debug)]
pub(super) struct Allot {
    engine: Arc<Engine>,
    given: Arc<Given>,
}

impl Given {
    /// Counts what was given out.
    pub(super) fn note(&self, allotment: &Allotment) {
        if let Allotment::Given { range, replayed: false, .. } = allotment {
            self.values.fetch_add(range.count, Ordering::Relaxed);
        }
    }

    /// Values and script calls.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.values.load(Ordering::Relaxed), self.calls.load(Ordering::Relaxed))
    }

    fn called(&self, decisions: usize) {
        self.calls.fetch_add(decisions.div_ceil(BATCH_MAX) as u64, Ordering::Relaxed);
    }
}

impl Allot {
    pub(super) fn new(engine: Arc<Engine>, given: Arc<Given>) -> Allot {
        Allot { engine, given }
    }

    async fn decide(&self, asked: &[NextSequence], deadline: Instant) -> Outcomes<Allotment> {
        self.given.called(asked.len());
        self.engine.run_all(asked, deadline).await
    }

    /// Reserves what these requests need, and a block beyond it; `lasts` are the last
    /// values of each by itself. None where they need nothing.
    async fn reserve(
        &self,
        asked: &[NextSequence],
        lasts: &[u64],
        deadline: Instant,
    ) -> Option<Result<Reservation, Error>> {
        let (first, furthest) = (asked.first()?, *lasts.iter().max()?);
        let reserve = first.reserve?;
        // In a row they go further than each by itself, and while the reservation is
        // on its way the clock does.
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
    async fn take(&self, asked: Vec<NextSequence>, deadline: Instant) -> Outcomes<Allotment> {
        let mut outcomes = self.decide(&asked, deadline).await?;
        for _ in 0..RESERVATIONS_MAX {
            let unreserved = outcomes.iter().enumerate().filter_map(|(index, outcome)| {
                let Ok(Allotment::Unreserved { last }) = outcome else { return None };
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
        outcomes.iter().flatten().for_each(|allotment| self.given.note(allotment));
        Ok(outcomes)
    }
}
