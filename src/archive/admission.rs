//! The lines of pools.

use serde::{Deserialize, Serialize};

use super::{Checked, Text};

/// Overrides, which are left out where there are none, and the last fencing token.
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

/// What is known of a task. Its lease is all 0 before the first.
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
    /// When the slot is free though no result came: the lease's end and its grace.
    pub(crate) slot_end: u64,
    /// When nothing is known of it any more; left out of a queued task, which stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) forget: Option<u64>,
    /// Whether somebody was told of the lease since it was granted.
    #[serde(default)]
    pub(crate) told: bool,
    /// Whether the lease is counted, or its end is no event yet.
    #[serde(default)]
    pub(crate) listed: bool,
    /// Whether a result is one of success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) succeeded: Option<bool>,
    /// The result, or why the task was evicted.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub(crate) text: Text,
    /// Of one that was queued, until a result is on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queued: Option<QueuedLine>,
}

/// What became of a task's last lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StateName {
    New,
    Leased,
    Failed,
    Completed,
    Evicted,
}

/// What there is to know of a queued task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueuedLine {
    pub(crate) standing: StandingName,
    /// How often it was dispatched.
    pub(crate) attempt: u32,
    /// When it was queued; rises within a device.
    pub(crate) at: u64,
    /// From when on it is not dispatched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ends: Option<u64>,
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub(crate) payload: Text,
}

/// Whether a task is queued, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StandingName {
    Queued,
    Cancelled,
    Dead,
    Expired,
}

impl PoolLine {
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
    pub(super) fn check(&self, checked: &mut Checked) {
        checked.name("pool", &self.pool);
        checked.name("device", &self.device);
        checked.name("task", &self.task);
        checked.times([("token", self.token), ("grant", self.grant), ("expire", self.expire)]);
        checked.times([("slot_end", self.slot_end), ("forget", self.forget.unwrap_or(0))]);
        let stays = self.queued.as_ref().is_some_and(|of| of.standing == StandingName::Queued);
        if self.forget.is_some() == stays {
            checked.refuse("forget is there of all tasks but those queued".to_owned());
        }
        if (self.state == StateName::Completed) != self.succeeded.is_some() {
            checked.refuse("succeeded is there of completed tasks, and of them alone".to_owned());
        }
        if self.listed && self.state != StateName::Leased {
            checked.refuse("listed is said of leased tasks alone".to_owned());
        }
        let is_queues = matches!(self.state, StateName::New | StateName::Failed);
        let is_tasks = self.state == StateName::Completed;
        match &self.queued {
            None if is_queues => checked.refuse("new and failed are queued tasks'".to_owned()),
            Some(_) if is_tasks => checked.refuse("completed tasks are queued no more".to_owned()),
            _ => {}
        }
        if let Some(queued) = &self.queued {
            checked.times([("at", queued.at), ("ends", queued.ends.unwrap_or(0))]);
            checked.at_most("attempt", queued.attempt.into(), 1_000_000);
        }
    }
}
