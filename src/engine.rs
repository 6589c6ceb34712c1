//! The engines that run decisions: a closed set, chosen once at start.

mod answered;
pub mod archive;
mod denials;
pub mod embedded;
pub mod feed;
pub mod hub;
pub mod lanes;
pub mod redis;
pub mod room;
mod stand_in;
mod sweeper;
pub mod worker;

use std::{slice, sync::Arc, time::Instant};

use tokio::sync::watch;

pub use answered::{Answered, Source};
pub use denials::Shelved;

use crate::{
    decision::{Decision, Paged},
    error::Error,
    names::Name,
};
use embedded::{Embedded, Kept};
use hub::Hub;
use redis::Redis;

/// Decisions that one script call takes at most: Redis serves nobody else
/// meanwhile.
pub const BATCH_MAX: usize = 32;

/// Whether the store answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreState {
    /// It does.
    Up,
    /// It answers, but refuses writes: calls are sent to it and get its refusal, those that
    /// only read their answer.
    Refusing,
    /// It does not answer, has not yet, or must not be used as it is set up.
    Down,
}

/// Runs decisions, each in one atomic step.
#[derive(Debug)]
pub enum Engine {
    /// In this process.
    Embedded(Embedded),
    /// In Redis, as Lua scripts.
    Redis(Redis),
}

/// A page of partition names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionPage {
    /// The names.
    pub names: Vec<Name>,
    /// The last name's place in the listing, if more follow.
    pub next: Option<PartitionCursor>,
}

/// A partition in the order of its capability's listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionCursor {
    /// When it was last noted, in microseconds; 0 where the order is by name.
    pub noted: u64,
    /// The partition.
    pub name: Name,
}

impl Engine {
    /// Takes a decision. Returns by `deadline`, whatever the store does.
    pub async fn run<D>(&self, decision: &D, deadline: Instant) -> Result<D::Outcome, Error>
    where
        D: Decision<State: Kept>,
    {
        match self {
            Engine::Embedded(engine) => match engine.journal() {
                None => engine.run(decision),
                // Boxed, as below: calls that write nothing down must not pay for it.
                Some(journal) => Box::pin(engine.run_kept(journal, decision, deadline)).await,
            },
            Engine::Redis(engine) => {
                let watch = engine.denials.watch(slice::from_ref(decision));
                // Boxed: what an exchange needs is not kept by calls that wait or decide here.
                let outcome = Box::pin(engine.run(decision, deadline)).await;
                watch.settle([outcome.as_ref()].into_iter());
                outcome
            }
        }
    }

    /// Takes decisions of one kind in one round trip, each in an atomic step of
    /// its own, in order. They are in no listing of partitions.
    pub async fn run_all<D>(
        &self,
        decisions: &[D],
        deadline: Instant,
    ) -> Result<Vec<Result<D::Outcome, Error>>, Error>
    where
        D: Decision<State: Kept>,
    {
        match self {
            Engine::Embedded(engine) => match engine.journal() {
                None => Ok(decisions.iter().map(|d| engine.run(d)).collect()),
                Some(journal) => Box::pin(engine.run_all_kept(journal, decisions, deadline)).await,
            },
            Engine::Redis(engine) => {
                let watch = engine.denials.watch(decisions);
                let outcomes = engine.run_all(decisions, deadline).await;
                match &outcomes {
                    Ok(outcomes) => watch.settle(outcomes.iter().map(Result::as_ref)),
                    Err(error) => watch.settle(decisions.iter().map(|_| Err(error))),
                }
                outcomes
            }
        }
    }

    /// Reads a page, in steps that are atomic each by itself. Fails where the first step does;
    /// where a later one does, the page is shorter, and the next one goes on from there.
    pub async fn page<D>(&self, listing: &D, deadline: Instant) -> Result<D::Outcome, Error>
    where
        D: Paged<State: Kept>,
    {
        let mut size = listing.limit().min(D::STEP);
        let mut left = listing.limit() - size;
        let mut page = self.run(&listing.limited(size), deadline).await?;
        while left > 0
            && let Some(next) = listing.behind(&page)
        {
            // What is decided in this process would keep others on its thread.
            tokio::task::yield_now().await;
            size = left.min(D::STEP);
            left -= size;
            match self.run(&next.limited(size), deadline).await {
                Ok(next) => D::append(&mut page, next),
                Err(_) => break,
            }
        }
        Ok(page)
    }

    /// Whether a decision costs a round trip, so that those that wait for the same
    /// partition had better be joined.
    pub fn is_remote(&self) -> bool {
        matches!(self, Engine::Redis(_))
    }

    /// Lists the partitions of a capability that have held something of late,
    /// at most `limit`.
    pub async fn partitions<S: Kept>(
        &self,
        limit: u32,
        after: Option<PartitionCursor>,
        deadline: Instant,
    ) -> Result<PartitionPage, Error> {
        match self {
            Engine::Embedded(engine) => Ok(engine.partitions::<S>(limit, after.as_ref()).await),
            Engine::Redis(engine) => {
                engine.partitions(S::CAPABILITY, limit, after.as_ref(), deadline).await
            }
        }
    }

    /// The calls that wait and watch on this server.
    pub fn hub(&self) -> &Arc<Hub> {
        match self {
            Engine::Embedded(engine) => engine.hub(),
            Engine::Redis(engine) => engine.hub(),
        }
    }

    /// Changes when the store may have lost something.
    pub fn epoch(&self) -> u64 {
        match self {
            Engine::Embedded(_) => 0,
            Engine::Redis(engine) => engine.epoch(),
        }
    }

    /// Fails while the store is known to be down.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Engine::Embedded(engine) => engine.journal().map_or(Ok(()), |journal| journal.check()),
            Engine::Redis(engine) => engine.check(),
        }
    }

    /// Writes down what is not yet; takes no calls any more.
    pub fn close(&self) {
        if let Engine::Embedded(engine) = self {
            engine.close();
        }
    }

    /// Follows whether the store answers.
    pub fn state(&self) -> watch::Receiver<StoreState> {
        match self {
            Engine::Embedded(engine) => match engine.journal() {
                None => watch::channel(StoreState::Up).1,
                Some(journal) => journal.state(),
            },
            Engine::Redis(engine) => engine.state(),
        }
    }

    /// Does what the engine needs done beside the calls, until dropped.
    pub async fn maintain(&self) {
        match self {
            Engine::Embedded(engine) => engine.maintain().await,
            Engine::Redis(engine) => {
                // Boxed: types that nest deeper are more than the compiler follows.
                tokio::join!(Box::pin(engine.maintain()), engine.stand_in.maintain());
            }
        }
    }
}
