//! How the engine delivers a decision to the store.

use super::{Cost, acknowledgement::Acknowledgement};
use crate::decision::time::{Millis, Timestamp};

/// The properties by which the engine queues, sends and repeats a decision. Most decisions have the
/// defaults; the embedded engine uses none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// Which decisions go first.
    pub priority: Priority,
    /// Whether executing the decision twice has the same effect as executing it once. Only then
    /// does the engine send it again after a lost reply. Otherwise the fate of the call is unknown.
    pub is_repeatable: bool,
    /// Change that the decision may make to the partition's entry in the partition index.
    pub listing: Listing,
    /// Number of replicas that must acknowledge the write before the call is answered, and for how
    /// long the call waits for them.
    pub acknowledgement: Acknowledgement,
    /// Upper bound on the Redis time of the decision.
    pub cost: Cost,
}

impl Delivery {
    /// A repeatable call of plain cost that changes no listing and needs no acknowledgement.
    pub const DEFAULT: Delivery = Delivery {
        priority: Priority::Call,
        is_repeatable: true,
        listing: Listing::Same,
        acknowledgement: Acknowledgement::NONE,
        cost: Cost::PLAIN,
    };

    /// Whether this is background work.
    pub fn is_background(&self) -> bool {
        self.priority == Priority::Background
    }

    /// Whether the decision frees capacity or extends a lease.
    pub fn frees_capacity(&self) -> bool {
        self.priority == Priority::FreesCapacity
    }
}

/// Which decisions go first, and which may be refused under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// An ordinary call: counts towards the in-flight limit, and is shed under load.
    Call,
    /// Frees capacity or extends a lease. Goes before waiting decisions, is exempt from the
    /// in-flight limit, and is never shed.
    FreesCapacity,
    /// Background work for calls that the server accepted before, such as heartbeats. Exempt from
    /// the in-flight limit and from load shedding, and sent in a separate script call.
    Background,
}

/// Change of a partition's entry in the partition index, which listings and the sweeper read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// No change.
    Same,
    /// The partition may hold something that expires at the given time.
    Held(Ends),
    /// The partition holds run-time settings, which do not expire.
    Kept,
    /// The partition no longer holds run-time settings.
    Released,
}

/// Expiry of the things that a decision creates. The sweeper visits the partition at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// This long after the decision, unless it is extended.
    After(Millis),
    /// At this time of the store.
    At(Timestamp),
    /// It does not expire.
    Never,
}
