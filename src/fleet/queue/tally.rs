//! What came of a run, counted while it runs.

use crate::fleet::tally::{Count, Tally as Devices};

/// What is counted beside what every fleet of devices counts.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Leases, answers and calls, as without a queue.
    pub(super) devices: std::sync::Arc<Devices>,
    /// Tasks that were queued.
    pub(super) queued: Count,
    /// Tasks that a repeated call had queued already.
    pub(super) duplicates: Count,
    /// Tasks that the pool had no room for.
    pub(super) refused: Count,
    /// Answers NO_TASK.
    pub(super) no_task: Count,
    /// Calls for a task that have no answer: each may have been a dispatch.
    pub(super) lost: Count,
}
