//! Repeats the store stage, to read a page in steps and to decide again after a step that only
//! removed expired entries.

use std::time::Instant;

use tokio::task::yield_now;

use crate::{Answered, Batch, Engine, embedded::Sharded, redis::Redis};
use tollgate_core::{Decision, error::Error, time::monotonic};

/// Reads a page in atomic steps, so that no step occupies the partition or Redis for long. Fails if the
/// first step fails. If a later step fails, the page is shorter, and the caller continues after its
/// last entry.
pub(crate) async fn read_in_steps<D>(
    engine: &Engine,
    listing: &D,
    deadline: Instant,
) -> Result<Answered<D::Outcome>, Error>
where
    D: Decision<State: Sharded>,
{
    let Some(steps) = (const { &D::PROPERTIES.steps }) else {
        return engine.store(listing, deadline).await.map(Answered::by_store);
    };
    let limit = (steps.limit)(listing);
    let mut size = limit.min(steps.max);
    let mut left = limit - size;
    let mut page = engine.store(&(steps.limited)(listing, size), deadline).await?;
    while left > 0
        && let Some(next) = (steps.after)(listing, &page)
    {
        // Otherwise, steps on the embedded engine would keep other calls off this thread.
        yield_now().await;
        size = left.min(steps.max);
        left -= size;
        match engine.store(&(steps.limited)(&next, size), deadline).await {
            Ok(next) => (steps.append)(&mut page, next),
            Err(_) => break,
        }
    }
    Ok(Answered::by_store(page))
}

/// Executes a decision, and repeats it while a step only removes expired entries.
pub(crate) async fn until_decided<D, F>(
    deadline: Instant,
    execute: impl Fn() -> F,
) -> Result<D::Outcome, Error>
where
    D: Decision,
    F: Future<Output = Result<D::Outcome, Error>>,
{
    loop {
        let outcome = execute().await?;
        if !(D::PROPERTIES.is_unfinished)(&outcome) || monotonic() >= deadline {
            return Ok(outcome);
        }
        // Other calls of this thread go first.
        yield_now().await;
    }
}

/// Does the same for a batch on Redis: unfinished decisions are sent again, together and in order,
/// after all others are decided.
pub(crate) async fn all_until_decided<D>(
    engine: &Redis,
    decisions: &[D],
    deadline: Instant,
) -> Batch<D::Outcome>
where
    D: Decision,
{
    let mut outcomes = engine.run_all(decisions, deadline).await?;
    loop {
        let unfinished = outcomes
            .iter()
            .enumerate()
            .filter(|(_, it)| it.as_ref().is_ok_and(D::PROPERTIES.is_unfinished));
        let unfinished: Vec<usize> = unfinished.map(|(index, _)| index).collect();
        if unfinished.is_empty() || monotonic() >= deadline {
            return Ok(outcomes);
        }
        // Other calls of this thread go first.
        yield_now().await;
        let again: Vec<D> = unfinished.iter().map(|index| decisions[*index].clone()).collect();
        let decided = each(&again, engine.run_all(&again, deadline).await);
        for (index, outcome) in unfinished.into_iter().zip(decided) {
            outcomes[index] = outcome;
        }
    }
}

/// Turns an error of a whole batch into an error of each decision.
pub(crate) fn each<D: Decision>(
    decisions: &[D],
    outcomes: Batch<D::Outcome>,
) -> Vec<Result<D::Outcome, Error>> {
    outcomes.unwrap_or_else(|error| decisions.iter().map(|_| Err(error.clone())).collect())
}
