//! Lines of pools and tasks.

use serde::{Deserialize, Serialize};

use super::{Checked, Text};

/// A pool: its last fencing token and its settings of ConfigurePool. Unset settings are omitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PoolLine {
    pub(crate) pool: Text,
    pub(crate) last_token: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) capacity: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lease_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) grace_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paused: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_attempts: Option<u32>,
}

/// A task. The fields of the lease are 0 before the first lease.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskLine {
    pub(crate) pool: Text,
    pub(crate) device: Text,
    pub(crate) task: Text,
    pub(crate) state: StateName,
    pub(crate) token: u64,
    pub(crate) grant: u64,
    pub(crate) expire: u64,
    /// When the slot becomes free without a result: the end of the lease plus the grace, µs.
    pub(crate) slot_end: u64,
    /// When the entry expires, µs. Unset exactly for a task that is in the queue, which never
    /// expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) forget: Option<u64>,
    /// Whether a caller knows of the lease: its grant was repeated, or it was renewed. Such a lease
    /// is not revoked.
    #[serde(default)]
    pub(crate) told: bool,
    /// Whether the lease counts towards the capacity, or its end has no event yet.
    #[serde(default)]
    pub(crate) listed: bool,
    /// Whether the result is a success. Set exactly for completed tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) succeeded: Option<bool>,
    /// The result, or the reason of an eviction.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub(crate) text: Text,
    /// The queue entry of a queued task, until the task has a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queued: Option<QueuedLine>,
}

/// State of a task's last lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StateName {
    New,
    Leased,
    Failed,
    Completed,
    Evicted,
}

/// Queue entry of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueuedLine {
    pub(crate) standing: StandingName,
    /// Number of dispatches.
    pub(crate) attempt: u32,
    /// When the task was queued, µs. Unique and increasing within a device.
    pub(crate) at: u64,
    /// When the task expires in the queue, µs. It is not dispatched after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ends: Option<u64>,
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub(crate) payload: Text,
}

/// Whether a task is queued, or why it has left the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StandingName {
    Queued,
    Cancelled,
    Dead,
    Expired,
}

impl PoolLine {
    /// Checks the name and that settings are within the ranges of ConfigurePool.
    pub(super) fn check(&self, checked: &mut Checked) {
        checked.name("pool", &self.pool);
        checked.times([("last_token", self.last_token)]);
        checked.at_most("capacity", self.capacity.unwrap_or(0).into(), 1_000_000);
        checked.at_most("lease_ms", self.lease_ms.unwrap_or(0), 86_400_000);
        checked.at_most("grace_ms", self.grace_ms.unwrap_or(0), 2_592_000_000);
        checked.at_most("max_attempts", self.max_attempts.unwrap_or(0).into(), 1000);
    }
}

impl TaskLine {
    /// Checks names and instants, and that the state, the result and the queue entry are
    /// consistent.
    pub(super) fn check(&self, checked: &mut Checked) {
        checked.name("pool", &self.pool);
        checked.name("device", &self.device);
        checked.name("task", &self.task);
        checked.times([("token", self.token), ("grant", self.grant), ("expire", self.expire)]);
        checked.times([("slot_end", self.slot_end), ("forget", self.forget.unwrap_or(0))]);
        let stays = self.queued.as_ref().is_some_and(|of| of.standing == StandingName::Queued);
        if self.forget.is_some() == stays {
            checked.refuse(
                "forget is required, except with standing queued, where it is not allowed"
                    .to_owned(),
            );
        }
        if (self.state == StateName::Completed) != self.succeeded.is_some() {
            checked.refuse(
                "succeeded is required for completed tasks and not allowed for others".to_owned(),
            );
        }
        if self.listed && self.state != StateName::Leased {
            checked.refuse("listed is allowed for leased tasks only".to_owned());
        }
        let is_queues = matches!(self.state, StateName::New | StateName::Failed);
        let is_tasks = self.state == StateName::Completed;
        match &self.queued {
            None if is_queues => checked.refuse("state new or failed requires queued".to_owned()),
            Some(_) if is_tasks => {
                checked.refuse("a completed task must not have queued".to_owned())
            }
            _ => {}
        }
        if let Some(queued) = &self.queued {
            checked.times([("at", queued.at), ("ends", queued.ends.unwrap_or(0))]);
            checked.at_most("attempt", queued.attempt.into(), 1_000_000);
        }
    }
}
