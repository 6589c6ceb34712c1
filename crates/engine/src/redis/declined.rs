//! The partitions whose decisions were recently declined by their plain scripts.
//!
//! A declined decision costs a second script call, and the reason for declining it usually
//! persists, such as a ban of a key or the waiters of a pool. Further decisions on the partition
//! therefore use the verb's own script for a while.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use ahash::RandomState;
use tollgate_core::time::monotonic;

/// The time for which a partition counts as declined. Short, because the end of a lease, for example,
/// declines only the next decision.
const DECLINED_FOR: Duration = Duration::from_millis(100);
/// The number of partitions that are remembered. The hash of a partition selects its place, where
/// it replaces any other partition.
const PLACES: usize = 1024;
/// The bits of an entry that hold the time in ms; the others hold the hash.
const TIME_BITS: u32 = 32;

/// Remembers declined partitions.
pub(super) struct DeclinedPartitions {
    hasher: RandomState,
    since: Instant,
    places: Box<[AtomicU64; PLACES]>,
}

impl DeclinedPartitions {
    pub(super) fn new() -> DeclinedPartitions {
        DeclinedPartitions {
            hasher: RandomState::new(),
            since: monotonic(),
            places: Box::new([const { AtomicU64::new(0) }; PLACES]),
        }
    }

    /// Remembers a partition.
    pub(super) fn insert(&self, partition: &[u8]) {
        let (place, hash) = self.place(partition);
        place.store(hash | self.millis() & u64::from(u32::MAX), Ordering::Relaxed);
    }

    /// Whether a decision of the partition was declined a short time ago.
    pub(super) fn contains(&self, partition: &[u8]) -> bool {
        let (place, hash) = self.place(partition);
        let entry = place.load(Ordering::Relaxed);
        let passed = || (self.millis() as u32).wrapping_sub(entry as u32);
        // The clock is read for declined partitions only.
        entry >> TIME_BITS == hash >> TIME_BITS && u128::from(passed()) < DECLINED_FOR.as_millis()
    }

    /// Returns the place of a partition, and its hash without the bits of the time.
    fn place(&self, partition: &[u8]) -> (&AtomicU64, u64) {
        let hash = self.hasher.hash_one(partition);
        (&self.places[hash as usize % PLACES], hash >> TIME_BITS << TIME_BITS)
    }

    /// Returns the time since the start, ms. It begins at 1 s, so that no empty place is recent.
    fn millis(&self) -> u64 {
        monotonic().saturating_duration_since(self.since).as_millis() as u64 + 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declined_partition_is_remembered_and_others_are_not() {
        let declined = DeclinedPartitions::new();
        assert!(!declined.contains(b"a"));
        declined.insert(b"a");
        assert!(declined.contains(b"a"));
        assert!((0..100u8).all(|other| !declined.contains(&[b'b', other])));
    }
}
