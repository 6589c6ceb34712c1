//! Whom a server has seen lead: what `lua/lib/failover.lua` compares with whom a script
//! finds to lead.

use std::time::Instant;

use crate::{
    decision::{Leads, Sighting},
    time::{Millis, monotonic},
};

use super::topology::Topology;

/// What a primary is called while it leads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Leader {
    /// Another one after a promotion or a restart.
    pub(super) process: String,
    /// Another one after a promotion, and now and then without one.
    pub(super) history: String,
    /// What it was called before it was promoted; zeros where that is forgotten.
    pub(super) before: String,
}

/// A leader, and since when it is known.
#[derive(Debug)]
pub(super) struct Seen {
    leader: Leader,
    since: Instant,
    has_changed: bool,
}

impl Leader {
    fn is_promoted(&self) -> bool {
        self.before.bytes().any(|digit| digit != b'0')
    }

    /// Whether it has led on since it was seen as `before`. A history changes without a
    /// promotion when a first replica comes, or none was there for long.
    fn led_as(&self, before: &Leader) -> bool {
        self.process == before.process && (self.history == before.history || !self.is_promoted())
    }
}

impl Seen {
    /// For the first time; or after other failovers.
    pub(super) fn first(leader: Leader, has_changed: bool) -> Seen {
        Seen { leader, since: monotonic(), has_changed }
    }

    /// Whether another one leads now; without a process it is the one that was asked.
    pub(super) fn note(&mut self, mut leader: Leader) -> bool {
        if leader.process.is_empty() {
            leader.process.clone_from(&self.leader.process);
        }
        let is_other = !leader.led_as(&self.leader);
        if is_other {
            *self = Seen::first(leader, true);
        } else {
            self.leader = leader;
        }
        is_other
    }

    pub(super) fn sighting(&self) -> Sighting {
        let Leader { process, history, .. } = &self.leader;
        let length = Millis(self.since.elapsed().as_millis() as u64);
        let has_changed = self.has_changed;
        Sighting { leader: format!("{process}:{history}"), length, has_changed }
    }
}

impl Leads for Topology {
    fn sighting(&self, key: &[u8]) -> Option<Sighting> {
        let seen = self.node(self.slot(key)).ok()?.monitor.sighting();
        let unseen = || Sighting { leader: "-".to_owned(), length: Millis(0), has_changed: false };
        let mut sighting = seen.unwrap_or_else(unseen);
        // Of another node's slots it may be the successor before anybody has asked it.
        sighting.has_changed |= self.has_changed();
        Some(sighting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader(process: &str, history: &str, before: &str) -> Leader {
        let [process, history, before] = [process, history, before].map(str::to_owned);
        Leader { process, history, before }
    }

    #[test]
    fn another_leader_is_one_that_may_have_lost_something() {
        let led = |now: &Leader| now.led_as(&leader("a", "1", "0000"));
        assert!(led(&leader("a", "1", "0000")));
        // A first replica came.
        assert!(led(&leader("a", "2", "0000")));
        // It followed another one meanwhile; it began anew; another one leads.
        assert!(!led(&leader("a", "2", "0001")));
        assert!(!led(&leader("b", "1", "0000")));
        assert!(!led(&leader("b", "2", "1")));
    }
}
