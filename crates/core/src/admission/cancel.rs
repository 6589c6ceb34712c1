//! `CancelTask`: removes a task from the queue of its device.

use super::{EventKind, Pool, QueueState, Settings, TaskName, TaskState, unknown_status};
use crate::{
    Call, Decision, Outcomes, Properties, Reply,
    denial::{AffectsDenials, Effect},
    error::Error,
    script::{self, Script},
    statuses,
    time::Timestamp,
};

statuses! { CANCEL_CANCELLED = 0, CANCEL_RUNNING = 1, CANCEL_COMPLETED = 2, CANCEL_UNKNOWN = 3 }

/// Cancels a queued task.
///
/// The task is not dispatched again. A running lease is not affected: the verdict is then
/// `Running`, and the result is stored when it arrives. A task with a result answers `Completed`. A
/// task that was never queued, or whose record is forgotten, is `Unknown`.
///
/// The payload is dropped, and the record stays for the retention of the pool. During that time the
/// same task cannot be queued again. A repeat changes nothing and is marked `replayed`.
#[derive(Debug, Clone)]
pub struct CancelTask {
    /// The task.
    pub name: TaskName,
    /// The pool's configured settings.
    pub settings: Settings,
}

/// The answer to a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancellation {
    /// The verdict on the task.
    pub verdict: CancelVerdict,
    /// Whether an earlier call cancelled the task.
    pub replayed: bool,
}

/// The verdict on a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelVerdict {
    /// The task is cancelled and holds no slot.
    Cancelled,
    /// The task has a result; nothing changed.
    Completed,
    /// The task is cancelled, but its current lease holds a slot.
    Running,
    /// No such task was queued; nothing changed.
    Unknown,
}

impl CancelTask {
    fn rule(&self, pool: &mut Pool, now: Timestamp) -> Option<Cancellation> {
        let member = self.name.member();
        let (member, task) = pool.lookup(&member, now)?;
        if let TaskState::Completed { .. } = task.state {
            let verdict = CancelVerdict::Completed;
            return Some(Cancellation { verdict, replayed: false });
        }
        let verdict =
            if task.holds_slot(now) { CancelVerdict::Running } else { CancelVerdict::Cancelled };
        let replayed = task.queued.as_ref()?.standing == QueueState::Cancelled;
        if !replayed {
            pool.log_task(EventKind::Cancelled, member.clone(), &task, None, &self.settings, now);
            pool.leave_queue(&member, task, QueueState::Cancelled, &self.settings, now);
        }
        Some(Cancellation { verdict, replayed })
    }
}

impl Decision for CancelTask {
    type State = Pool;
    type Outcome = Cancellation;

    const SCRIPT: &'static Script = &script::admission::CANCEL;
    const PROPERTIES: Properties<CancelTask> = Properties::<Self> {
        outcomes: Outcomes::new(
            &["cancelled", "running", "completed", "unknown"],
            |outcome: &Cancellation| match outcome.verdict {
                CancelVerdict::Cancelled => 0,
                CancelVerdict::Running => 1,
                CancelVerdict::Completed => 2,
                CancelVerdict::Unknown => 3,
            },
        ),
        ..Properties::DEFAULT
    }
    .affects_denials();

    fn partition(&self) -> &[u8] {
        self.name.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        let member = self.name.member();
        call.key(&[b"task:", &member]);
        for part in [&b"leases"[..], b"events", b"queued", b"backlog", b"due"] {
            call.key(&[part]);
        }
        call.bytes(&[&member]);
        call.number(self.settings.retention.0);
        call.number(self.settings.history.into());
    }

    fn parse(reply: &mut Reply) -> Result<Cancellation, Error> {
        let verdict = match reply.number()? {
            CANCEL_CANCELLED => CancelVerdict::Cancelled,
            CANCEL_RUNNING => CancelVerdict::Running,
            CANCEL_COMPLETED => CancelVerdict::Completed,
            CANCEL_UNKNOWN => CancelVerdict::Unknown,
            status => return unknown_status(status),
        };
        Ok(Cancellation { verdict, replayed: reply.number()? != 0 })
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> Cancellation {
        pool.lapse(now);
        let unknown = Cancellation { verdict: CancelVerdict::Unknown, replayed: false };
        self.rule(pool, now).unwrap_or(unknown)
    }
}

impl AffectsDenials for CancelTask {
    fn effect(&self, cancellation: Option<&Cancellation>) -> Effect {
        let is_unknown = |it: &Cancellation| it.verdict == CancelVerdict::Unknown;
        Effect::frees(!cancellation.is_some_and(is_unknown))
    }
}
