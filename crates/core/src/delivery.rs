//! How the engine delivers a decision to the store.

use super::{Cost, Decision};
use crate::time::{Millis, Timestamp};

/// The properties by which the engine queues, sends and repeats a decision. Most decisions use most
/// of the defaults. The embedded engine uses only [`creates`](Delivery::creates), for `names_max`.
///
/// A property is a function if it depends on the fields of some decision: the cost on the number of
/// bytes, `is_repeatable` on the request id, the listing on the length of the lease. The functions
/// are constants, so the compiler calls them directly. One that ignores its argument costs nothing.
#[derive(Debug)]
pub struct Delivery<D: Decision> {
    /// Which decisions go first.
    pub priority: Priority,
    /// Whether executing the decision twice has the same effect as executing it once. Only then
    /// does the engine send it again after a lost reply. Otherwise the fate of the call is unknown.
    pub is_repeatable: fn(&D) -> bool,
    /// Whether the outcome of a repeated decision also tells the fate of the first try, whose reply
    /// was lost. If not, the call fails with
    /// [`DeadlineExceeded`](crate::error::Error::DeadlineExceeded).
    pub settles: fn(&D, &D::Outcome) -> bool,
    /// Upper bound on the Redis time of the decision.
    pub cost: fn(&D) -> Cost,
    /// Change that the decision may make to the partition's entry in the partition index.
    pub listing: fn(&D) -> Listing,
    /// Length of the granted lease, if it is shorter than `listing` announced. A run-time setting of
    /// the pool can cause that. The engine then corrects the partition index.
    pub ends_sooner: fn(&D, &D::Outcome) -> Option<Millis>,
    /// Whether the decision can create its partition. Such decisions count for `names_max`.
    pub creates: fn(&D) -> bool,
    /// Upper bound on the bytes that the decision adds to its partition, for `bytes_max`: texts, and
    /// [`ENTRY_BYTES`](super::ENTRY_BYTES) for each entry. 0 for a decision that cannot add more than a
    /// fixed number of bytes to a partition.
    pub adds: fn(&D) -> u64,
}

impl<D: Decision> Delivery<D> {
    /// A repeatable call of plain cost that changes no listing.
    pub const DEFAULT: Delivery<D> = Delivery {
        priority: Priority::Call,
        is_repeatable: |_| true,
        settles: |_, _| true,
        cost: |_| Cost::PLAIN,
        listing: |_| Listing::Same,
        ends_sooner: |_, _| None,
        creates: |_| false,
        adds: |_| 0,
    };

    /// A call that frees capacity or extends a lease.
    pub const FREES_CAPACITY: Delivery<D> =
        Delivery { priority: Priority::FreesCapacity, ..Delivery::DEFAULT };

    /// Background work.
    pub const BACKGROUND: Delivery<D> =
        Delivery { priority: Priority::Background, ..Delivery::DEFAULT };
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
