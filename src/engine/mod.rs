//! The engine: executes decisions, in this process or in Redis.
//!
//! A gRPC handler parses its request into a [`Decision`], hands it to the engine and converts the
//! outcome. The server follows [`Engine::state`] for its health and runs [`Engine::maintain`] and
//! [`Engine::sweep`] in the background. The kind of engine is chosen once, at start.
//!
//! # Stages of a call
//! 1. `denial_cache`: the denial cache repeats a recent refusal without asking the store. Redis only.
//! 2. [`waiters`]: a call that may wait gets a ticket in the queue of its pool or lock.
//! 3. [`coalescer`]: the coalescer combines requests for values of one sequence into one decision.
//! 4. [`embedded`] or [`redis`]: the store executes the decision.
//! 5. `fallback`: the fallback answers while the store is unreachable, if the configuration allows
//!    it. Redis only.
//!
//! A handler picks the stages by the method that it calls:
//!
//! | method | stages |
//! |---|---|
//! | [`Engine::run`], [`Engine::run_all`], [`Engine::page`] | store |
//! | [`Engine::answer`], [`Engine::answer_all`] | denial cache, store, fallback |
//! | [`Engine::follow`] | store, fallback |
//! | [`waiters::WaitingCalls::run`] | waiters, store |
//! | [`waiters::WaitingCalls::answer`] | waiters, denial cache, store, fallback |
//! | [`coalescer::Coalescer::run`] | coalescer, store |
//!
//! # Guarantees
//! - A decision is one atomic step on one partition. A batch is not atomic as a whole.
//! - A call returns by its deadline, whatever the store does.
//! - An [`Error`] means that the call was not decided; a refusal is an outcome. After
//!   [`Error::Unavailable`], [`Error::Refused`] and [`Error::Overloaded`] the decision was
//!   certainly not executed. After [`Error::DeadlineExceeded`] its fate is unknown.
//! - Caches hold refusals only. Nothing is granted without a decision of the store or of the
//!   fallback.

mod answered;
pub mod coalescer;
mod denial_cache;
pub mod embedded;
pub mod export;
mod fallback;
pub mod feed;
pub mod hub;
pub mod redis;
mod sweeper;
pub mod waiters;
pub mod worker;

use std::{slice, sync::Arc, time::Instant};

use tokio::sync::watch;

pub use answered::{Answered, Source};
pub use denial_cache::Shelved;

use crate::decision::{Decision, Paged, error::Error, names::Name};
use embedded::{Embedded, Kept};
use hub::Hub;
use redis::Redis;

/// The default for the most decisions in one script call. Redis serves no other client during a
/// script call, so this bounds the latency that a batch adds for everybody else.
pub const BATCH_MAX: usize = 32;

/// The condition of the store, as health reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreState {
    /// The store answers and accepts writes.
    Up,
    /// Redis answers, but refuses writes. Calls are still sent: reads are answered, and writes fail
    /// with the reason that Redis gives.
    Refusing,
    /// Redis is unreachable, not connected yet, hangs, or has settings with which it must not be
    /// used. The data directory of an embedded engine cannot be written, or hangs.
    Down,
}

/// An executor of decisions. Each decision is one atomic step.
#[derive(Debug)]
pub enum Engine {
    /// Decides in this process. State is in memory, and in a data directory if there is one.
    Embedded(Embedded),
    /// Decides in Redis, by Lua scripts.
    Redis(Redis),
}

/// A page of a listing of partition names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionPage {
    /// The names, in the order of the listing.
    pub names: Vec<Name>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<PartitionCursor>,
}

/// A position in a capability's listing: directly after this partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionCursor {
    /// The time of the partition's last note in the index of Redis, in µs. 0 on the embedded
    /// engine, where the order is by name.
    pub noted: u64,
    /// The name of the partition.
    pub name: Name,
}

impl Engine {
    /// Executes a decision and returns by `deadline`, whatever the store does.
    ///
    /// The outcome may be of an earlier try: if a connection to Redis breaks, the engine sends a
    /// repeatable decision a second time.
    pub async fn run<D>(&self, decision: &D, deadline: Instant) -> Result<D::Outcome, Error>
    where
        D: Decision<State: Kept>,
    {
        match self {
            Engine::Embedded(engine) => match engine.journal() {
                None => engine.run(decision),
                // Boxed, as below, to keep the futures of calls without a data directory small.
                Some(journal) => Box::pin(engine.run_kept(journal, decision, deadline)).await,
            },
            Engine::Redis(engine) => {
                let watch = engine.denial_cache.watch(slice::from_ref(decision));
                // Boxed: calls that wait or decide in this process need no memory for a Redis
                // exchange.
                let outcome = Box::pin(engine.run(decision, deadline)).await;
                watch.settle([outcome.as_ref()].into_iter());
                outcome
            }
        }
    }

    /// Executes decisions of one kind in one round trip. They run in order, each as an atomic step.
    /// Returns by `deadline`, with one result for each decision.
    ///
    /// An error of the whole batch means that no decision was sent. The exception is
    /// [`Error::DeadlineExceeded`]: the data directory did not sync the batch in time.
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

    /// Runs decisions whose outcomes no caller sees, in order. With a data directory they do not wait
    /// for the disk.
    pub(crate) async fn run_all_unwaited<D>(
        &self,
        decisions: &[D],
        deadline: Instant,
    ) -> Result<Vec<Result<D::Outcome, Error>>, Error>
    where
        D: Decision<State: Kept>,
    {
        match self {
            Engine::Embedded(engine) => {
                Ok(decisions.iter().map(|decision| engine.run_unwaited(decision)).collect())
            }
            Engine::Redis(_) => self.run_all(decisions, deadline).await,
        }
    }

    /// Reads a page of a listing, in atomic steps of at most `D::STEP` entries, so that no step
    /// holds the partition or Redis for long.
    ///
    /// Fails if the first step fails. If a later step fails, the page is shorter and the caller
    /// continues after its last entry.
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
            // A step on the embedded engine would keep other calls off this thread.
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

    /// Whether a decision costs a round trip. Only then is it worth waiting to combine several.
    pub fn is_remote(&self) -> bool {
        matches!(self, Engine::Redis(_))
    }

    /// Lists partitions of a capability, at most `limit`, after the cursor `after`. On Redis these
    /// are the names in the index (`redis/index.rs`), which keeps an empty partition for some
    /// minutes. On the embedded engine these are the partitions with state.
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

    /// The registry of this server's waiting and watching calls.
    pub fn hub(&self) -> &Arc<Hub> {
        match self {
            Engine::Embedded(engine) => engine.hub(),
            Engine::Redis(engine) => engine.hub(),
        }
    }

    /// Counts lost connections to the store; 0 on the embedded engine. If two readings differ, the
    /// store may have failed over and lost data in between.
    pub fn epoch(&self) -> u64 {
        match self {
            Engine::Embedded(_) => 0,
            Engine::Redis(engine) => engine.epoch(),
        }
    }

    /// Admits a call. Fails as [`Engine::check`] does, and counts the refusal.
    pub fn admit(&self) -> Result<(), Error> {
        match self {
            Engine::Embedded(engine) => engine.journal().map_or(Ok(()), |journal| journal.admit()),
            Engine::Redis(engine) => engine.check(),
        }
    }

    /// Fails while the store is known to be unusable: a call would fail with the same error.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Engine::Embedded(engine) => engine.journal().map_or(Ok(()), |journal| journal.check()),
            Engine::Redis(engine) => engine.check(),
        }
    }

    /// Writes all pending changes to the data directory and stops its thread. The last step before
    /// the process exits; later changes are lost. Does nothing on Redis.
    pub fn close(&self) {
        if let Engine::Embedded(engine) = self {
            engine.close();
        }
    }

    /// Follows the condition of the store. Without a data directory the embedded engine is always
    /// [`StoreState::Up`].
    pub fn state(&self) -> watch::Receiver<StoreState> {
        match self {
            Engine::Embedded(engine) => match engine.journal() {
                None => watch::channel(StoreState::Up).1,
                Some(journal) => journal.state(),
            },
            Engine::Redis(engine) => engine.state(),
        }
    }

    /// Runs the engine's background work until it is dropped. On the embedded engine: dropping
    /// expired entries, checks of memory and disk. On Redis: probes, topology, wake-ups, cleaning
    /// of the fallback.
    pub async fn maintain(&self) {
        match self {
            Engine::Embedded(engine) => engine.maintain().await,
            Engine::Redis(engine) => {
                // Boxed: the compiler has a limit on the depth of nested future types.
                tokio::join!(Box::pin(engine.maintain()), engine.fallback.maintain());
            }
        }
    }
}
