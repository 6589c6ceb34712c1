//! Who was granted something through this server, and until when it may run: a repeat
//! has to get it again, so no remembered refusal is for it.
//!
//! A table of instants by the hash of who holds, with no way to be full. Two that fall
//! into one place share the later instant: with many leases some calls that could be
//! refused here go to the store, but never is a holder refused for being forgotten. Of
//! 10,000 leases that run, one such call in a hundred does.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use crate::time::Timestamp;

/// Four bytes each, taken with the first grant.
const PLACES: usize = 1 << 20;

/// The end of what is held, by place, in seconds since the epoch.
#[derive(Debug, Default)]
pub(super) struct Held(OnceLock<Box<[AtomicU32]>>);

impl Held {
    /// Notes that something is held until then.
    pub(super) fn hold(&self, place: u64, until: Timestamp) {
        let empty = || (0..PLACES).map(|_| AtomicU32::new(0)).collect();
        let ends = self.0.get_or_init(empty);
        let seconds = u32::try_from(until.0.div_ceil(1_000_000)).unwrap_or(u32::MAX);
        ends[place as usize % PLACES].fetch_max(seconds, Ordering::AcqRel);
    }

    /// Whether something may be held now.
    pub(super) fn holds(&self, place: u64, now: Timestamp) -> bool {
        let Some(ends) = self.0.get() else { return false };
        u64::from(ends[place as usize % PLACES].load(Ordering::Acquire)) * 1_000_000 > now.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_known_to_their_end_whoever_else_comes() {
        let held = Held::default();
        let now = Timestamp(1_000_000_500);
        assert!(!held.holds(7, now));
        held.hold(7, Timestamp(1_002_000_001));
        // A shorter lease of who shares its place does not shorten it.
        held.hold(7 + PLACES as u64, Timestamp(1_001_000_000));
        assert!(held.holds(7, now) && held.holds(7, Timestamp(1_002_000_001)));
        assert!(!held.holds(7, Timestamp(1_003_000_000)) && !held.holds(8, now));
        (0..300_000).for_each(|place| held.hold(place, now));
        assert!(held.holds(7, Timestamp(1_002_000_001)));
    }
}
