//! Decides in this process: nothing to install, nothing to reach.
//!
//! Partitions live in shards, each behind a mutex that is held for one
//! decision and never over an `.await`; after a panic in one, which would be a bug, the
//! shard's other partitions go on. Leases lapse when their partition is
//! touched; what is remembered of them goes with later decisions, and in a
//! sweep that sees to every partition about once a second. State is in memory, and ends with
//! the process, unless there is a data directory: then what changes is written
//! down beside it, and read when the next process starts.

mod archive;
mod ceiling;
mod journal;
mod kept;
mod load;
mod store;
mod sweep;
mod tables;

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    hint::spin_loop,
    sync::Arc,
};

use ahash::RandomState;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

pub use archive::Directory;
pub use ceiling::{Ceiling, Gauge};
pub use journal::{Durability, UNSYNCED_BYTES, Writer};
pub use store::{Disk, OpenError};
pub use tables::{Kept, Table, Tables};

use super::{PartitionCursor, PartitionPage, hub::Hub};
use crate::{
    budget::{self, Limit},
    decision::{Decision, State},
    error::Error,
    names::Name,
    time::{Clock, Timestamp},
};
use journal::Journal;

/// So many that what one holds of a million partitions is seen to in a fraction of a
/// millisecond.
pub(super) const SHARDS: usize = 1024;
/// So often a shard's mutex is looked at before its thread gives up its core: a microsecond or
/// two.
const SPINS: usize = 40;

/// The embedded engine.
pub struct Embedded {
    clock: Clock,
    /// Says which partitions share a shard: nobody outside can tell.
    hasher: RandomState,
    shards: Vec<Mutex<Tables>>,
    hub: Arc<Hub>,
    /// Where changes are written down, if they are.
    journal: Option<Journal>,
    ceiling: Option<Ceiling>,
    /// A process that was killed may have given out tokens up to this, and lost them.
    token_floor: Timestamp,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Embedded {
    /// An empty engine on this clock.
    pub fn new(clock: Clock) -> Embedded {
        Embedded::salted(clock, RandomState::new().hash_one(SHARDS))
    }

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
        Embedded { clock, hasher, shards, hub, journal: None, ceiling: None, token_floor }
    }

    /// The same with a ceiling on memory.
    pub fn below(mut self, ceiling: Option<Ceiling>) -> Embedded {
        self.ceiling = ceiling;
        self
    }

    /// The same with another bound on the bytes of changes that wait to be synced.
    pub fn with_unsynced_max(self, bytes: usize) -> Embedded {
        if let Some(journal) = &self.journal {
            journal.set_unsynced_max(bytes);
        }
        self
    }

    /// Takes a decision; nothing of it is written down. Fails only where memory is short.
    pub fn run<D>(&self, decision: &D) -> Result<D::Outcome, Error>
    where
        D: Decision<State: Kept>,
    {
        let name = decision.partition();
        let mut tables = self.shard(decision.tag());
        // Read under the lock: time never runs backwards within a partition.
        let now = self.clock.now();
        let table = D::State::table(&mut tables);
        let (outcome, event);
        if let Some(state) = table.get_mut(name) {
            if self.is_full() && decision.is_new(state, now) {
                return Err(memory_full());
            }
            outcome = decision.decide(state, now);
            event = state.take_event();
            self.tell(state);
        } else {
            let mut state = D::State::default();
            outcome = decision.decide(&mut state, now);
            event = state.take_event();
            if !state.is_vacant(now) {
                // Nothing was changed but what is dropped here.
                if self.is_full() {
                    return Err(memory_full());
                }
                table.add(name.into(), state);
            }
        }
        if let Some(event) = event {
            tables.rate_logs.get_or_default(decision.tag()).append(*event, now);
        }
        Ok(outcome)
    }

    /// Whether new names are refused.
    fn is_full(&self) -> bool {
        self.ceiling.as_ref().is_some_and(Ceiling::is_reached)
    }

    /// Tells those whose turn it is.
    fn tell<S: State>(&self, state: &mut S) {
        for (_, number) in state.take_hints() {
            self.hub.tell(number);
        }
    }

    /// What shares a tag shares a mutex: an event is appended with its change.
    ///
    /// It is waited for awake at first: another decision takes less than a microsecond, and a
    /// thread that gives its core up has it back milliseconds later where cores are busy.
    fn shard(&self, tag: &[u8]) -> MutexGuard<'_, Tables> {
        let shard = &self.shards[self.hasher.hash_one(tag) as usize % SHARDS];
        for _ in 0..SPINS {
            if !shard.is_locked()
                && let Some(tables) = shard.try_lock()
            {
                return tables;
            }
            spin_loop();
        }
        shard.lock()
    }

    /// Whether there is room for changes that no call waits for.
    pub(super) fn has_room(&self) -> bool {
        self.journal().is_none_or(Journal::has_room)
    }

    /// Where changes are written down, if they are.
    pub(super) fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// The time of its decisions.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Writes down what is not yet, and takes no calls any more.
    pub fn close(&self) {
        if let Some(journal) = &self.journal {
            journal.close();
        }
    }

    /// Appends the partitions of a shard in which something has ended; whether the shard has
    /// any partition.
    pub(super) fn ended<S: Kept>(&self, shard: usize, ended: &mut VecDeque<Name>) -> bool {
        let now = self.clock.now();
        let mut has_any = false;
        self.each_part::<S>(shard, |table, part| {
            has_any |= !table.is_empty();
            let of_part = table.part(part).filter(|(_, state)| state.has_ended(now));
            let names = of_part.map(|(name, _)| Name::parse(Bytes::copy_from_slice(name)));
            ended.extend(names.filter_map(Result::ok));
        });
        has_any
    }

    /// Goes through a shard's partitions of a kind, and holds its mutex for a part of them.
    /// Of those that are there all the time none is left out; some may be seen twice.
    fn each_part<S: Kept>(&self, shard: usize, mut see: impl FnMut(&Table<S>, usize)) {
        let (mut part, mut parts) = (0, 0);
        loop {
            let mut tables = self.shards[shard].lock();
            let table = S::table(&mut tables);
            if table.parts() < parts {
                // The last parts went back to where they came from, which may have been seen.
                part = 0;
            }
            parts = table.parts();
            if part >= parts {
                return;
            }
            see(table, part);
            part += 1;
            // To whoever waits for it.
            MutexGuard::unlock_fair(tables);
        }
    }

    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub(super) async fn partitions<S: Kept>(
        &self,
        limit: u32,
        after: Option<&PartitionCursor>,
    ) -> PartitionPage {
        let limit = limit as usize;
        let after = after.map_or(&[][..], |cursor| cursor.name.as_bytes());
        // The least names of all shards: the greatest gives way.
        let mut least: BTreeSet<Box<[u8]>> = BTreeSet::new();
        for shard in 0..SHARDS {
            self.each_part::<S>(shard, |table, part| {
                for (name, _) in table.part(part) {
                    if **name > *after && (least.len() <= limit || least.last() > Some(name)) {
                        least.insert(name.clone());
                        if least.len() > limit + 1 {
                            least.pop_last();
                        }
                    }
                }
            });
            // Calls go first.
            tokio::task::yield_now().await;
        }
        let least = least.into_iter();
        let mut names: Vec<Name> =
            least.filter_map(|name| Name::parse(Bytes::from(name)).ok()).collect();
        let more = names.len() > limit;
        names.truncate(limit);
        let last = names.last().filter(|_| more).cloned();
        PartitionPage { names, next: last.map(|name| PartitionCursor { noted: 0, name }) }
    }
}

/// The refusal of a new name, counted.
fn memory_full() -> Error {
    budget::note(Limit::Memory);
    Error::MemoryFull
}
