//! The record of a task.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Lease, Settings};
use crate::{
    record::text,
    time::{Millis, Timestamp},
};

/// The record of a task: its last lease, its result, and its place in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The last lease; all fields 0 before the first.
    pub lease: Lease,
    /// When the slot is free if no result comes: the expiry plus the grace.
    pub slot_end: Timestamp,
    /// When the record may be dropped. `NEVER` for a task in the queue.
    pub forget: Timestamp,
    /// The state of the last lease.
    pub state: TaskState,
    /// Whether the lease must not be revoked: another call was answered with it, or it took over
    /// the slot of an earlier lease. Meaningful only while the task is leased.
    pub is_disclosed: bool,
    /// The queue data of a task that was queued, until a result is stored.
    pub queued: Option<Box<Queued>>,
}

/// Whether a task succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It ran and failed.
    Failed,
    /// It succeeded.
    Succeeded,
}

/// The state of a task's last lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    /// The task has had no lease.
    New,
    /// The lease runs, or ended without a result.
    Leased,
    /// The attempt failed. Only for queued tasks.
    Failed,
    /// The result is stored.
    Completed {
        /// Whether the task succeeded.
        outcome: Outcome,
        /// The result.
        result: Box<[u8]>,
    },
    /// An operator evicted the task, or the lease was revoked.
    Evicted {
        /// The reason; empty for a queued task.
        reason: Box<[u8]>,
    },
}

/// The queue data of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queued {
    /// The task's standing in the queue.
    pub standing: QueueState,
    /// The number of attempts so far.
    pub attempt: u32,
    /// When it was queued, made unique within its device: later tasks have later times.
    pub at: Timestamp,
    /// When it expires: from then on it is not dispatched.
    pub ends: Option<Timestamp>,
    /// The payload for the device; empty once the task has left the queue, unless it is dead.
    #[serde(default, with = "text")]
    pub payload: Bytes,
}

/// Whether a task is in the queue, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueState {
    /// It was cancelled.
    Cancelled,
    /// Its last attempt ended without success.
    Dead,
    /// It expired.
    Expired,
    /// It is in the queue.
    Queued,
}

impl Task {
    /// Returns the bytes of its payload, its result or its reason.
    pub(super) fn bytes(&self) -> u64 {
        let payload = self.queued.as_ref().map_or(0, |queued| queued.payload.len());
        let text = match &self.state {
            TaskState::Completed { result, .. } => result.len(),
            TaskState::Evicted { reason } => reason.len(),
            TaskState::New | TaskState::Leased | TaskState::Failed => 0,
        };
        (payload + text) as u64
    }

    /// Whether the lease holds a slot: it runs or is within its grace.
    pub(super) fn holds_slot(&self, now: Timestamp) -> bool {
        self.state == TaskState::Leased && now < self.slot_end
    }

    /// Whether the lease runs.
    pub(super) fn is_running(&self, now: Timestamp) -> bool {
        self.state == TaskState::Leased && now < self.lease.expire
    }

    /// Returns the number of attempts so far; 0 for a task that was never queued.
    pub fn attempt(&self) -> u32 {
        self.queued.as_ref().map_or(0, |queued| queued.attempt)
    }

    /// Whether a queued task will not be dispatched again after its current lease.
    pub(super) fn is_over(&self, settings: &Settings, now: Timestamp) -> bool {
        self.queued.as_ref().is_some_and(|queued| {
            queued.standing == QueueState::Queued
                && (queued.attempt >= settings.max_attempts || queued.has_expired(now))
        })
    }

    /// Whether the task is in the queue.
    pub(super) fn is_queued(&self) -> bool {
        self.queued.as_ref().is_some_and(|queued| queued.standing == QueueState::Queued)
    }

    /// Whether the task is in the queue, or was never queued. Only such a task can get a lease.
    pub(super) fn is_open(&self) -> bool {
        self.queued.as_ref().is_none_or(|queued| queued.standing == QueueState::Queued)
    }
}

impl Queued {
    /// Whether it has expired.
    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.ends.is_some_and(|ends| ends <= now)
    }
}

/// Returns the end of the slot, and when the record is forgotten, for a lease that expires at
/// `expire`.
pub(super) fn ends(expire: Timestamp, grace: Millis, retention: Millis) -> (Timestamp, Timestamp) {
    let slot_end = expire.after(grace);
    (slot_end, slot_end.after(retention))
}
