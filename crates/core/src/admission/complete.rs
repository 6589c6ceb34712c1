//! `CompleteTask`: stores the result of a task and frees its slot.

use bytes::Bytes;

use super::{
    EventKind, Outcome, Pool, PoolUsage, Settings, Task, TaskName, TaskState, packed_token,
    push_plain, push_pool_keys, unknown_status,
};
use crate::{
    Call, Cost, Decision, Grows, Outcomes, PlainForm, Properties, Reply, Warms,
    denial::{AffectsDenials, Effect},
    error::Error,
    fallback::FallbackRule,
    script::{self, Script},
    statuses,
    time::Timestamp,
};

statuses! {
    COMPLETE_COMPLETED = 0, COMPLETE_ALREADY_COMPLETED = 1, COMPLETE_LATE = 2,
    COMPLETE_STALE_TOKEN = 3, COMPLETE_UNKNOWN = 4,
}

/// Reports the result of a task.
///
/// The decision, in this order:
/// 1. A task without a record, or that was never admitted, is `Unknown`.
/// 2. A token that differs from the task's last lease is `StaleToken`: the caller lost its lease,
///    and another caller may run the task. Without a token this step is skipped.
/// 3. A task with a result, or whose attempt has failed, is `AlreadyCompleted`. The first result
///    counts, so a repeat is safe.
/// 4. While the lease runs, the result is `Completed`. Its slot is free immediately, for a waiter.
/// 5. After the end of the lease the result is `Late`. It is still stored, and still frees the slot
///    within the grace.
///
/// A failed attempt of a queued task stores no result: the task stays queued, or is dead after its
/// last attempt. A result is stored for the retention of the pool. Then the task is unknown.
#[derive(Debug, Clone)]
pub struct CompleteTask {
    /// The task.
    pub name: TaskName,
    /// The fencing token of the lease; `None` skips the comparison.
    pub token: Option<u64>,
    /// Whether the task succeeded.
    pub outcome: Outcome,
    /// The result, at most [`super::RESULT_BYTES_MAX`] bytes.
    pub result: Bytes,
    /// The pool's configured settings.
    pub settings: Settings,
}

/// The answer, and the usage of the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The verdict on the result.
    pub verdict: CompleteVerdict,
    /// The usage of the pool after the decision.
    pub usage: PoolUsage,
}

/// The verdict on a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompleteVerdict {
    /// An earlier result is stored and stays.
    AlreadyCompleted,
    /// The result is stored and the slot is free.
    Completed,
    /// The result is stored although the lease had ended. No other lease changes.
    Late,
    /// The token does not match the task's last lease; nothing changed.
    StaleToken,
    /// The task has no record, or was never admitted; nothing changed.
    Unknown,
}

impl CompleteTask {
    fn encode_plain(&self, call: &mut Call) {
        let member = self.name.member();
        push_plain(call, &member, &self.settings);
        let outcome = match self.outcome {
            Outcome::Succeeded => b'1',
            Outcome::Failed => b'2',
        };
        let length = (self.result.len() as u32).to_le_bytes();
        call.bytes(&[&member, &[0], &packed_token(self.token), &[outcome], &length, &self.result]);
    }

    fn rule(&self, pool: &mut Pool, settings: &Settings, now: Timestamp) -> CompleteVerdict {
        let member = self.name.member();
        let Some((member, mut task)) = pool.lookup(&member, now) else {
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
        let (verdict, kind) = if task.is_running(now) {
            (CompleteVerdict::Completed, EventKind::Completed)
        } else {
            (CompleteVerdict::Late, EventKind::Late)
        };
        // The expiry is logged before the late result, in the order of the changes.
        if pool.is_lapsed(&member, &task) {
            pool.expire(&member, task.clone(), settings, now);
            // The expiry may have removed the task from the backlog.
            task = pool.task(&member, now).cloned().unwrap_or(task);
        }
        pool.log_task(kind, member.clone(), &task, Some(self.outcome), settings, now);
        // A failed attempt ends only the attempt, unless it was the last one.
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
                // A copy: a slice would keep the whole request message in memory.
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

    const SCRIPT: &'static Script = &script::admission::COMPLETE;
    const PROPERTIES: Properties<CompleteTask> = Properties::<Self> {
        cost: |complete| Cost::from_micros(30).with_bytes(complete.result.len()),
        adds: |complete| complete.result.len() as u64,
        outcomes: Outcomes::new(
            &["completed", "late", "already_completed", "stale_token", "unknown"],
            |outcome: &Completion| match outcome.verdict {
                CompleteVerdict::Completed => 0,
                CompleteVerdict::Late => 1,
                CompleteVerdict::AlreadyCompleted => 2,
                CompleteVerdict::StaleToken => 3,
                CompleteVerdict::Unknown => 4,
            },
        ),
        fallback: Some(CompleteTask::FALLBACK),
        plain: Some(PlainForm {
            script: |_| Some(&script::admission::COMPLETE_PLAIN),
            encode: CompleteTask::encode_plain,
            cost: |complete| Cost::from_micros(12).with_bytes(complete.result.len()),
        }),
        ..Properties::FREES_CAPACITY
    }
    .affects_denials()
    .grows()
    .warms();

    fn partition(&self) -> &[u8] {
        self.name.pool.as_bytes()
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
            COMPLETE_COMPLETED => CompleteVerdict::Completed,
            COMPLETE_ALREADY_COMPLETED => CompleteVerdict::AlreadyCompleted,
            COMPLETE_LATE => CompleteVerdict::Late,
            COMPLETE_STALE_TOKEN => CompleteVerdict::StaleToken,
            COMPLETE_UNKNOWN => CompleteVerdict::Unknown,
            status => return unknown_status(status),
        };
        Ok(Completion { verdict, usage: PoolUsage::parse(reply)? })
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

impl AffectsDenials for CompleteTask {
    fn effect(&self, completion: Option<&Completion>) -> Effect {
        let kept = [CompleteVerdict::StaleToken, CompleteVerdict::Unknown];
        Effect::frees(completion.is_none_or(|completion| !kept.contains(&completion.verdict)))
    }
}

impl Grows for CompleteTask {
    /// The task already has a record.
    fn is_new(&self, _: &Pool, _: Timestamp) -> bool {
        false
    }

    /// True if the result would be stored.
    fn adds(&self, pool: &Pool, now: Timestamp) -> bool {
        pool.task(&self.name.member(), now)
            .is_some_and(|task| matches!(task.state, TaskState::Leased | TaskState::Evicted { .. }))
    }
}

impl Warms for CompleteTask {
    fn warm(results: &[CompleteTask], pool: &Pool) {
        pool.warm(results.iter().map(|result| result.name.member()));
    }
}

impl CompleteTask {
    const FALLBACK: FallbackRule<CompleteTask> = FallbackRule {
        is_unknown: CompleteTask::is_unknown,
        ..FallbackRule::new(
            |complete| complete.settings.on_store_failure,
            // A result cannot be refused, so with `deny` the call fails.
            |_| None,
            |complete, replicas| CompleteTask {
                settings: complete.settings.for_one_of(replicas),
                ..complete.clone()
            },
        )
    };

    /// A token of another lease means that the store granted the lease.
    fn is_unknown(completion: &Completion) -> bool {
        matches!(completion.verdict, CompleteVerdict::Unknown | CompleteVerdict::StaleToken)
    }
}
