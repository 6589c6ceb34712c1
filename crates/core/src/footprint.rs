//! The leases, queued tasks and bytes of a namespace, and what a decision adds, for limits.

use super::{Decision, time::Timestamp};

/// The bytes that an entry counts in addition to its strings: a task, an order, a buyer, or an
/// answer for repeats. Roughly its memory on either engine.
pub const ENTRY_BYTES: u64 = 192;
/// The bytes that a partition counts in addition to its name and its entries.
pub const PARTITION_BYTES: u64 = 128;

/// A decision that can add an entry to an existing state. The engines call these methods only while
/// a limit is in force.
pub trait Grows: Decision {
    /// The kind of entry that the decision can add, if a limit of the namespace counts that kind.
    const TAKES: Option<Takes> = None;

    /// Whether the decision would create an entry in this existing state. The embedded engine
    /// refuses such decisions while the process uses more memory than `memory_max`.
    fn is_new(&self, state: &Self::State, now: Timestamp) -> bool;
    /// Whether the decision would add bytes ([`super::Properties::adds`]) to this existing state.
    fn adds(&self, state: &Self::State, now: Timestamp) -> bool {
        self.is_new(state, now)
    }
    /// Returns the kind of entry that the decision would add to this state. Used by the embedded
    /// engine.
    fn takes(&self, _: &Self::State, _: Timestamp) -> Option<Takes> {
        None
    }
    /// Whether a decision with [`Grows::TAKES`] has added an entry. Used by the engine on Redis.
    fn taken(_: &Self::Outcome) -> Taking {
        Taking::Nothing
    }
}

/// The leases, queued tasks and bytes of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Footprint {
    /// Leases, including ended ones that the sweeper has not removed yet.
    pub leases: u64,
    /// Tasks in the queue.
    pub queued: u64,
    /// Bytes of its entries: their texts, and [`ENTRY_BYTES`] for each.
    pub bytes: u64,
}

/// The kind of entry that a decision can add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A lease.
    Lease,
    /// A queued task.
    Queued,
}

/// Whether a decision that can add an entry has added it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    /// It added no entry.
    Nothing,
    /// It added one.
    One,
    /// It was refused: it was encoded as limited ([`super::Call::is_limited`]), or the queue of the
    /// pool is full.
    Limited,
}

impl Footprint {
    /// Returns the number of one kind.
    pub fn count_mut(&mut self, takes: Takes) -> &mut u64 {
        match takes {
            Takes::Lease => &mut self.leases,
            Takes::Queued => &mut self.queued,
        }
    }
}
