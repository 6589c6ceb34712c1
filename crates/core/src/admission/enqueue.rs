//! `EnqueueTasks`: queues tasks for devices. Each task is one decision.

use bytes::Bytes;

use super::{
    EventKind, Lease, Pool, QueueState, Queued, Settings, Task, TaskName, TaskState, pool::NEVER,
    push_queue_keys, unknown_status,
};
use crate::{
    Call, Cost, Decision, ENTRY_BYTES, Ends, Grows, Listing, Outcomes, Properties, Reply, Takes,
    Taking,
    error::Error,
    script::{self, Script},
    statuses,
    time::Timestamp,
};

statuses! { ENQUEUE_ENQUEUED = 0, ENQUEUE_DUPLICATE = 1, ENQUEUE_EXPIRED = 2, ENQUEUE_FULL = 3 }

/// Queues one task for a device.
///
/// The decision, in this order:
/// 1. A task with a record, queued or not, is a `Duplicate`. A repeat is therefore safe. The
///    payload of the first call stays.
/// 2. A task whose expiry time has passed is `Expired`.
/// 3. If the backlog has `queued_max` tasks, the answer is `Full`. The backlog contains the queued
///    tasks of all devices, running ones included.
/// 4. Otherwise the task is queued, behind all tasks of its device. The oldest task of a device is
///    dispatched first; devices do not wait for each other.
///
/// A queued task takes no slot. It is stored until it leaves the queue, without a time limit.
#[derive(Debug, Clone)]
pub struct EnqueueTask {
    /// The task.
    pub name: TaskName,
    /// The payload that the device receives with the task; at most [`super::PAYLOAD_BYTES_MAX`]
    /// bytes.
    pub payload: Bytes,
    /// When the task expires: from then on it is not dispatched; `None` for never.
    pub ends: Option<Timestamp>,
    /// The pool's configured settings.
    pub settings: Settings,
}

/// The answer for one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnqueueStatus {
    /// The pool already has a record of the task; nothing changed.
    Duplicate,
    /// The task is queued.
    Enqueued,
    /// Its expiry time has passed; nothing changed.
    Expired,
    /// The backlog is at `queued_max`; nothing changed.
    Full,
}

impl Decision for EnqueueTask {
    type State = Pool;
    type Outcome = EnqueueStatus;

    const SCRIPT: &'static Script = &script::admission::ENQUEUE;
    const PROPERTIES: Properties<EnqueueTask> = Properties::<Self> {
        listing: |enqueue| Listing::Held(enqueue.ends.map_or(Ends::Never, Ends::At)),
        cost: |enqueue| Cost::PLAIN.with_bytes(enqueue.payload.len()),
        creates: |_| true,
        adds: |enqueue| ENTRY_BYTES + (enqueue.name.member().len() + enqueue.payload.len()) as u64,
        outcomes: Outcomes::new(&["enqueued", "duplicate", "expired", "full"], |outcome| {
            match outcome {
                EnqueueStatus::Enqueued => 0,
                EnqueueStatus::Duplicate => 1,
                EnqueueStatus::Expired => 2,
                EnqueueStatus::Full => 3,
            }
        }),
        ..Properties::DEFAULT
    }
    .grows();

    fn partition(&self) -> &[u8] {
        self.name.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"task:", &self.name.member()]);
        push_queue_keys(call);
        call.bytes(&[self.name.device.as_bytes()]);
        call.bytes(&[self.name.task.as_bytes()]);
        call.bytes(&[&self.payload]);
        call.number(self.ends.map_or(0, |ends| ends.0));
        // With 0 the script queues no new task. It still answers duplicates.
        call.number(if call.is_limited() { 0 } else { self.settings.queued_max.into() });
        call.number(self.settings.history.into());
    }

    fn parse(reply: &mut Reply) -> Result<EnqueueStatus, Error> {
        Ok(match reply.number()? {
            ENQUEUE_ENQUEUED => EnqueueStatus::Enqueued,
            ENQUEUE_DUPLICATE => EnqueueStatus::Duplicate,
            ENQUEUE_EXPIRED => EnqueueStatus::Expired,
            ENQUEUE_FULL => EnqueueStatus::Full,
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
        let queued = Queued {
            standing: QueueState::Queued,
            attempt: 0,
            at: pool.backlog.next_time(self.name.device.as_bytes(), now),
            ends: self.ends,
            // A copy: a slice would keep the whole request message in memory.
            payload: Bytes::copy_from_slice(&self.payload),
        };
        let none = Timestamp(0);
        let task = Task {
            lease: Lease { token: 0, grant: none, expire: none },
            slot_end: none,
            forget: NEVER,
            state: TaskState::New,
            is_disclosed: false,
            queued: Some(Box::new(queued)),
        };
        // A forgotten task of the same name may still have a schedule entry.
        pool.backlog.clear_due(&member);
        let member = pool.put(&member, task.clone(), now);
        if let Some(ends) = self.ends {
            pool.backlog.set_due(&member, ends);
        }
        pool.log_task(EventKind::Enqueued, member, &task, None, &self.settings, now);
        EnqueueStatus::Enqueued
    }
}

impl Grows for EnqueueTask {
    const TAKES: Option<Takes> = Some(Takes::Queued);

    fn is_new(&self, pool: &Pool, now: Timestamp) -> bool {
        pool.task(&self.name.member(), now).is_none()
    }

    /// Returns a queued task, unless the call is a duplicate.
    fn takes(&self, pool: &Pool, now: Timestamp) -> Option<Takes> {
        self.is_new(pool, now).then_some(Takes::Queued)
    }

    fn taken(status: &EnqueueStatus) -> Taking {
        match status {
            EnqueueStatus::Enqueued => Taking::One,
            EnqueueStatus::Full => Taking::Limited,
            EnqueueStatus::Duplicate | EnqueueStatus::Expired => Taking::Nothing,
        }
    }
}
