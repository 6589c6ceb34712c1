//! The cached refusals of one verb, in a sharded map of bounded size.

use std::{
    collections::HashMap,
    marker::PhantomData,
    sync::{Mutex, PoisonError},
};

use ahash::RandomState;

use tollgate_core::{denial::CachedDenial, time::Timestamp};

/// The number of shards, so that threads rarely wait for each other.
const SHARDS: usize = 64;
/// Entries of a shard: 32,768 for each verb.
const SHARD_MAX: usize = 512;

/// The cached refusals of a verb. Each has its own, so that a storm of one verb displaces no entry of
/// another.
pub(super) struct VerbRefusals<D> {
    pub(super) entries: CachedRefusals<CachedDenial>,
    verb: PhantomData<fn() -> D>,
}

impl<D> Default for VerbRefusals<D> {
    fn default() -> VerbRefusals<D> {
        VerbRefusals { entries: CachedRefusals::default(), verb: PhantomData }
    }
}

/// Refusals by the hash of partition and kind of question. A shard's lock is never held over an
/// `.await`.
#[derive(Debug)]
pub(super) struct CachedRefusals<T>(Box<[Shard<T>]>);

type Shard<T> = Mutex<HashMap<u64, CachedRefusal<T>, RandomState>>;

/// A cached refusal and its validity.
#[derive(Debug)]
pub(super) struct CachedRefusal<T> {
    /// Compared on each use, since the hash can collide.
    pub(super) partition: Box<[u8]>,
    /// The generation of the partition when the call was sent.
    pub(super) generation: u32,
    /// The engine's count of lost connections at that time.
    pub(super) epoch: u64,
    /// The time when the call was sent.
    pub(super) since: Timestamp,
    /// The end of validity.
    pub(super) until: Timestamp,
    pub(super) denial: T,
}

impl<T> Default for CachedRefusals<T> {
    fn default() -> CachedRefusals<T> {
        CachedRefusals((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl<T> CachedRefusals<T> {
    /// Applies `read` to the entry of a key, if there is one.
    pub(super) fn with<R>(
        &self,
        key: u64,
        read: impl FnOnce(&CachedRefusal<T>) -> Option<R>,
    ) -> Option<R> {
        let shard = self.shard(key).lock().unwrap_or_else(PoisonError::into_inner);
        shard.get(&key).and_then(read)
    }

    /// Stores an entry. A full shard first drops its expired entries, or else the entry that
    /// expires first.
    pub(super) fn put(&self, key: u64, entry: CachedRefusal<T>, now: Timestamp) {
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
        // The map inside uses the low bits.
        &self.0[(key >> 32) as usize % SHARDS]
    }

    /// The number of entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let count = |shard: &Shard<T>| shard.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.0.iter().map(count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(since: u64, until: u64) -> CachedRefusal<u64> {
        let (since, until) = (Timestamp(since), Timestamp(until));
        CachedRefusal {
            partition: Box::default(),
            generation: 0,
            epoch: 0,
            since,
            until,
            denial: since.0,
        }
    }

    fn denial(refusals: &CachedRefusals<u64>, key: u64) -> Option<u64> {
        refusals.with(key, |entry| Some(entry.denial))
    }

    #[test]
    fn those_whose_time_is_over_go_first_and_there_are_never_more() {
        let refusals = CachedRefusals::default();
        // All keys belong to one shard.
        for key in 0..SHARD_MAX as u64 {
            let until = if key % 2 == 0 { 100 } else { 1000 + key };
            refusals.put(key, entry(key, until), Timestamp(0));
        }
        assert_eq!(refusals.len(), SHARD_MAX);
        // A replacement needs no free space.
        refusals.put(0, entry(9999, 100), Timestamp(0));
        assert_eq!((refusals.len(), denial(&refusals, 0)), (SHARD_MAX, Some(9999)));
        refusals.put(10_000, entry(1, 1500), Timestamp(100));
        assert_eq!(refusals.len(), SHARD_MAX / 2 + 1);
        assert_eq!((denial(&refusals, 2), denial(&refusals, 1)), (None, Some(1)));
        // None is expired: the entry that expires first is dropped.
        for key in 20_000..30_000 {
            refusals.put(key, entry(key, key), Timestamp(100));
            assert!(refusals.len() <= SHARD_MAX);
        }
        assert_eq!(denial(&refusals, 10_000), None);
        assert!((30_000 - SHARD_MAX as u64..30_000).all(|key| denial(&refusals, key) == Some(key)));
    }

    #[test]
    fn all_shards_together_are_bounded() {
        let refusals = CachedRefusals::default();
        for key in 0..100_000u64 {
            let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            refusals.put(spread, entry(0, 1000), Timestamp(0));
        }
        assert!((30_000..=SHARDS * SHARD_MAX).contains(&refusals.len()), "{}", refusals.len());
    }
}
