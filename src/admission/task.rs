//! What is known of a task.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Lease, Outcome, Settings};
use crate::time::{Millis, Timestamp};

/// What is known of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The last lease; all 0 before the first.
    pub lease: Lease,
    /// When the lease's slot is free though no result came.
    pub slot_end: Timestamp,
    /// When nothing is known of the task any more.
    pub forget: Timestamp,
    /// What became of its last lease.
    pub state: TaskState,
    /// Whether somebody was told of the lease since it was granted: it is not withdrawn.
    /// Kept while it is leased.
    pub is_told: bool,
    /// What there is to know of one that was queued, until a result is on record.
    pub queued: Option<Box<Queued>>,
}

/// What became of a task's last lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    /// There was none yet.
    New,
    /// It runs, or has ended without a word.
    Leased,
    /// It ended with a failure, of a queued task.
    Failed,
    /// A result is on record.
    Completed {
        /// How the task went.
        outcome: Outcome,
        /// The result.
        result: Box<[u8]>,
    },
    /// An operator took it away.
    Evicted {
        /// Why; not kept of a queued task.
        reason: Box<[u8]>,
    },
}

/// What there is to know of a task that was queued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// Whether it still is.
    pub standing: Standing,
    /// How often it was dispatched.
    pub attempt: u32,
    /// When it was queued; rises within a device.
    pub at: Timestamp,
    /// From when on it is not dispatched.
    pub ends: Option<Timestamp>,
    /// What the device has to know.
    pub payload: Bytes,
}

/// Whether a task is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// It was cancelled.
    Cancelled,
    /// Its last attempt ended without success.
    Dead,
    /// Its time was over.
    Expired,
    /// It is.
    Queued,
}

impl Task {
    /// Whether the lease keeps a slot, running or within its grace.
    pub(super) fn holds_slot(&self, now: Timestamp) -> bool {
        self.state == TaskState::Leased && now < self.slot_end
    }

    pub(super) fn is_running(&self, now: Timestamp) -> bool {
        self.state == TaskState::Leased && now < self.lease.expire
    }

    /// Which attempt the last lease was; 0 for a task that was not queued.
    pub fn attempt(&self) -> u32 {
        self.queued.as_ref().map_or(0, |queued| queued.attempt)
    }

    /// Whether a queued task is not dispatched again once its lease has ended.
    pub(super) fn is_over(&self, settings: &Settings, now: Timestamp) -> bool {
        self.queued.as_ref().is_some_and(|queued| {
            queued.standing == Standing::Queued
                && (queued.attempt >= settings.max_attempts || queued.has_expired(now))
        })
    }

    /// Whether it is queued.
    pub(super) fn is_queued(&self) -> bool {
        self.queued.as_ref().is_some_and(|queued| queued.standing == Standing::Queued)
    }

    /// Whether it is queued, or never was.
    pub(super) fn is_open(&self) -> bool {
        self.queued.as_ref().is_none_or(|queued| queued.standing == Standing::Queued)
    }
}

impl Queued {
    /// Whether its time is over.
    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.ends.is_some_and(|ends| ends <= now)
    }
}

/// When a lease's slot is free and when it is forgotten.
pub(super) fn ends(expire: Timestamp, grace: Millis, retention: Millis) -> (Timestamp, Timestamp) {
    let slot_end = expire.after(grace);
    (slot_end, slot_end.after(retention))
}
