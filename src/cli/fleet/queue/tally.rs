//! Counters of a run of queued tasks.

use crate::cli::fleet::tally::{Count, Tally as Devices};

/// Counters beside those of every fleet of devices.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Leases, answers and calls.
    pub(super) devices: std::sync::Arc<Devices>,
    /// Queued tasks.
    pub(super) queued: Count,
    /// Tasks that were already queued by an earlier try of the same call.
    pub(super) duplicates: Count,
    /// Tasks that the pool refused.
    pub(super) refused: Count,
    /// Answers NO_TASK.
    pub(super) no_task: Count,
    /// Requests without an answer. Each may have got a task.
    pub(super) lost: Count,
}
