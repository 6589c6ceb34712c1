//! The embedded engine decides in this process: there is nothing to install, and no network.
//!
//! The state is split into 1,024 shards. A shard is a mutex over one table per capability, and a
//! decision locks the shard of its tag, usually for less than a microsecond. Decisions of a batch
//! lock a shard together, up to 32 at a time. With a data directory, changes are also persisted.
//!
//! - `tables`: the state of a shard
//! - `executor`, `batch`: execute decisions; `journal`, `store`: the queue of their changes, and
//!   its files
//! - `open`, `load`: read the data directory at start
//! - `listing`, `namespaces`, `names`: list partitions; `quota`: counts the entries of namespaces
//! - `sweep`: drops expired entries; `ceiling`: refuses new names above `memory_max`
//! - `export`: the data directory for exports and imports
//!
//! # Guarantees
//! - Decisions on one shard run one after the other. Its mutex is never locked across an `.await`.
//! - Time is read under the mutex, so it never runs backwards within a partition.
//! - No critical section gets longer as partitions are added. Listings and sweeps work in steps, and
//!   tables grow in steps (`crates/core/src/collections/incremental_map.rs`).
//! - A decision treats expired leases as ended. The sweep only frees their memory, and visits every
//!   partition about once per second.
//! - A panic in a decision, which would be a bug, does not block the shard: parking_lot mutexes are
//!   not poisoned.

mod batch;
mod ceiling;
mod executor;
mod export;
mod journal;
mod listing;
mod load;
mod names;
mod namespaces;
mod open;
mod quota;
mod store;
mod sweep;
mod tables;

use std::{
    collections::VecDeque,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    hint::spin_loop,
    sync::Arc,
};

use ahash::RandomState;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

pub use ceiling::{Ceiling, Gauge};
pub use export::Directory;
pub use journal::{Durability, JournalWriter, Seen};
pub use store::{Disk, LogFile, OpenError};
pub use tables::{Sharded, Table, Tabled, Tables};

use super::hub::Hub;
use crate::budget::{CallerLimits, ReachedLimit};
use journal::Journal;
use namespaces::Namespaces;
use quota::QuotaCounts;
use tollgate_core::{
    error::Error,
    names::Name,
    time::{Clock, Timestamp},
};

/// The number of shards. With a million partitions, one shard is swept in a fraction of a
/// millisecond.
pub(super) const SHARDS: usize = 1024;
/// The number of attempts to lock a shard before the thread blocks: 1 to 2 µs.
const SPINS: usize = 40;

/// The embedded engine.
pub struct Embedded {
    clock: Clock,
    /// Selects the shard of a tag. The seed is random, so callers cannot aim at one shard.
    hasher: RandomState,
    shards: Vec<Mutex<Tables>>,
    /// The registry of waiting calls and watchers.
    hub: Arc<Hub>,
    /// The partitions of the namespaces other than the default one.
    namespaces: Namespaces,
    /// The entries of each namespace, if they are limited.
    counts: QuotaCounts,
    /// Persists changes; `None` without a data directory.
    journal: Option<Journal>,
    /// The limit on memory; `None` if there is none.
    ceiling: Option<Ceiling>,
    /// A killed process may have handed out fencing tokens up to this time and lost the record of
    /// them. Until the clock has passed it, tokens are chosen above it.
    token_floor: Timestamp,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Embedded {
    /// Creates an empty engine that uses this clock.
    pub fn new(clock: Clock) -> Embedded {
        Embedded::salted(clock, RandomState::new().hash_one(SHARDS))
    }

    /// Creates an empty engine. `salt` seeds the hash that selects shards, so that a simulation can
    /// reproduce it.
    fn salted(clock: Clock, salt: u64) -> Embedded {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let hub = Hub::new("embedded");
        let seed = |number: u64| {
            let mut hasher = DefaultHasher::new();
            (salt, number).hash(&mut hasher);
            hasher.finish()
        };
        let hasher = RandomState::with_seeds(seed(0), seed(1), seed(2), seed(3));
        let token_floor = Timestamp(0);
        let namespaces = Namespaces::default();
        let (counts, journal, ceiling) = (QuotaCounts::default(), None, None);
        Embedded { clock, hasher, shards, hub, namespaces, counts, journal, ceiling, token_floor }
    }

    /// Sets the limit on memory, if any.
    pub fn below(mut self, ceiling: Option<Ceiling>) -> Embedded {
        self.ceiling = ceiling;
        self
    }

    /// Sets the limits on the memory and names that callers can occupy.
    pub fn with_limits(self, limits: &CallerLimits) -> Embedded {
        self.set_limits(limits);
        self
    }

    /// Changes the limits on the memory and names that callers can occupy.
    pub(super) fn set_limits(&self, limits: &CallerLimits) {
        self.hub.set_limits(limits);
        if let Some(journal) = &self.journal {
            journal.set_limits(limits);
        }
    }

    /// Returns the limit on memory in bytes, if any.
    pub(super) fn memory_max(&self) -> Option<u64> {
        self.ceiling.as_ref().map(Ceiling::most)
    }

    /// Whether decisions about new names are refused.
    fn is_full(&self) -> bool {
        self.ceiling.as_ref().is_some_and(Ceiling::is_reached)
    }

    /// Locks the shard of a tag. Partitions with the same tag share a mutex, so an event is
    /// appended in the same step as its change.
    ///
    /// Spins before it blocks: a single decision ends within a microsecond, whereas a blocked
    /// thread may get its core back milliseconds later on a busy machine.
    fn shard(&self, tag: &[u8]) -> MutexGuard<'_, Tables> {
        let shard = self.shard_of(tag);
        spin(shard).unwrap_or_else(|| shard.lock())
    }

    /// Locks the shard of a tag; returns `None` if another thread still has it locked.
    fn try_shard(&self, tag: &[u8]) -> Option<MutexGuard<'_, Tables>> {
        spin(self.shard_of(tag))
    }

    fn shard_of(&self, tag: &[u8]) -> &Mutex<Tables> {
        &self.shards[self.hasher.hash_one(tag) as usize % SHARDS]
    }

    /// Whether the journal has room for changes that no call waits for.
    pub(super) fn has_room(&self) -> bool {
        self.journal().is_none_or(Journal::has_room)
    }

    /// Returns the journal; `None` without a data directory.
    pub(super) fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// Returns the time of the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Writes all pending changes and stops the journal. Later changes are not persisted.
    pub fn close(&self) {
        if let Some(journal) = &self.journal {
            journal.close();
        }
    }

    /// Appends the names of a shard's partitions that contain expired entries. Returns whether the
    /// shard has any partition of this capability.
    pub(super) fn ended<S: Tabled>(&self, shard: usize, ended: &mut VecDeque<Name>) -> bool {
        let now = self.clock.now();
        let mut has_any = false;
        self.each_part::<S>(shard, |table, part| {
            has_any |= !table.is_empty();
            let of_part = table.part(part).filter(|(_, state)| state.has_ended(now));
            let names = of_part.map(|(name, _)| Name::stored(Bytes::copy_from_slice(name)));
            ended.extend(names.filter_map(Result::ok));
        });
        has_any
    }

    /// Visits the partitions of a shard, one segment of the table at a time, and unlocks the mutex
    /// in between. A partition that exists during the whole visit is seen at least once; others may
    /// be missed or seen twice.
    fn each_part<S: Tabled>(&self, shard: usize, mut see: impl FnMut(&Table<S>, usize)) {
        let (mut part, mut parts) = (0, 0);
        loop {
            let mut tables = self.shards[shard].lock();
            let table = S::table(&mut tables);
            if table.parts() < parts {
                // Segments were merged, perhaps into one that was already visited, so start again.
                part = 0;
            }
            parts = table.parts();
            if part >= parts {
                return;
            }
            see(table, part);
            part += 1;
            // Passes the mutex to a waiting thread.
            MutexGuard::unlock_fair(tables);
        }
    }

    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }
}

/// Returns the error for a new name above `memory_max`, and counts the refusal.
fn memory_full() -> Error {
    ReachedLimit::Memory.record();
    Error::MemoryFull
}
/// Tries [`SPINS`] times to lock a shard.
fn spin(shard: &Mutex<Tables>) -> Option<MutexGuard<'_, Tables>> {
    for _ in 0..SPINS {
        if !shard.is_locked()
            && let Some(tables) = shard.try_lock()
        {
            return Some(tables);
        }
        spin_loop();
    }
    None
}
