//! The bound on the number of expired entries that one decision removes.

/// The amount that one decision may still spend on expired entries; the twin of `lua/lib/allowance.lua`.
///
/// Dead tickets, ended leases and queued tasks share it, so that a script call stays below 5 ms of
/// Redis time no matter how much has expired at the same time. A unit is about 3 µs of Redis time.
/// The last entry may cost more than is left.
#[derive(Debug)]
pub struct Allowance(i32);

impl Allowance {
    /// The allowance of a decision.
    pub const TOTAL: i32 = 500;
    /// The cost of a dead ticket that leaves its queue.
    const PLACE: i32 = 1;
    /// The cost of a lease that has ended and is reclaimed.
    const LEASE: i32 = 5;
    /// The cost of a task that leaves its queue, with or without a lease, and frees its payload.
    const TASK: i32 = 12;

    /// Creates a full allowance.
    pub fn new() -> Allowance {
        Allowance(Allowance::TOTAL)
    }

    /// Whether no unit is left.
    pub fn is_spent(&self) -> bool {
        self.0 <= 0
    }

    /// Returns the number of tasks that may still leave their queue.
    pub fn tasks(&self) -> usize {
        (self.0.max(0) as usize).div_ceil(Allowance::TASK as usize)
    }

    /// Spends the cost of a dead ticket.
    pub fn spend_place(&mut self) {
        self.0 -= Allowance::PLACE;
    }

    /// Spends the cost of an ended lease, or of the task that leaves its queue with it.
    pub fn spend_lease(&mut self, leaves_queue: bool) {
        self.0 -= if leaves_queue { Allowance::TASK } else { Allowance::LEASE };
    }

    /// Spends the cost of a task without a lease.
    pub fn spend_task(&mut self) {
        self.0 -= Allowance::TASK;
    }
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance::new()
    }
}
