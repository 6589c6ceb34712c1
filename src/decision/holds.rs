//! What the partitions of a namespace hold, for its limits.

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

impl Holds {
    /// The number of one kind.
    pub fn of(&mut self, takes: Takes) -> &mut u64 {
        match takes {
            Takes::Lease => &mut self.leases,
            Takes::Queued => &mut self.queued,
        }
    }
}
