//! The engine executes decisions, in this process or in Redis.
//!
//! A gRPC handler parses its request into a [`Decision`], passes it to the engine and converts the
//! outcome. The server derives its health from [`Engine::state`] and runs [`Engine::maintain`] and
//! [`Engine::sweep`] in the background. The kind of engine is chosen once, at start.
//!
//! # Layout
//! - `engine`: the entry point, with every method of [`Engine`] and the stages of a call in order
//! - [`stages`]: the stages other than the store: waiting, coalescing, denial cache, steps,
//!   fallback, ban index
//! - [`embedded`], [`redis`]: the two stores
//! - `upkeep`: the sweeper and the counts of namespaces
//! - [`feed`]: event feeds; [`hub`]: the registry of waiting and watching calls; [`budget`]: limits
//! - `counting`: outcomes in the metrics; `listing`: pages of names; [`export`]: all state as a file; `registry`: lists of states and verbs
//!
//! # Guarantees
//! - A decision is one atomic step on one partition. A batch is not atomic as a whole.
//! - A call returns by its deadline, whatever the store does.
//! - An [`Error`] means that the call was not decided; a refusal is an outcome. After
//!   [`Error::Unavailable`], [`Error::Refused`] and [`Error::Overloaded`] the decision was
//!   certainly not executed. After [`Error::DeadlineExceeded`], it is unknown whether it was.
//! - Caches contain refusals only. Nothing is granted without a decision of the store or of the
//!   fallback.
//!
//! [`Decision`]: tollgate_core::Decision

pub mod budget;
mod counting;
pub mod embedded;
mod engine;
pub mod export;
pub mod feed;
#[doc(hidden)] // entry points of the fuzz targets
pub mod fuzz;
pub mod hub;
mod listing;
pub mod redis;
mod registry;
pub mod stages;
mod upkeep;
pub mod worker;

pub use counting::CountedVerb;
use embedded::Embedded;
pub use listing::{NameCursor, NameQuery, PartitionCursor, PartitionPage, ReadEntries};
use redis::Redis;
pub use redis::{LossState, StoreLoss};
pub use stages::waiting::Unreceived;
use tollgate_core::error::Error;

/// Default for the maximum number of decisions in one script call. Redis serves no other client
/// during a script call, so this bounds the latency that a batch adds for everyone else.
pub const BATCH_MAX: usize = 64;

/// An executor of decisions. Its methods are in `engine.rs`.
#[derive(Debug)]
pub enum Engine {
    /// Decides in this process. State is in memory, and in a data directory if there is one.
    Embedded(Embedded),
    /// Decides in Redis, by Lua scripts.
    Redis(Redis),
}

/// The state of the store, as health reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreState {
    /// The store answers and accepts writes.
    Up,
    /// Redis answers, but refuses writes. Calls are still sent: reads are answered, and writes fail
    /// with the reason that Redis gives.
    Refusing,
    /// Redis is unreachable, not connected yet, hangs, or has settings with which it must not be
    /// used; or the data directory of an embedded engine cannot be written, or hangs.
    Down,
}

impl StoreState {
    /// Returns the name on the status page and in the log.
    pub fn name(self) -> &'static str {
        match self {
            StoreState::Up => "up",
            StoreState::Refusing => "refusing",
            StoreState::Down => "down",
        }
    }
}

/// An outcome with its source. Handlers derive `cached` and `degraded` in the response from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered<T> {
    /// The outcome.
    pub outcome: T,
    /// Where the outcome was decided.
    pub source: AnsweredBy,
}

/// The source of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnsweredBy {
    /// The store executed the decision.
    Store,
    /// The denial cache of this server repeated a refusal.
    DenialCache,
    /// The store was unreachable, and the configuration says that such calls are refused.
    Refusal,
    /// The store was unreachable, and the fallback decided within this server's quota.
    Share,
}

impl<T> Answered<T> {
    /// Wraps an outcome of the store.
    pub fn by_store(outcome: T) -> Answered<T> {
        Answered { outcome, source: AnsweredBy::Store }
    }

    /// Whether the denial cache gave the answer.
    pub fn is_cached(&self) -> bool {
        self.source == AnsweredBy::DenialCache
    }

    /// Whether the answer was given without the store, because the store was unreachable.
    pub fn is_degraded(&self) -> bool {
        matches!(self.source, AnsweredBy::Refusal | AnsweredBy::Share)
    }
}

/// The results of a batch, one for each decision in order, or an error for the whole batch.
pub type Batch<T> = Result<Vec<Result<T, Error>>, Error>;
