//! What the partitions of a namespace hold, and what a decision adds to it, for limits.

use super::{Decision, time::Timestamp};

/// A decision that can add an entry to an existing state. The engines ask only while a limit is in
/// force.
pub trait Grows: Decision {
    /// What the decision takes in some states, for the limits of namespaces.
    const TAKES: Option<Takes> = None;

    /// Whether the decision would create an entry in this existing state. The embedded engine
    /// refuses such decisions while the process uses more memory than `memory_max`.
    fn is_new(&self, state: &Self::State, now: Timestamp) -> bool;
    /// What the decision would take in this state. The embedded engine asks.
    fn takes(&self, _: &Self::State, _: Timestamp) -> Option<Takes> {
        None
    }
    /// What a decision with [`Grows::TAKES`] has taken. The engine on Redis asks.
    fn taken(_: &Self::Outcome) -> Taking {
        Taking::Nothing
    }
}

/// The leases and queued tasks of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Holds {
    /// Leases, including ended ones that the sweeper has not removed yet.
    pub leases: u64,
    /// Tasks in the queue.
    pub queued: u64,
}

/// What a decision takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A lease.
    Lease,
    /// A place for a task in the queue.
    Queued,
}

/// What a decision that may take something has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    /// It took nothing.
    Nothing,
    /// It took one.
    One,
    /// It was refused because it was encoded as limited ([`super::Call::is_limited`]), or for lack of
    /// capacity.
    Limited,
}

impl Holds {
    /// The number of one kind.
    pub fn of(&mut self, takes: Takes) -> &mut u64 {
        match takes {
            Takes::Lease => &mut self.leases,
            Takes::Queued => &mut self.queued,
        }
    }
}
