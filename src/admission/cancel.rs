//! `CancelTask`: takes a task out of its device's queue for good.

use super::{EventKind, Pool, Settings, Standing, TaskName, TaskState, unknown_status};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    denial::Effect,
    error::Error,
    script::{self, Script},
    time::Timestamp,
};

/// Names the task to cancel.
#[derive(Debug, Clone)]
pub struct CancelTask {
    /// The task.
    pub name: TaskName,
    /// The pool's configured settings.
    pub settings: Settings,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancellation {
    /// The answer.
    pub verdict: CancelVerdict,
    /// Whether an earlier call had cancelled it.
    pub replayed: bool,
}

/// Whether a task is out of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelVerdict {
    /// It is.
    Cancelled,
    /// Its result is on record.
    Completed,
    /// It is, but its lease holds a slot.
    Running,
    /// No such task was queued.
    Unknown,
}

impl CancelTask {
    fn rule(&self, pool: &mut Pool, now: Timestamp) -> Option<Cancellation> {
        let member = self.name.member();
        let (member, task) = pool.known(&member, now)?;
        if let TaskState::Completed { .. } = task.state {
            let verdict = CancelVerdict::Completed;
            return Some(Cancellation { verdict, replayed: false });
        }
        let verdict = match task.holds_slot(now) {
            true => CancelVerdict::Running,
            false => CancelVerdict::Cancelled,
        };
        let replayed = task.queued.as_ref()?.standing == Standing::Cancelled;
        if !replayed {
            pool.log_task(EventKind::Cancelled, member.clone(), &task, None, &self.settings, now);
            pool.leave_queue(&member, task, Standing::Cancelled, &self.settings, now);
        }
        Some(Cancellation { verdict, replayed })
    }
}

impl Decision for CancelTask {
    type State = Pool;
    type Outcome = Cancellation;

    const SCRIPT: &'static Script = &script::CANCEL_TASK;

    fn partition(&self) -> &[u8] {
        self.name.pool.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn effect(&self, cancellation: Option<&Cancellation>) -> Effect {
        let is_unknown = |it: &Cancellation| it.verdict == CancelVerdict::Unknown;
        Effect::frees(!cancellation.is_some_and(is_unknown))
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
            0 => CancelVerdict::Cancelled,
            1 => CancelVerdict::Running,
            2 => CancelVerdict::Completed,
            3 => CancelVerdict::Unknown,
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
