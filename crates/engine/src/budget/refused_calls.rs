//! Counters of the calls that the limits of a namespace refused.

use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of namespaces with series. The refusals of others are counted together, as
/// `other`.
pub const REFUSED_SERIES_MAX: u64 = 1000;

/// The configuration keys of the limits.
pub(super) const KEYS: [&str; 9] = [
    "calls_per_second",
    "in_flight_max",
    "connections_max",
    "waiting_max",
    "watchers_max",
    "names_max",
    "leases_max",
    "queued_max",
    "bytes_max",
];

/// The number of namespaces that have refused calls.
static NAMESPACES: AtomicU64 = AtomicU64::new(0);

/// The number of calls that the limits of a namespace have refused.
#[derive(Debug, Default)]
pub(super) struct RefusedCalls {
    /// The counts by limit, in the order of [`KEYS`].
    pub(super) counts: [AtomicU64; KEYS.len()],
    /// The position among the namespaces that have refused calls, from 1; 0 before the first
    /// refusal.
    position: AtomicU64,
}

impl RefusedCalls {
    pub(super) fn add(&self, limit: &str) {
        let Some(index) = KEYS.iter().position(|key| *key == limit) else { return };
        self.counts[index].fetch_add(1, Ordering::Relaxed);
        // If two first refusals happen simultaneously, one position remains unused.
        if self.position.load(Ordering::Relaxed) == 0 {
            let position = NAMESPACES.fetch_add(1, Ordering::Relaxed) + 1;
            self.position.store(position, Ordering::Relaxed);
        }
    }

    /// Returns the number of calls that a limit has refused.
    pub(super) fn by(&self, limit: &str) -> u64 {
        let index = KEYS.iter().position(|key| *key == limit);
        index.map_or(0, |index| self.counts[index].load(Ordering::Relaxed))
    }

    pub(super) fn has_series(&self) -> bool {
        self.position.load(Ordering::Relaxed) <= REFUSED_SERIES_MAX
    }
}
