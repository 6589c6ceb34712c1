//! Forces a store check after one second of cached refusals.
//!
//! A task that another server has admitted is unknown here. During a storm, the refusal of its pool
//! is constantly renewed in the cache, so a repeat of that task would never reach the store. This
//! table records since when each caller has been refused from the cache.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use tollgate_core::time::{Millis, Timestamp};

/// The number of slots, 8 bytes each. Allocated with the first cached refusal.
const SLOTS: usize = 1 << 18;
/// The time for which a caller gets only cached refusals.
const PATIENCE: Millis = Millis(1000);
/// The bits of a slot that contain a time in ms. The others contain part of the caller's hash.
const MILLIS: u64 = (1 << 40) - 1;

/// The time of each caller's first cached refusal since the store last decided for it, by slot. A
/// new caller replaces another one in its slot.
#[derive(Debug, Default)]
pub(super) struct FirstRefusals(OnceLock<Box<[AtomicU64]>>);

impl FirstRefusals {
    /// Whether a caller may get a cached refusal now. The first refusal starts its one second.
    pub(super) fn may_repeat(&self, member: u64, now: Timestamp) -> bool {
        let empty = || (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        let since = &self.0.get_or_init(empty)[member as usize % SLOTS];
        let millis = (now.0 / 1000) & MILLIS;
        let seen = since.load(Ordering::Relaxed);
        if seen == 0 || !is_of(seen, member) {
            since.store(member & !MILLIS | millis, Ordering::Relaxed);
            return true;
        }
        millis.wrapping_sub(seen & MILLIS) < PATIENCE.0
    }

    /// Records that the store has refused a caller.
    pub(super) fn forget(&self, member: u64) {
        let Some(slots) = self.0.get() else { return };
        let since = &slots[member as usize % SLOTS];
        if is_of(since.load(Ordering::Relaxed), member) {
            since.store(0, Ordering::Relaxed);
        }
    }
}

/// Whether the slot is used by this caller.
fn is_of(seen: u64, member: u64) -> bool {
    seen & !MILLIS == member & !MILLIS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_reaches_the_store_regularly_however_often_it_calls() {
        let (told, start) = (FirstRefusals::default(), 1_767_225_600_000_000);
        let at = |millis: u64| Timestamp(start + millis * 1000);
        let member = 0x1234_5678_9abc_def0;
        for (millis, expected) in [(0, true), (999, true), (1000, false), (1001, false)] {
            assert_eq!(told.may_repeat(member, at(millis)), expected, "{millis}");
        }
        // The store was asked, so the second starts again. A rare caller asks every other time.
        told.forget(member);
        assert!(told.may_repeat(member, at(2000)) && !told.may_repeat(member, at(600_000)));
        told.forget(member);
        // Each caller has its own second.
        assert!((1..1000).all(|other| told.may_repeat(member + other, at(600_000))));
        // A caller replaces another one in its slot.
        let same_place = member ^ 1 << 63;
        assert!(told.may_repeat(same_place, at(600_000)));
        assert!(told.may_repeat(member, at(605_000)));
        // After the clock steps back, the store is asked.
        assert!(!told.may_repeat(member, at(604_000)));
    }
}
