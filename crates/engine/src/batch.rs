//! Batches: several decisions of one call. Each decision is an atomic step; the batch is not.
//!
//! Decisions of one partition are executed in their order. A batch passes the same stages as a
//! single call (`submit`), each decision for itself: some can be answered by the denial cache or by
//! the fallback, and the others by the store.
//!
//! On the embedded engine a batch yields to other calls of its thread after every 32 decisions.
//! Decisions that are not reached by the deadline fail with [`Error::NotReached`]. The first 32 are
//! always executed, so repeats of a batch make progress.

use std::{sync::Arc, time::Instant};

use tokio::task::yield_now;

use super::{
    Answered, AnsweredBy, Batch, Engine,
    denial_cache::Recall,
    embedded::{Embedded, Seen, Sharded},
};
use tollgate_core::{
    Decision, denial::Deniable, error::Error, fallback::Degradable, time::monotonic,
};

/// The most decisions of a batch that the embedded engine executes before other calls of the thread
/// run.
const EXECUTED_MAX: usize = 32;
/// How often a batch lets other calls of the thread run while another thread has its shard, before the
/// thread blocks.
const BUSY_MAX: usize = 64;

impl Engine {
    /// The store stage of a batch.
    pub async fn store_all<D>(&self, decisions: &[D], deadline: Instant) -> Batch<D::Outcome>
    where
        D: Decision<State: Sharded>,
    {
        match self {
            Engine::Embedded(engine) => {
                execute_all(engine, decisions, deadline, |_| false, |outcome| outcome).await
            }
            Engine::Redis(engine) => {
                let watch = engine.denial_cache.watch(decisions);
                let outcomes = engine.run_all(decisions, deadline).await;
                match &outcomes {
                    Ok(outcomes) => watch.settle(outcomes.iter().map(Result::as_ref)),
                    Err(error) => watch.settle(decisions.iter().map(|_| Err(error))),
                }
                outcomes
            }
        }
    }

    /// The store stage of a batch on Redis. Repeats a decision while a step only removes expired
    /// entries, as `submit` does for a single call: such decisions are sent again, together and in
    /// order, after all others are decided.
    async fn store_all_until<D>(
        &self,
        decisions: &[D],
        deadline: Instant,
        is_unfinished: impl Fn(&D::Outcome) -> bool + Send + Sync,
    ) -> Batch<D::Outcome>
    where
        D: Decision<State: Sharded> + Clone,
    {
        let mut outcomes = self.store_all(decisions, deadline).await?;
        loop {
            let unfinished = outcomes
                .iter()
                .enumerate()
                .filter(|(_, outcome)| outcome.as_ref().is_ok_and(&is_unfinished));
            let unfinished: Vec<usize> = unfinished.map(|(index, _)| index).collect();
            if unfinished.is_empty() || monotonic() >= deadline {
                return Ok(outcomes);
            }
            // Other calls of this thread go first.
            yield_now().await;
            let again: Vec<D> = unfinished.iter().map(|index| decisions[*index].clone()).collect();
            let decided = each(&again, self.store_all(&again, deadline).await);
            for (index, outcome) in unfinished.into_iter().zip(decided) {
                outcomes[index] = outcome;
            }
        }
    }

    /// The store and the fallback.
    pub(super) async fn store_or_fall_back<D>(
        &self,
        decisions: &[D],
        deadline: Instant,
    ) -> Batch<Answered<D::Outcome>>
    where
        D: Degradable<State: Sharded>,
    {
        if let Engine::Embedded(engine) = self {
            // It needs no fallback.
            return execute_all(engine, decisions, deadline, |_| false, Answered::by_store).await;
        }
        let outcomes = unless_executed(decisions, self.store_all(decisions, deadline).await)?;
        let answers = outcomes.into_iter().zip(decisions);
        Ok(answers.map(|(outcome, decision)| self.fallback(decision, outcome, deadline)).collect())
    }

    /// The denial cache, the store and the fallback. Cached refusals are not sent. The store decides
    /// all others in one batch. If that was certainly not executed, the fallback decides each.
    pub(super) async fn recall_or_store<D>(
        self: &Arc<Engine>,
        decisions: &[D],
        deadline: Instant,
        is_unfinished: impl Fn(&D::Outcome) -> bool + Send + Sync,
    ) -> Batch<Answered<D::Outcome>>
    where
        D: Deniable<State: Sharded> + Degradable + Clone,
    {
        if let Engine::Embedded(engine) = &**self {
            // It needs neither.
            return execute_all(engine, decisions, deadline, is_unfinished, Answered::by_store)
                .await;
        }
        let recalled: Vec<_> = decisions.iter().map(|decision| self.recall(decision)).collect();
        let open = recalled.iter().zip(decisions);
        let open = open.filter(|(recall, _)| matches!(recall, Recall::Ask(_)));
        let open: Vec<D> = open.map(|(_, decision)| decision.clone()).collect();
        let outcomes = if open.is_empty() {
            Vec::new()
        } else {
            let outcomes = self.store_all_until(&open, deadline, is_unfinished).await;
            unless_executed(&open, outcomes)?
        };
        let mut outcomes = outcomes.into_iter();
        let answers = recalled.into_iter().zip(decisions).map(|(recall, decision)| {
            let ticket = match recall {
                Recall::Denied(outcome) => {
                    return Ok(Answered { outcome, source: AnsweredBy::DenialCache });
                }
                Recall::Ask(ticket) => ticket,
            };
            let none =
                || Err(Error::Corrupt("a batch has fewer outcomes than decisions".to_owned()));
            let result = outcomes.next().unwrap_or_else(none);
            self.learn(decision, &result, ticket);
            self.fallback(decision, result, deadline)
        });
        Ok(answers.collect())
    }
}

/// Executes a batch in order on the embedded engine. Passes each outcome through `answer`.
async fn execute_all<D, T>(
    engine: &Embedded,
    decisions: &[D],
    deadline: Instant,
    is_unfinished: impl Fn(&D::Outcome) -> bool + Send + Sync,
    answer: impl Fn(D::Outcome) -> T + Send + Sync,
) -> Batch<T>
where
    D: Decision<State: Sharded>,
{
    engine.admit()?;
    let (mut outcomes, mut last) = (Vec::with_capacity(decisions.len()), Seen::default());
    let (mut executed, mut busy) = (0, 0);
    while outcomes.len() < decisions.len() {
        if executed >= EXECUTED_MAX {
            executed = 0;
            yield_now().await;
            if monotonic() >= deadline {
                break;
            }
        }
        let open = &decisions[outcomes.len()..];
        let run = &open[..open.len().min(EXECUTED_MAX - executed)];
        let seen = engine.execute_run(run, busy == BUSY_MAX, |outcome| {
            executed += 1;
            let is_decided = !outcome.as_ref().is_ok_and(&is_unfinished);
            if is_decided {
                outcomes.push(outcome.map(&answer))
            } else {
                // Such a step is as long as 32 others.
                executed = EXECUTED_MAX
            }
            is_decided
        });
        match seen {
            Some(seen) => (last, busy) = (last.and(seen), 0),
            None => {
                busy += 1;
                yield_now().await;
            }
        }
    }
    outcomes.resize_with(decisions.len(), || Err(Error::NotReached));
    if !engine.is_synced(last) {
        Box::pin(engine.synced(last, deadline)).await?;
    }
    Ok(outcomes)
}

/// An error of a whole batch as an error of each decision.
fn each<D: Decision>(
    decisions: &[D],
    outcomes: Batch<D::Outcome>,
) -> Vec<Result<D::Outcome, Error>> {
    outcomes.unwrap_or_else(|error| decisions.iter().map(|_| Err(error.clone())).collect())
}

/// The same for an error that the fallback can answer. Other errors remain those of the batch.
fn unless_executed<D: Decision>(decisions: &[D], outcomes: Batch<D::Outcome>) -> Batch<D::Outcome> {
    match outcomes {
        Err(error @ (Error::Unavailable(_) | Error::Refused(_))) => Ok(each(decisions, Err(error))),
        outcomes => outcomes,
    }
}
