//! `EnqueueTasks`: queues tasks for devices, each in a step of its own.

use bytes::Bytes;

use super::{
    EventKind, Lease, Pool, Queued, Settings, Standing, Task, TaskName, TaskState, pool::NEVER,
    push_queue_keys, unknown_status,
};
use crate::{
    decision::{Call, Cost, Decision, Ends, Listing, Reply},
    error::Error,
    script::{self, Script},
    time::Timestamp,
};

/// Queues a task for a device.
#[derive(Debug, Clone)]
pub struct EnqueueTask {
    /// The task.
    pub name: TaskName,
    /// What the device has to know.
    pub payload: Bytes,
    /// From when on it is not dispatched; none for never.
    pub ends: Option<Timestamp>,
    /// The pool's configured settings.
    pub settings: Settings,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnqueueStatus {
    /// It is known already; nothing changed.
    Duplicate,
    /// It is queued.
    Enqueued,
    /// Its time is over.
    Expired,
    /// The pool may have no more.
    Full,
}

impl Decision for EnqueueTask {
    type State = Pool;
    type Outcome = EnqueueStatus;

    const SCRIPT: &'static Script = &script::ENQUEUE_TASK;

    fn partition(&self) -> &[u8] {
        self.name.pool.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Held(self.ends.map_or(Ends::Never, Ends::At))
    }

    fn is_new(&self, pool: &Pool, now: Timestamp) -> bool {
        pool.task(&self.name.member(), now).is_none()
    }

    fn cost(&self) -> Cost {
        Cost::PLAIN.with_bytes(self.payload.len())
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"task:", &self.name.member()]);
        push_queue_keys(call);
        call.bytes(&[self.name.device.as_bytes()]);
        call.bytes(&[self.name.task.as_bytes()]);
        call.bytes(&[&self.payload]);
        call.number(self.ends.map_or(0, |ends| ends.0));
        call.number(self.settings.queued_max.into());
        call.number(self.settings.history.into());
    }

    fn parse(reply: &mut Reply) -> Result<EnqueueStatus, Error> {
        Ok(match reply.number()? {
            0 => EnqueueStatus::Enqueued,
            1 => EnqueueStatus::Duplicate,
            2 => EnqueueStatus::Expired,
            3 => EnqueueStatus::Full,
            status => return unknown_status(status),
        })
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> EnqueueStatus {
        pool.lapse(now);
        let member = self.name.member();
        if pool.task(&member, now).is_some() {
            return EnqueueStatus::Duplicate;
        }
        if self.ends.is_some_and(|ends| ends <= now) {
            return EnqueueStatus::Expired;
        }
        if pool.backlog.len() >= self.settings.queued_max as usize {
            return EnqueueStatus::Full;
        }
        let newest = pool.backlog.newest(self.name.device.as_bytes());
        let queued = Queued {
            standing: Standing::Queued,
            attempt: 0,
            at: newest.map_or(now, |line| now.max(Timestamp(line.at.0 + 1))),
            ends: self.ends,
            // A copy: a slice would keep the whole received message.
            payload: Bytes::copy_from_slice(&self.payload),
        };
        let none = Timestamp(0);
        let task = Task {
            lease: Lease { token: 0, grant: none, expire: none },
            slot_end: none,
            forget: NEVER,
            state: TaskState::New,
            is_told: false,
            queued: Some(Box::new(queued)),
        };
        pool.backlog.clear_due(&member);
        let member = pool.put(&member, task.clone(), now);
        if let Some(ends) = self.ends {
            pool.backlog.set_due(&member, ends);
        }
        pool.log_task(EventKind::Enqueued, member, &task, None, &self.settings, now);
        EnqueueStatus::Enqueued
    }
}
