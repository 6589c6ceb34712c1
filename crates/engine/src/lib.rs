//! The engine: executes decisions, in this process or in Redis.
//!
//! A gRPC handler parses its request into a [`Decision`], hands it to the engine and converts the
//! outcome. The server follows [`Engine::state`] for its health and runs [`Engine::maintain`] and
//! [`Engine::sweep`] in the background. The kind of engine is chosen once, at start.
//!
//! # Stages of a call
//! Handlers call [`Engine::submit`] or [`Engine::submit_all`], [`Engine::list`],
//! [`Engine::list_names`] and [`Engine::read_all`] for listings, and [`Engine::watch`] for watches.
//! `submit` names the stages of a call in order: `denial_cache`, [`waiters`], [`coalescer`], the
//! store ([`embedded`] or [`redis`]), `fallback`, `index_entries`.
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
mod batch;
pub mod budget;
mod by_type;
pub mod coalescer;
mod counter;
mod counting;
mod denial_cache;
pub mod embedded;
pub mod export;
mod failures;
mod fallback;
pub mod feed;
#[doc(hidden)] // entry points of the fuzz targets
pub mod fuzz;
pub mod hub;
mod index_entries;
mod listing;
mod names;
mod observed;
pub mod redis;
mod registry;
mod submit;
mod sweeper;
mod unreceived;
pub mod waiters;
pub mod worker;

use std::{slice, sync::Arc, time::Instant};

use tokio::sync::watch;

pub use answered::{Answered, AnsweredBy, Batch};
pub use counting::CountedVerb;
pub use listing::{PartitionCursor, PartitionPage, ReadEntries};
pub use names::{NameCursor, NameQuery};
pub use redis::{LossState, StoreLoss};
pub use submit::{Stages, Submit};
pub use unreceived::Unreceived;

use crate::budget::{CallerLimits, NamespaceRule};
use embedded::{Embedded, Sharded};
use hub::Hub;
use redis::Redis;
use tollgate_core::{Decision, error::Error};

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

impl StoreState {
    /// The name on the status page and in the log.
    pub fn name(self) -> &'static str {
        match self {
            StoreState::Up => "up",
            StoreState::Refusing => "refusing",
            StoreState::Down => "down",
        }
    }
}

/// An executor of decisions. Each decision is one atomic step.
#[derive(Debug)]
pub enum Engine {
    /// Decides in this process. State is in memory, and in a data directory if there is one.
    Embedded(Embedded),
    /// Decides in Redis, by Lua scripts.
    Redis(Redis),
}

impl Engine {
    /// The store stage: executes a decision once and returns by `deadline`, whatever the store
    /// does. Tests compare engines by it; handlers call [`Engine::submit`].
    pub async fn store<D>(&self, decision: &D, deadline: Instant) -> Result<D::Outcome, Error>
    where
        D: Decision<State: Sharded>,
    {
        match self {
            Engine::Embedded(engine) => {
                engine.admit()?;
                let (outcome, seen) = engine.execute(decision);
                if !engine.is_synced(seen) {
                    // Boxed, as below: without a data directory no call waits.
                    Box::pin(engine.synced(seen, deadline)).await?;
                }
                outcome
            }
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

    /// Executes decisions whose outcomes no caller sees, in order. With a data directory they do
    /// not wait for the disk.
    async fn store_unsynced<D>(&self, decisions: &[D], deadline: Instant) -> Batch<D::Outcome>
    where
        D: Decision<State: Sharded>,
    {
        match self {
            Engine::Embedded(engine) => Ok(decisions.iter().map(|one| engine.run(one)).collect()),
            Engine::Redis(_) => self.store_all(decisions, deadline).await,
        }
    }

    /// Whether a decision costs a round trip. Only then is it worth waiting to combine several.
    pub fn is_remote(&self) -> bool {
        matches!(self, Engine::Redis(_))
    }

    /// Sets the limits of namespaces; `servers` share their calls per second. Call it before the
    /// first call; later use [`NamespaceBudget::set`], if [`Engine::can_limit`]. Fails if a glob is
    /// invalid.
    ///
    /// [`NamespaceBudget::set`]: crate::budget::NamespaceBudget::set
    pub fn limit_namespaces(
        &self,
        rules: &[NamespaceRule],
        servers: u32,
    ) -> Result<(), globset::Error> {
        self.hub().namespaces().set(rules, servers)?;
        if let Engine::Embedded(engine) = self
            && rules.iter().any(|rule| rule.limits.limits_held())
        {
            engine.count_held();
        }
        Ok(())
    }

    /// Whether these limits can be set while calls run. The embedded engine can limit leases and
    /// queued tasks only if it has counted them since its start.
    pub fn can_limit(&self, rules: &[NamespaceRule]) -> bool {
        match self {
            Engine::Embedded(engine) if rules.iter().any(|rule| rule.limits.limits_held()) => {
                engine.counts_held()
            }
            _ => true,
        }
    }

    /// Changes the limits on what callers can make the engine hold, also while calls run. What is
    /// held above a lower limit stays until it ends.
    pub fn set_limits(&self, limits: &CallerLimits) {
        match self {
            Engine::Embedded(engine) => engine.set_limits(limits),
            Engine::Redis(engine) => engine.hub().set_limits(limits),
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

    /// The number of servers on the same Redis with the same key prefix, this one included. Counted
    /// every 5 seconds. `None` on the embedded engine, while the store is down, and if it is not
    /// known.
    pub fn servers(&self) -> Option<u32> {
        match self {
            Engine::Embedded(_) => None,
            Engine::Redis(engine) => engine.servers(),
        }
    }

    /// The id of the store, by which servers recognise a loss of its data. `None` on the embedded
    /// engine, and before it was read.
    pub fn store_id(&self) -> Option<String> {
        match self {
            Engine::Embedded(_) => None,
            Engine::Redis(engine) => engine.store_id(),
        }
    }

    /// The losses of the store's data that servers have recognised. Empty on the embedded engine.
    pub fn store_losses(&self) -> Vec<StoreLoss> {
        match self {
            Engine::Embedded(_) => Vec::new(),
            Engine::Redis(engine) => engine.store_losses(),
        }
    }

    /// Accepts all losses of the store's data: calls are answered as on a new store. Returns the
    /// losses that were not accepted before.
    pub async fn accept_store_loss(&self) -> Result<Vec<StoreLoss>, Error> {
        match self {
            Engine::Embedded(_) => Ok(Vec::new()),
            Engine::Redis(engine) => engine.accept_store_loss().await,
        }
    }

    /// Admits a call. Fails as [`Engine::check`] does, and counts the refusal.
    fn admit(&self) -> Result<(), Error> {
        match self {
            Engine::Embedded(engine) => engine.admit(),
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
