//! The export lines of a pool and its tasks.

use serde::{Deserialize, Serialize};

use super::{
    NEVER, Pool, device_and_task,
    export::Head,
    record::{DUE, TASK, TaskRecord},
};
use crate::{
    admission::{Lease, Outcome, Overrides, QueueState, Queued, Task, TaskState},
    names::SEPARATOR,
    record::{Changes, Checked, EntryLine, Text, Unreadable, decode, encode},
    time::Timestamp,
};

/// A pool: its last fencing token and its settings of ConfigurePool. Unset settings are omitted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolLine {
    /// The pool.
    pool: Text,
    /// The fencing token of the last grant; 0 before the first.
    last_token: u64,
    /// The fields `capacity`, `lease_ms`, `grace_ms`, `paused` and `max_attempts`.
    #[serde(flatten)]
    overrides: Overrides,
}

/// A task. The fields of the lease are 0 before the first lease.
///
/// It differs from [`Task`]: the state is a name with its data next to it, and a task in the queue
/// has no `forget`. In memory and in a data directory, a state without data is smaller.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskLine {
    pool: Text,
    device: Text,
    /// The task, unique within its device.
    task: Text,
    state: StateName,
    /// The fields `token`, `grant` and `expire`; times in µs.
    #[serde(flatten)]
    lease: Lease,
    /// When the slot becomes free without a result: the end of the lease plus the grace.
    slot_end: Timestamp,
    /// When the entry expires. Unset exactly for a task that is in the queue, which never expires.
    forget: Option<Timestamp>,
    /// Whether a caller knows about the lease, because its grant was repeated or it was renewed.
    /// Such a lease is not revoked.
    #[serde(default)]
    told: bool,
    /// Whether the lease counts towards the capacity, or its end has no event yet.
    #[serde(default)]
    listed: bool,
    /// Whether the result is a success. Set exactly for completed tasks.
    succeeded: Option<bool>,
    /// The result, or the reason of an eviction.
    #[serde(default)]
    text: Text,
    /// The queue entry of a queued task, until the task has a result.
    queued: Option<Box<Queued>>,
}

/// State of a task's last lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StateName {
    New,
    Leased,
    Failed,
    Completed,
    Evicted,
}

impl PoolLine {
    /// Returns the line of a head.
    pub fn from_entry(pool: &[u8], value: &[u8]) -> Result<PoolLine, Unreadable> {
        let (overrides, last_token): Head = decode(value)?;
        Ok(PoolLine { pool: Text::new(pool), last_token, overrides })
    }
}

impl TaskLine {
    /// Returns the line of a task record.
    pub fn from_entry(pool: &[u8], member: &[u8], value: &[u8]) -> Result<TaskLine, Unreadable> {
        let TaskRecord { task, is_ended } = decode::<TaskRecord<Task>>(value)?;
        let Task { lease, slot_end, forget, state, is_disclosed, queued } = task;
        let (state, succeeded, text) = match state {
            TaskState::New => (StateName::New, None, Box::default()),
            TaskState::Leased => (StateName::Leased, None, Box::default()),
            TaskState::Failed => (StateName::Failed, None, Box::default()),
            TaskState::Evicted { reason } => (StateName::Evicted, None, reason),
            TaskState::Completed { outcome, result } => {
                (StateName::Completed, Some(outcome == Outcome::Succeeded), result)
            }
        };
        let (device, task) = device_and_task(member);
        let is_leased = state == StateName::Leased;
        Ok(TaskLine {
            pool: Text::new(pool),
            device: Text::new(device),
            task: Text::new(task),
            state,
            lease,
            slot_end,
            forget: (forget != NEVER).then_some(forget),
            told: is_disclosed && is_leased,
            listed: is_leased && !is_ended,
            succeeded,
            text: Text(text.into()),
            queued,
        })
    }

    /// Returns the task record of this line.
    fn task(&self) -> Task {
        let text = || self.text.0.clone().into();
        let outcome = match self.succeeded {
            Some(true) => Outcome::Succeeded,
            _ => Outcome::Failed,
        };
        Task {
            lease: self.lease,
            slot_end: self.slot_end,
            forget: self.forget.unwrap_or(NEVER),
            state: match self.state {
                StateName::New => TaskState::New,
                StateName::Leased => TaskState::Leased,
                StateName::Failed => TaskState::Failed,
                StateName::Evicted => TaskState::Evicted { reason: text() },
                StateName::Completed => TaskState::Completed { outcome, result: text() },
            },
            is_disclosed: self.told,
            queued: self.queued.clone(),
        }
    }

    /// Whether the task is in the queue.
    fn stays(&self) -> bool {
        self.queued.as_ref().is_some_and(|queued| queued.standing == QueueState::Queued)
    }

    /// Returns when the sweeper has to process the task; `None` for never.
    fn due(&self) -> Option<Timestamp> {
        let queued = self.queued.as_ref()?;
        if self.stays() { queued.ends } else { self.forget }
    }
}

impl EntryLine for PoolLine {
    /// Checks the name and that settings are within the ranges of ConfigurePool.
    fn check(&self, checked: &mut Checked) {
        let of = &self.overrides;
        checked.name("pool", &self.pool);
        checked.token("last_token", self.last_token);
        checked.at_most("capacity", of.capacity.unwrap_or(0).into(), 1_000_000);
        checked.at_most("lease_ms", of.lease_duration.unwrap_or_default().0, 86_400_000);
        checked.at_most("grace_ms", of.expiry_grace.unwrap_or_default().0, 2_592_000_000);
        checked.at_most("max_attempts", of.max_attempts.unwrap_or(0).into(), 1000);
    }

    fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
        let (mut head, value): (_, Head) = (Vec::new(), (self.overrides, self.last_token));
        encode(&value, &mut head);
        to.set_partition::<Pool>(&self.pool.0);
        to.head(&head);
        Ok(())
    }
}

impl EntryLine for TaskLine {
    /// Checks names and instants, and that the state, the result and the queue entry are
    /// consistent.
    fn check(&self, checked: &mut Checked) {
        let Lease { token, grant, expire } = self.lease;
        checked.name("pool", &self.pool);
        checked.name("device", &self.device);
        checked.name("task", &self.task);
        checked.token("token", token);
        checked.times([("grant", grant), ("expire", expire), ("slot_end", self.slot_end)]);
        checked.times([("forget", self.forget.unwrap_or_default())]);
        if self.forget.is_some() == self.stays() {
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
            checked.times([("at", queued.at), ("ends", queued.ends.unwrap_or_default())]);
            checked.at_most("attempt", queued.attempt.into(), 1_000_000);
        }
    }

    fn forget(&self) -> Option<u64> {
        self.forget.map(|forget| forget.0)
    }

    fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
        let member = [&self.device.0[..], &[SEPARATOR], &self.task.0].concat();
        let is_ended = self.state == StateName::Leased && !self.listed;
        to.set_partition::<Pool>(&self.pool.0);
        to.put(&[&[TASK], &member], &TaskRecord { task: self.task(), is_ended });
        if let Some(due) = self.due() {
            to.put(&[&[DUE], &member], &due);
        }
        Ok(())
    }
}
