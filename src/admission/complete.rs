//! `CompleteTask`: records a task's result and frees its own slot.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{
    EventKind, Pool, Settings, Task, TaskName, TaskState, Usage, push_pool_keys, unknown_status,
};
use crate::{
    decision::{Call, Cost, Decision, Listing, Reply},
    denial::Effect,
    error::Error,
    script::{self, Script},
    time::Timestamp,
};

/// Reports a result.
#[derive(Debug, Clone)]
pub struct CompleteTask {
    /// The task.
    pub name: TaskName,
    /// The lease's fencing token; none is not compared.
    pub token: Option<u64>,
    /// How the task went.
    pub outcome: Outcome,
    /// The result.
    pub result: Bytes,
    /// The pool's configured settings.
    pub settings: Settings,
}

/// How a task went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It ran and failed.
    Failed,
    /// It is done.
    Succeeded,
}

/// What became of the result, and how full the pool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The answer.
    pub verdict: CompleteVerdict,
    /// The pool's use after it.
    pub usage: Usage,
}

/// What became of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompleteVerdict {
    /// A result was on record already; it stands.
    AlreadyCompleted,
    /// Recorded; the slot is free.
    Completed,
    /// Recorded though the lease had ended; no other slot is touched.
    Late,
    /// The token is not the last lease's; nothing is recorded.
    StaleToken,
    /// Nothing is known of the task; nothing is recorded.
    Unknown,
}

impl CompleteTask {
    fn rule(&self, pool: &mut Pool, settings: &Settings, now: Timestamp) -> CompleteVerdict {
        let member = self.name.member();
        let Some((member, mut task)) = pool.known(&member, now) else {
            return CompleteVerdict::Unknown;
        };
        if task.state == TaskState::New {
            return CompleteVerdict::Unknown;
        }
        if self.token.is_some_and(|token| token != task.lease.token) {
            return CompleteVerdict::StaleToken;
        }
        if matches!(task.state, TaskState::Completed { .. } | TaskState::Failed) {
            return CompleteVerdict::AlreadyCompleted;
        }
        let (verdict, kind) = match task.is_running(now) {
            true => (CompleteVerdict::Completed, EventKind::Completed),
            false => (CompleteVerdict::Late, EventKind::Late),
        };
        if pool.is_lapsed(&member, &task) {
            pool.expire(&member, task.clone(), settings, now);
            // It may have left the queue.
            task = pool.task(&member, now).cloned().unwrap_or(task);
        }
        pool.log_task(kind, member.clone(), &task, Some(self.outcome), settings, now);
        if task.queued.is_some() && self.outcome == Outcome::Failed {
            task.state = TaskState::Failed;
            pool.end_attempt(&member, task, settings, now);
            return verdict;
        }
        if task.queued.is_some() {
            pool.backlog.clear_due(&member);
        }
        let completed = Task {
            forget: now.after(settings.retention),
            state: TaskState::Completed {
                outcome: self.outcome,
                // A copy: a slice would keep the whole received message.
                result: (*self.result).into(),
            },
            queued: None,
            ..task
        };
        pool.put(&member, completed, now);
        verdict
    }
}

impl Decision for CompleteTask {
    type State = Pool;
    type Outcome = Completion;

    const SCRIPT: &'static Script = &script::COMPLETE_TASK;

    fn partition(&self) -> &[u8] {
        self.name.pool.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn frees_capacity(&self) -> bool {
        true
    }

    fn effect(&self, completion: Option<&Completion>) -> Effect {
        let kept = [CompleteVerdict::StaleToken, CompleteVerdict::Unknown];
        Effect::frees(completion.is_none_or(|completion| !kept.contains(&completion.verdict)))
    }

    fn cost(&self) -> Cost {
        Cost::of(30).with_bytes(self.result.len())
    }

    fn encode(&self, call: &mut Call) {
        let member = self.name.member();
        push_pool_keys(call);
        call.key(&[b"task:", &member]);
        self.settings.encode_shared(call);
        call.bytes(&[&member]);
        call.optional(self.token);
        call.number(match self.outcome {
            Outcome::Succeeded => 1,
            Outcome::Failed => 2,
        });
        call.bytes(&[&self.result]);
    }

    fn parse(reply: &mut Reply) -> Result<Completion, Error> {
        let verdict = match reply.number()? {
            0 => CompleteVerdict::Completed,
            1 => CompleteVerdict::AlreadyCompleted,
            2 => CompleteVerdict::Late,
            3 => CompleteVerdict::StaleToken,
            4 => CompleteVerdict::Unknown,
            status => return unknown_status(status),
        };
        Ok(Completion { verdict, usage: Usage::parse(reply)? })
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> Completion {
        pool.lapse(now);
        let settings = self.settings.under(&pool.overrides);
        let was_free = settings.capacity.saturating_sub(pool.in_use());
        let verdict = self.rule(pool, &settings, now);
        pool.hand_on(was_free, settings.capacity, now);
        Completion { verdict, usage: pool.usage(&settings) }
    }
}
