//! The primary id identifies the Redis process that answers as a node's primary. This server
//! records since when it has seen it.
//!
//! A failover loses the last writes, so a pool must detect it. `lua/lib/failover.lua` stores the id
//! of the primary with the pool, and compares it with the primary that executes the script. Each
//! call contains the server's sighting: the id, how long it has been unchanged, and whether another
//! primary answered before.

use std::time::Instant;

use tollgate_core::{
    Sighting,
    time::{Millis, monotonic},
};

/// The primary id, as INFO reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PrimaryId {
    /// `run_id`, which changes with each restart and differs between nodes.
    pub(super) process: String,
    /// `master_replid`, which changes with each promotion, and sometimes without one.
    pub(super) history: String,
    /// `master_replid2`, the history before the promotion; zeros if there was none or it is
    /// forgotten.
    pub(super) before: String,
}

/// A primary id, and since when it is known.
#[derive(Debug)]
pub(super) struct SeenPrimary {
    leader: PrimaryId,
    /// The time of the first sighting.
    since: Instant,
    /// Whether there was another primary before it.
    has_changed: bool,
}

impl PrimaryId {
    /// Whether it was a replica before, as far as it remembers.
    fn is_promoted(&self) -> bool {
        self.before.bytes().any(|digit| digit != b'0')
    }

    /// Whether the same primary has been in charge without interruption since it was seen as
    /// `before`. Its `master_replid` can change without a promotion: when its first replica
    /// connects, or after a long time without replicas.
    fn led_as(&self, before: &PrimaryId) -> bool {
        self.process == before.process && (self.history == before.history || !self.is_promoted())
    }
}

impl SeenPrimary {
    /// Creates the first sighting of a primary. `has_changed` says whether there was another one
    /// before it.
    pub(super) fn first(leader: PrimaryId, has_changed: bool) -> SeenPrimary {
        SeenPrimary { leader, since: monotonic(), has_changed }
    }

    /// Records the id from the last answer. Returns whether there is a new primary. An answer
    /// without a `run_id` is assumed to come from the same process.
    pub(super) fn record(&mut self, mut leader: PrimaryId) -> bool {
        if leader.process.is_empty() {
            leader.process.clone_from(&self.leader.process);
        }
        let is_other = !leader.led_as(&self.leader);
        if is_other {
            *self = SeenPrimary::first(leader, true);
        } else {
            self.leader = leader;
        }
        is_other
    }

    /// Returns the sighting that is sent with a decision: "process:history", its duration, and
    /// whether there was another primary before.
    pub(super) fn sighting(&self) -> Sighting {
        let PrimaryId { process, history, .. } = &self.leader;
        let length = Millis(self.since.elapsed().as_millis() as u64);
        let has_changed = self.has_changed;
        Sighting { leader: format!("{process}:{history}"), length, has_changed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader(process: &str, history: &str, before: &str) -> PrimaryId {
        let [process, history, before] = [process, history, before].map(str::to_owned);
        PrimaryId { process, history, before }
    }

    #[test]
    fn a_primary_counts_as_new_if_it_may_have_lost_writes() {
        let led = |now: &PrimaryId| now.led_as(&leader("a", "1", "0000"));
        assert!(led(&leader("a", "1", "0000")));
        // A first replica connected.
        assert!(led(&leader("a", "2", "0000")));
        // It was a replica in between; it restarted; there is another primary.
        assert!(!led(&leader("a", "2", "0001")));
        assert!(!led(&leader("b", "1", "0000")));
        assert!(!led(&leader("b", "2", "1")));
    }
}
