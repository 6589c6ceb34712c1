//! `RequeueTask`: queues a dead task again.

use super::{
    EventKind, Pool, QueueState, Settings, Task, TaskName, TaskState, pool::NEVER, push_queue_keys,
    unknown_status,
};
use crate::{
    Call, Decision, Ends, Grows, Listing, Outcomes, Properties, Reply, Takes, Taking,
    error::Error,
    script::{self, Script},
    statuses,
    time::{Millis, Timestamp},
};

statuses! {
    REQUEUE_REQUEUED = 0, REQUEUE_ALREADY_QUEUED = 1, REQUEUE_NOT_DEAD = 2, REQUEUE_EXPIRED = 3,
    REQUEUE_FULL = 4, REQUEUE_UNKNOWN = 5,
}

/// Queues a dead task again, after all other tasks of its device. Its attempts are counted anew.
///
/// The decision, in this order:
/// 1. A task without a record, or that was never queued, is `Unknown`. A task with a result is
///    `NotDead`.
/// 2. If the last attempt of the task has ended, the task is dead from now on.
/// 3. A task in the queue is `AlreadyQueued`, even while it runs. A repeat gets this answer.
/// 4. A cancelled task is `NotDead`. A task whose expiry time has passed is `Expired`.
/// 5. If the backlog has `queued_max` tasks, the answer is `Full`, and the task stays dead.
/// 6. Otherwise the task is queued, with its payload. It keeps the record of its last lease: a late
///    result of that lease is accepted, as for any queued task.
#[derive(Debug, Clone)]
pub struct RequeueTask {
    /// The task.
    pub name: TaskName,
    /// The pool's configured settings.
    pub settings: Settings,
}

/// The verdict on requeuing a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequeueVerdict {
    /// The task is in the queue, waiting or running.
    AlreadyQueued,
    /// The expiry time of the task has passed.
    Expired,
    /// The backlog is at `queued_max`.
    Full,
    /// The task has a result, or was cancelled.
    NotDead,
    /// The task was dead, and is queued.
    Requeued,
    /// No such task was queued.
    Unknown,
}

impl RequeueTask {
    fn rule(&self, pool: &mut Pool, now: Timestamp) -> Option<RequeueVerdict> {
        let member = self.name.member();
        let task = pool.task(&member, now)?;
        if let TaskState::Completed { .. } = task.state {
            return Some(RequeueVerdict::NotDead);
        }
        let is_queued = task.queued.as_ref()?.standing == QueueState::Queued;
        if is_queued {
            let settings = self.settings.under(&pool.overrides);
            pool.settle(&member, &settings, now);
        }
        let task = pool.task(&member, now)?.clone();
        let queued = task.queued.as_ref()?;
        Some(match queued.standing {
            QueueState::Queued => RequeueVerdict::AlreadyQueued,
            QueueState::Cancelled => RequeueVerdict::NotDead,
            QueueState::Expired => RequeueVerdict::Expired,
            QueueState::Dead if queued.has_expired(now) => RequeueVerdict::Expired,
            QueueState::Dead if pool.backlog.len() >= self.settings.queued_max as usize => {
                RequeueVerdict::Full
            }
            QueueState::Dead => {
                self.requeue(pool, &member, task, now);
                RequeueVerdict::Requeued
            }
        })
    }

    fn requeue(&self, pool: &mut Pool, member: &[u8], mut task: Task, now: Timestamp) {
        let Some(queued) = &mut task.queued else { return };
        queued.standing = QueueState::Queued;
        queued.attempt = 0;
        queued.at = pool.backlog.next_time(self.name.device.as_bytes(), now);
        let ends = queued.ends;
        task.forget = NEVER;
        pool.backlog.clear_due(member);
        let member = pool.put(member, task.clone(), now);
        if let Some(ends) = ends {
            pool.backlog.set_due(&member, ends);
        }
        pool.log_task(EventKind::Enqueued, member, &task, None, &self.settings, now);
    }
}

impl Decision for RequeueTask {
    type State = Pool;
    type Outcome = RequeueVerdict;

    const SCRIPT: &'static Script = &script::admission::REQUEUE;
    const PROPERTIES: Properties<RequeueTask> = Properties::<Self> {
        // Only the record contains the expiry time, so the sweeper checks the task immediately.
        listing: |_| Listing::Held(Ends::After(Millis(0))),
        outcomes: Outcomes::new(
            &["requeued", "already_queued", "not_dead", "expired", "full", "unknown"],
            |outcome| match outcome {
                RequeueVerdict::Requeued => 0,
                RequeueVerdict::AlreadyQueued => 1,
                RequeueVerdict::NotDead => 2,
                RequeueVerdict::Expired => 3,
                RequeueVerdict::Full => 4,
                RequeueVerdict::Unknown => 5,
            },
        ),
        ..Properties::DEFAULT
    }
    .grows();

    fn partition(&self) -> &[u8] {
        self.name.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        let member = self.name.member();
        call.key(&[b"task:", &member]);
        call.key(&[b"leases"]);
        call.key(&[b"settings"]);
        push_queue_keys(call);
        call.bytes(&[&member]);
        call.number(self.settings.max_attempts.into());
        // With 0 the script queues no task. It still gives the other answers.
        call.number(if call.is_limited() { 0 } else { self.settings.queued_max.into() });
        call.number(self.settings.retention.0);
        call.number(self.settings.history.into());
    }

    fn parse(reply: &mut Reply) -> Result<RequeueVerdict, Error> {
        Ok(match reply.number()? {
            REQUEUE_REQUEUED => RequeueVerdict::Requeued,
            REQUEUE_ALREADY_QUEUED => RequeueVerdict::AlreadyQueued,
            REQUEUE_NOT_DEAD => RequeueVerdict::NotDead,
            REQUEUE_EXPIRED => RequeueVerdict::Expired,
            REQUEUE_FULL => RequeueVerdict::Full,
            REQUEUE_UNKNOWN => RequeueVerdict::Unknown,
            status => return unknown_status(status),
        })
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> RequeueVerdict {
        pool.lapse(now);
        self.rule(pool, now).unwrap_or(RequeueVerdict::Unknown)
    }
}

impl Grows for RequeueTask {
    const TAKES: Option<Takes> = Some(Takes::Queued);

    /// The task already has a record.
    fn is_new(&self, _: &Pool, _: Timestamp) -> bool {
        false
    }

    /// Returns a queued task, if the task is dead.
    fn takes(&self, pool: &Pool, now: Timestamp) -> Option<Takes> {
        let queued = pool.task(&self.name.member(), now)?.queued.as_ref()?;
        (queued.standing == QueueState::Dead).then_some(Takes::Queued)
    }

    fn taken(verdict: &RequeueVerdict) -> Taking {
        match verdict {
            RequeueVerdict::Requeued => Taking::One,
            RequeueVerdict::Full => Taking::Limited,
            _ => Taking::Nothing,
        }
    }
}
