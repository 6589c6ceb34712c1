//! The limits of `[[namespace]]`.

use super::tally::Total;

/// The limits of a namespace; `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NamespaceLimits {
    /// Calls per second, on all servers together.
    pub calls_per_second: Option<u32>,
    /// Calls in flight on this server, including waiting calls.
    pub in_flight_max: Option<u32>,
    /// Connections to this server.
    pub connections_max: Option<u32>,
    /// Calls on this server that wait for a slot or a lock.
    pub waiting_max: Option<u32>,
    /// Streams of events from this server.
    pub watchers_max: Option<u32>,
    /// Names with state: pools, keys, sequences, locks and skus.
    pub names_max: Option<u32>,
    /// Leases of pools.
    pub leases_max: Option<u32>,
    /// Queued tasks of pools.
    pub queued_max: Option<u32>,
    /// Bytes that callers store: names, payloads, results, orders, buyers, answers for repeats.
    pub bytes_max: Option<u64>,
}

impl NamespaceLimits {
    /// Whether leases, queued tasks or bytes are limited.
    pub fn limits_held(&self) -> bool {
        self.leases_max.is_some() || self.queued_max.is_some() || self.bytes_max.is_some()
    }

    /// Returns the configuration key of the limit on a total, and the limit.
    pub(super) fn total_max(&self, total: Total) -> Option<(&'static str, u64)> {
        let (key, most) = match total {
            Total::Names => ("names_max", self.names_max.map(u64::from)),
            Total::Leases => ("leases_max", self.leases_max.map(u64::from)),
            Total::Queued => ("queued_max", self.queued_max.map(u64::from)),
            Total::Bytes => ("bytes_max", self.bytes_max),
        };
        most.map(|most| (key, most))
    }
}

/// One entry of the configuration: the limits of each namespace that matches a glob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceRule {
    /// The glob.
    pub pattern: String,
    /// The limits.
    pub limits: NamespaceLimits,
}
