//! The lease ends of callers that this server has granted something.
//!
//! A repeat of a granted call must get its lease again, so cached refusals do not apply to holders.
//! The table maps a hash of the holder to the end of its lease. Its size is fixed and it resolves
//! no collisions: two holders with the same slot share the later end. The error is on the safe
//! side. Of the calls that could be refused from the cache, about 1 in 100 goes to the store at
//! 10,000 running leases.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use tollgate_core::time::Timestamp;

/// The number of slots, 4 bytes each. Allocated with the first grant.
const SLOTS: usize = 1 << 20;

/// The latest lease end of each slot, in seconds since the Unix epoch.
#[derive(Debug, Default)]
pub(super) struct Holders(OnceLock<Box<[AtomicU32]>>);

impl Holders {
    /// Records a lease that ends at `until`.
    pub(super) fn hold(&self, slot: u64, until: Timestamp) {
        let empty = || (0..SLOTS).map(|_| AtomicU32::new(0)).collect();
        let ends = self.0.get_or_init(empty);
        let seconds = u32::try_from(until.0.div_ceil(1_000_000)).unwrap_or(u32::MAX);
        ends[slot as usize % SLOTS].fetch_max(seconds, Ordering::AcqRel);
    }

    /// Whether the caller with this hash may hold a lease.
    pub(super) fn holds(&self, slot: u64, now: Timestamp) -> bool {
        let Some(ends) = self.0.get() else { return false };
        u64::from(ends[slot as usize % SLOTS].load(Ordering::Acquire)) * 1_000_000 > now.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_known_to_their_end_whoever_else_comes() {
        let held = Holders::default();
        let now = Timestamp(1_000_000_500);
        assert!(!held.holds(7, now));
        held.hold(7, Timestamp(1_002_000_001));
        // A shorter lease with the same slot does not shorten it.
        held.hold(7 + SLOTS as u64, Timestamp(1_001_000_000));
        assert!(held.holds(7, now) && held.holds(7, Timestamp(1_002_000_001)));
        assert!(!held.holds(7, Timestamp(1_003_000_000)) && !held.holds(8, now));
        (0..300_000).for_each(|slot| held.hold(slot, now));
        assert!(held.holds(7, Timestamp(1_002_000_001)));
    }
}
