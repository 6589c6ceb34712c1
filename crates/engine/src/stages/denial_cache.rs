//! The denial cache stores recent refusals of this server and repeats them without asking the
//! store.
//!
//! A storm of calls to a full pool or a throttled key then costs Redis almost nothing.
//! `Engine::submit` asks the cache for each AdmitTask and CheckRate (`recall`) and adds refusals by
//! the store (`learn`). `Redis::run` passes each decision through `watch`, which invalidates the
//! entries that the decision may affect. Only the Redis engine has a cache, because a decision of
//! the embedded engine is as fast as a lookup.
//!
//! # Invariants
//! - Only refusals are stored. Nothing is granted from the cache.
//! - An entry is valid until the refusal could change without a call, such as at the next lease
//!   end, but for at most `denial_cache` (50 ms by default) from the time when the call was sent. A
//!   change through another server is thus seen after `denial_cache` at the latest.
//! - Each partition has a *generation*. A decision through this server that may turn a refusal into
//!   a grant starts a new generation. An entry is valid only in the generation in which its call
//!   was sent, so neither older entries nor refusals that were in flight are repeated.
//! - A decision with an unknown outcome counts as executed, even if its call was cancelled.
//! - A lost connection invalidates all entries, because the store may have failed over.
//! - A caller that holds a lease through this server always reaches the store ([`Holders`]). So
//!   does a caller that held a lease, through any server, when its pool refused the cached call
//!   ([`RefusalCaching::deny`](tollgate_core::denial::RefusalCaching::deny)). Any other caller
//!   reaches the store a second after its first cached refusal (`first_refusals`), and a cached
//!   refusal of a pool asks it to retry within that second.

mod first_refusals;

use std::{
    collections::HashMap,
    fmt,
    marker::PhantomData,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use ahash::RandomState;

use crate::hub::ByType;
use first_refusals::FirstRefusals;
use tollgate_core::{
    Decision, State,
    denial::{CachedDenial, Effect},
    error::Error,
    time::{Clock, Millis, Timestamp},
};

/// The number of generation counters. Partitions with the same hash share one; a needless new
/// generation costs one call to the store.
const GENERATIONS: usize = 1 << 14;
/// The number of shards of a verb's refusals, so that threads rarely wait for each other.
const SHARDS: usize = 64;
/// Maximum number of entries in a shard, which makes 32,768 for each verb.
const SHARD_MAX: usize = 512;
/// The number of slots of [`Holders`], 4 bytes each. Allocated with the first grant.
const HOLDER_SLOTS: usize = 1 << 20;

/// The denial cache of a server.
pub(crate) struct DenialCache {
    /// The clock on which entries age.
    clock: Clock,
    /// Randomly seeded, so that callers cannot choose colliding keys.
    hasher: RandomState,
    /// The generations, by the hash of the partition.
    generations: Box<[AtomicU32]>,
    /// The grace of leases in seconds, by the same hash as generations.
    keeps: Box<[AtomicU32]>,
    /// The lease ends of this server's holders.
    holders: Holders,
    /// The times since which each caller gets cached refusals.
    first_refusals: FirstRefusals,
    /// The refusals, [`VerbRefusals`] for each verb.
    by_kind: ByType,
}

/// The result of asking the cache.
pub(crate) enum Recall<O> {
    /// A valid refusal is cached.
    Denied(O),
    /// The store must decide. The ticket allows its refusal to be added to the cache.
    Ask(Option<RecallTicket>),
}

/// The state of the cache when a call was sent. Its refusal is valid only if nothing has changed
/// since then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecallTicket {
    /// The hash of partition and kind of question.
    key: u64,
    /// The generation of the partition.
    generation: u32,
    /// The engine's count of lost connections.
    epoch: u64,
    /// The time of the call.
    since: Timestamp,
}

impl fmt::Debug for DenialCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenialCache").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl DenialCache {
    /// Creates an empty cache whose entries age on this clock.
    pub(crate) fn new(clock: Clock) -> DenialCache {
        DenialCache {
            clock,
            hasher: RandomState::new(),
            generations: (0..GENERATIONS).map(|_| AtomicU32::new(0)).collect(),
            keeps: (0..GENERATIONS).map(|_| AtomicU32::new(0)).collect(),
            holders: Holders::default(),
            first_refusals: FirstRefusals::default(),
            by_kind: ByType::default(),
        }
    }

    /// Asks the cache about a decision. `epoch` is the engine's count of lost connections.
    pub(crate) fn recall<D: Decision>(&self, decision: &D, epoch: u64) -> Recall<D::Outcome> {
        let Some(rule) = (const { &D::PROPERTIES.cache }) else { return Recall::Ask(None) };
        let Some(kind) = (rule.kind)(decision) else { return Recall::Ask(None) };
        let partition = decision.partition();
        let home = self.home::<D::State>(partition);
        let key = self.hasher.hash_one((home, kind));
        let now = self.clock.now();
        let generation = self.generation(home).load(Ordering::Acquire);
        // Read before the call is sent, so that a change in between makes the refusal invalid.
        let ticket = RecallTicket { key, generation, epoch, since: now };
        let outcome = self.by_kind.get::<VerbRefusals<D>>().entries.with(key, |entry| {
            let is_valid = entry.generation == generation
                && entry.epoch == epoch
                && (entry.since..entry.until).contains(&now)
                && *entry.partition == *partition;
            if is_valid {
                (rule.deny)(decision, &entry.denial, now.0 - entry.since.0, now)
            } else {
                None
            }
        });
        let may_repeat = || {
            (rule.member)(decision).is_none_or(|member| {
                let place = self.place(home, &member);
                !self.holders.holds(place, now) && self.first_refusals.may_repeat(place, now)
            })
        };
        match outcome {
            Some(outcome) if may_repeat() => Recall::Denied(outcome),
            _ => Recall::Ask(Some(ticket)),
        }
    }

    /// Adds the result of a decision if it is a refusal by the store that may be repeated.
    pub(crate) fn learn<D: Decision>(
        &self,
        decision: &D,
        result: &Result<D::Outcome, Error>,
        ticket: Option<RecallTicket>,
    ) {
        let Some(rule) = (const { &D::PROPERTIES.cache }) else { return };
        let (Ok(outcome), Some(ticket)) = (result, ticket) else { return };
        let Some((denial, holds)) = (rule.denial)(decision, outcome) else { return };
        let RecallTicket { key, generation, epoch, since } = ticket;
        let until = Timestamp(since.0 + holds);
        let partition = decision.partition().into();
        let entry = CachedRefusal { partition, generation, epoch, since, until, denial };
        self.by_kind.get::<VerbRefusals<D>>().entries.put(key, entry, self.clock.now());
        if let Some(member) = (rule.member)(decision) {
            let home = self.home::<D::State>(decision.partition());
            self.first_refusals.forget(self.place(home, &member));
        }
    }

    /// Watches decisions that are about to be sent, for their effect on cached refusals.
    pub(crate) fn watch<'a, D: Decision>(&'a self, decisions: &'a [D]) -> DenialWatch<'a, D> {
        DenialWatch { denials: self, decisions }
    }

    /// Applies the effect of a decision. Without an outcome, it is unknown whether it was executed,
    /// and it counts as executed.
    fn affect<D: Decision>(&self, decision: &D, outcome: Option<&D::Outcome>) {
        let Some(effect) = (D::PROPERTIES.effect)(decision, outcome) else { return };
        if effect == Effect::default() {
            return;
        }
        let home = self.home::<D::State>(decision.partition());
        let keeps = &self.keeps[home as usize % GENERATIONS];
        if let Some(length) = effect.keeps {
            keeps.store(length.0.div_ceil(1000) as u32, Ordering::Release);
        }
        if let Some((member, length)) = effect.holds {
            let until = self.clock.now().after(length);
            let until = until.after(Millis::from_secs(keeps.load(Ordering::Acquire).into()));
            self.holders.hold(self.place(home, &member), until);
        }
        if effect.frees {
            self.generation(home).fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Returns the hash of a partition.
    fn home<S: State>(&self, partition: &[u8]) -> u64 {
        self.hasher.hash_one((S::CAPABILITY, partition))
    }

    /// Returns the hash of a caller in a partition.
    fn place(&self, home: u64, member: &[u8]) -> u64 {
        self.hasher.hash_one((home, member))
    }

    /// Returns the generation counter of a partition, which it may share with others.
    fn generation(&self, home: u64) -> &AtomicU32 {
        &self.generations[home as usize % GENERATIONS]
    }
}

/// Decisions in flight. If dropped before [`DenialWatch::settle`], all of them count as executed.
pub(crate) struct DenialWatch<'a, D: Decision> {
    denials: &'a DenialCache,
    /// The decisions; empty once their outcomes were applied.
    decisions: &'a [D],
}

impl<D: Decision> DenialWatch<'_, D> {
    /// Applies the effect of each outcome to the cache.
    pub(crate) fn settle<'o>(
        mut self,
        outcomes: impl Iterator<Item = Result<&'o D::Outcome, &'o Error>>,
    ) {
        let decisions = std::mem::take(&mut self.decisions);
        for (decision, outcome) in decisions.iter().zip(outcomes) {
            match outcome {
                Ok(outcome) => self.denials.affect(decision, Some(outcome)),
                // Certainly not executed.
                Err(Error::Unavailable(_) | Error::Refused(_) | Error::Overloaded) => {}
                Err(_) => self.denials.affect(decision, None),
            }
        }
    }
}

impl<D: Decision> Drop for DenialWatch<'_, D> {
    fn drop(&mut self) {
        self.decisions.iter().for_each(|decision| self.denials.affect(decision, None));
    }
}

/// The cached refusals of a verb. Each verb has its own, so that a storm of one verb displaces no
/// entries of another.
struct VerbRefusals<D> {
    entries: CachedRefusals<CachedDenial>,
    verb: PhantomData<fn() -> D>,
}

impl<D> Default for VerbRefusals<D> {
    fn default() -> VerbRefusals<D> {
        VerbRefusals { entries: CachedRefusals::default(), verb: PhantomData }
    }
}

/// Refusals by the hash of partition and kind of question. A shard is never locked across an
/// `.await`.
#[derive(Debug)]
struct CachedRefusals<T>(Box<[Shard<T>]>);

type Shard<T> = Mutex<HashMap<u64, CachedRefusal<T>, RandomState>>;

/// A cached refusal and its validity.
#[derive(Debug)]
struct CachedRefusal<T> {
    /// Compared on each use, since the hash can collide.
    partition: Box<[u8]>,
    /// The generation of the partition when the call was sent.
    generation: u32,
    /// The engine's count of lost connections at that time.
    epoch: u64,
    /// The time when the call was sent.
    since: Timestamp,
    /// The end of validity.
    until: Timestamp,
    denial: T,
}

impl<T> Default for CachedRefusals<T> {
    fn default() -> CachedRefusals<T> {
        CachedRefusals((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl<T> CachedRefusals<T> {
    /// Applies `read` to the entry of a key, if there is one.
    fn with<R>(&self, key: u64, read: impl FnOnce(&CachedRefusal<T>) -> Option<R>) -> Option<R> {
        let shard = self.shard(key).lock().unwrap_or_else(PoisonError::into_inner);
        shard.get(&key).and_then(read)
    }

    /// Stores an entry. A full shard first drops its expired entries or, if there are none, the
    /// entry that expires first.
    fn put(&self, key: u64, entry: CachedRefusal<T>, now: Timestamp) {
        let mut shard = self.shard(key).lock().unwrap_or_else(PoisonError::into_inner);
        if shard.len() >= SHARD_MAX && !shard.contains_key(&key) {
            shard.retain(|_, entry| entry.until > now);
            if shard.len() >= SHARD_MAX {
                let first = shard.iter().min_by_key(|(_, entry)| entry.until);
                let first = first.map(|(key, _)| *key);
                first.and_then(|first| shard.remove(&first));
            }
        }
        shard.insert(key, entry);
    }

    fn shard(&self, key: u64) -> &Shard<T> {
        // The map inside the shard uses the low bits.
        &self.0[(key >> 32) as usize % SHARDS]
    }

    /// Returns the number of entries.
    #[cfg(test)]
    fn len(&self) -> usize {
        let count = |shard: &Shard<T>| shard.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.0.iter().map(count).sum()
    }
}

/// The lease ends of callers to whom this server has granted a lease, in seconds since the Unix
/// epoch.
///
/// A repeat of a granted call must get its lease again, so cached refusals do not apply to holders.
/// The table maps a hash of the holder to the end of its lease. Its size is fixed and it does not
/// resolve collisions: two holders with the same slot share the later end, which is on the safe
/// side. Of the calls that could be refused from the cache, about 1 in 100 goes to the store at
/// 10,000 running leases.
#[derive(Debug, Default)]
struct Holders(OnceLock<Box<[AtomicU32]>>);

impl Holders {
    /// Records a lease that ends at `until`.
    fn hold(&self, slot: u64, until: Timestamp) {
        let empty = || (0..HOLDER_SLOTS).map(|_| AtomicU32::new(0)).collect();
        let ends = self.0.get_or_init(empty);
        let seconds = u32::try_from(until.0.div_ceil(1_000_000)).unwrap_or(u32::MAX);
        ends[slot as usize % HOLDER_SLOTS].fetch_max(seconds, Ordering::AcqRel);
    }

    /// Whether the caller with this hash may hold a lease.
    fn holds(&self, slot: u64, now: Timestamp) -> bool {
        let Some(ends) = self.0.get() else { return false };
        u64::from(ends[slot as usize % HOLDER_SLOTS].load(Ordering::Acquire)) * 1_000_000 > now.0
    }
}

#[cfg(test)]
mod tests;
