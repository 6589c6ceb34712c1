//! Decides in this process: nothing to install, nothing to reach.
//!
//! Partitions live in shards, each behind a std mutex that is held for one
//! decision and never over an `.await`. Leases lapse when their partition is
//! touched; what is remembered of them goes with later decisions, and in a
//! sweep every second where there are none. State is in memory: it ends with
//! the process.

use std::{
    collections::{BinaryHeap, HashMap},
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;

use super::{PartitionCursor, PartitionPage, hub::Hub, sweeper::Round};
use crate::{
    admission,
    decision::{Decision, State},
    lock,
    names::Name,
    rate, sequence, stock,
    time::{Clock, Timestamp},
};

const SHARDS: usize = 64;
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Entries of each kind that one sweep drops of one partition.
const SWEEP_BUDGET: usize = 1000;

/// A table with so many times the room that it uses is shrunk.
const SPARE: usize = 8;

/// The partitions of one capability.
pub type Table<S> = HashMap<Box<[u8]>, S>;

/// The partitions of one shard, by capability.
#[derive(Debug, Default)]
pub struct Tables {
    admission: Table<admission::Pool>,
    rate: Table<rate::Meter>,
    rate_logs: Table<rate::Log>,
    bans: Table<rate::BanIndex>,
    sequences: Table<sequence::Counter>,
    locks: Table<lock::Lock>,
    stock: Table<stock::Sku>,
}

/// A capability's state with a place in every shard.
pub trait Kept: State {
    /// That place.
    fn table(tables: &mut Tables) -> &mut Table<Self>;
    /// The event that the last decision has left, for the log of its tag.
    fn take_event(&mut self) -> Option<Box<rate::Event>> {
        None
    }
}

impl Kept for admission::Pool {
    fn table(tables: &mut Tables) -> &mut Table<admission::Pool> {
        &mut tables.admission
    }
}

impl Kept for rate::Meter {
    fn table(tables: &mut Tables) -> &mut Table<rate::Meter> {
        &mut tables.rate
    }

    fn take_event(&mut self) -> Option<Box<rate::Event>> {
        rate::Meter::take_event(self)
    }
}

impl Kept for rate::Log {
    fn table(tables: &mut Tables) -> &mut Table<rate::Log> {
        &mut tables.rate_logs
    }
}

impl Kept for rate::BanIndex {
    fn table(tables: &mut Tables) -> &mut Table<rate::BanIndex> {
        &mut tables.bans
    }
}

impl Kept for sequence::Counter {
    fn table(tables: &mut Tables) -> &mut Table<sequence::Counter> {
        &mut tables.sequences
    }
}

impl Kept for lock::Lock {
    fn table(tables: &mut Tables) -> &mut Table<lock::Lock> {
        &mut tables.locks
    }
}

impl Kept for stock::Sku {
    fn table(tables: &mut Tables) -> &mut Table<stock::Sku> {
        &mut tables.stock
    }
}

/// The embedded engine.
pub struct Embedded {
    clock: Clock,
    hasher: RandomState,
    shards: Vec<Mutex<Tables>>,
    hub: Arc<Hub>,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Embedded {
    /// An empty engine on this clock.
    pub fn new(clock: Clock) -> Embedded {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Embedded { clock, hasher: RandomState::new(), shards, hub: Hub::new("embedded") }
    }

    /// Takes a decision.
    pub fn run<D>(&self, decision: &D) -> D::Outcome
    where
        D: Decision<State: Kept>,
    {
        let name = decision.partition();
        // What shares a tag shares a mutex: an event is appended with its change.
        let shard = self.hasher.hash_one(decision.tag()) as usize % SHARDS;
        let mut tables = lock(&self.shards[shard]);
        // Read under the lock: time never runs backwards within a partition.
        let now = self.clock.now();
        let table = D::State::table(&mut tables);
        let (outcome, event);
        if let Some(state) = table.get_mut(name) {
            outcome = decision.decide(state, now);
            event = state.take_event();
            for (_, number) in state.take_hints() {
                self.hub.tell(number);
            }
        } else {
            let mut state = D::State::default();
            outcome = decision.decide(&mut state, now);
            event = state.take_event();
            if !state.is_vacant(now) {
                table.insert(name.into(), state);
            }
        }
        if let Some(event) = event {
            tables.rate_logs.entry(decision.tag().into()).or_default().append(*event, now);
        }
        outcome
    }

    /// The partitions in which something has ended.
    pub(super) fn round<S: Kept>(&self) -> Round {
        let now = self.clock.now();
        let mut noted = Vec::new();
        for shard in &self.shards {
            let mut tables = lock(shard);
            let ended = S::table(&mut tables).iter().filter(|(_, state)| state.has_ended(now));
            let names = ended.map(|(name, _)| Name::parse(Bytes::copy_from_slice(name)));
            let names = names.filter_map(Result::ok);
            noted.extend(names.map(|name| PartitionCursor { noted: 0, name }));
        }
        Round { now, noted }
    }

    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub(super) fn partitions<S: Kept>(
        &self,
        limit: u32,
        after: Option<&PartitionCursor>,
    ) -> PartitionPage {
        let limit = limit as usize;
        let after = after.map_or(&[][..], |cursor| cursor.name.as_bytes());
        // The least names of all shards: a heap whose greatest gives way.
        let mut least: BinaryHeap<Box<[u8]>> = BinaryHeap::with_capacity(limit + 2);
        for shard in &self.shards {
            for name in S::table(&mut lock(shard)).keys() {
                if **name > *after && (least.len() <= limit || least.peek() > Some(name)) {
                    least.push(name.clone());
                    if least.len() > limit + 1 {
                        least.pop();
                    }
                }
            }
        }
        let sorted = least.into_sorted_vec().into_iter();
        let mut names: Vec<Name> =
            sorted.filter_map(|name| Name::parse(Bytes::from(name)).ok()).collect();
        let more = names.len() > limit;
        names.truncate(limit);
        let last = names.last().filter(|_| more).cloned();
        PartitionPage { names, next: last.map(|name| PartitionCursor { noted: 0, name }) }
    }

    pub(super) async fn maintain(&self) {
        let mut tick = tokio::time::interval(SWEEP_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            for shard in &self.shards {
                self.sweep(&mut lock(shard));
                // Calls that wait for the shard, or for this thread, go first.
                tokio::task::yield_now().await;
            }
        }
    }

    fn sweep(&self, tables: &mut Tables) {
        let now = self.clock.now();
        sweep(&mut tables.admission, now);
        sweep(&mut tables.rate, now);
        sweep(&mut tables.rate_logs, now);
        sweep(&mut tables.bans, now);
        sweep(&mut tables.sequences, now);
        sweep(&mut tables.locks, now);
        sweep(&mut tables.stock, now);
    }
}

fn sweep<S: State>(table: &mut Table<S>, now: Timestamp) {
    table.retain(|_, state| {
        state.sweep(now, SWEEP_BUDGET);
        !state.is_vacant(now)
    });
    // What a crowd has left empty is given back.
    if table.capacity() > SPARE * table.len().max(SPARE) {
        table.shrink_to(2 * table.len());
    }
}

/// A panic inside a decision would be a bug; the other partitions of its shard
/// must not pay for it.
fn lock(shard: &Mutex<Tables>) -> MutexGuard<'_, Tables> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
