//! The usage of the limits of namespaces, for the console.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{NamespaceBudget, tally::Total};

/// The usage of the limits of one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceUsage {
    /// The prefix of the namespace.
    pub prefix: Box<[u8]>,
    /// Its limits.
    pub limits: Vec<LimitUsage>,
}

/// The usage of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitUsage {
    /// The configuration key.
    pub key: &'static str,
    /// The number in use; `None` if it is not counted on this server.
    pub used: Option<u64>,
    /// The limit.
    pub max: u64,
    /// The number of calls that it has refused on this server.
    pub refused: u64,
}

impl NamespaceBudget {
    /// Returns the namespaces that have limits and were used, by prefix.
    pub fn usage(&self) -> Vec<NamespaceUsage> {
        let mut all: Vec<_> = self
            .used()
            .into_iter()
            .map(|(prefix, used)| {
                let (limits, counts) = (&used.limits, &used.counts);
                let now = |count: &AtomicU64| Some(count.load(Ordering::Relaxed));
                // Totals in Redis are counted only while calls use them; the embedded engine always
                // knows its own.
                let total =
                    |total| Some(counts.tallies.tally(total).lock().counted()).filter(|it| *it > 0);
                let counted = [
                    ("calls_per_second", None, limits.calls_per_second),
                    ("in_flight_max", now(&counts.in_flight), limits.in_flight_max),
                    ("connections_max", now(&counts.connections), limits.connections_max),
                    ("waiting_max", now(&counts.waiting), limits.waiting_max),
                    ("watchers_max", now(&counts.watchers), limits.watchers_max),
                    ("names_max", total(Total::Names), limits.names_max),
                    ("leases_max", total(Total::Leases), limits.leases_max),
                    ("queued_max", total(Total::Queued), limits.queued_max),
                ];
                let bytes = ("bytes_max", total(Total::Bytes), limits.bytes_max);
                let counted = counted.map(|(key, used, max)| (key, used, max.map(u64::from)));
                let limits = counted.into_iter().chain([bytes]);
                let limits = limits.filter_map(|(key, used, max)| {
                    Some(LimitUsage { key, used, max: max?, refused: counts.refused.by(key) })
                });
                NamespaceUsage { prefix, limits: limits.collect() }
            })
            .collect();
        all.sort_by(|one, other| one.prefix.cmp(&other.prefix));
        all
    }
}
