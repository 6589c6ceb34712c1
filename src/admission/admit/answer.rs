//! What AdmitTask answers.

use bytes::Bytes;

use super::AdmitTask;
use crate::{
    admission::{Lease, TaskName, Usage, WithdrawTask, small},
    decision::Reply,
    error::Error,
    names::Name,
    time::Millis,
    waiting::Turn,
};

/// The answer, and how full the pool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The answer.
    pub decision: AdmitDecision,
    /// The pool's use, this task included.
    pub usage: Usage,
}

/// Whether the task may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmitDecision {
    /// It may.
    Admitted {
        /// The lease it holds.
        lease: Lease,
        /// Whether an earlier call had been granted it.
        replayed: bool,
        /// The queued task that it is for.
        dispatched: Option<Box<Dispatched>>,
    },
    /// A result of it is on record, or it left its queue for good.
    AlreadyCompleted,
    /// All slots are held, or kept for those that wait.
    Full {
        /// When to ask again; above 0.
        retry_after: Millis,
        /// Whether it waits for its turn.
        turn: Turn,
        /// When the end of a lease makes room, in microseconds from now and not spread;
        /// 0 where it is not that which the task has to wait for.
        room_in: u64,
    },
    /// No task was named, and none is queued for the device.
    NoTask,
    /// The pool is paused or has no slots.
    Paused {
        /// When to ask again; above 0.
        retry_after: Millis,
    },
}

/// A queued task that a device is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatched {
    /// The task.
    pub task: Bytes,
    /// What the device has to know.
    pub payload: Bytes,
    /// How often it was dispatched, this time included.
    pub attempt: u32,
}

impl Admission {
    /// Whether the task may run.
    pub fn is_granted(&self) -> bool {
        self.decision.is_lease()
    }
}

impl AdmitDecision {
    /// Whether the task has a lease.
    pub(super) fn is_lease(&self) -> bool {
        matches!(self, AdmitDecision::Admitted { .. })
    }
}

impl AdmitTask {
    /// What withdraws what this call was granted.
    pub(super) fn withdrawal(&self, admission: &Admission) -> Option<WithdrawTask> {
        let AdmitDecision::Admitted { lease, replayed: false, dispatched } = &admission.decision
        else {
            return None;
        };
        let task = match dispatched {
            Some(dispatched) => Name::parse(dispatched.task.clone()).ok()?,
            None => self.task.clone()?,
        };
        let name = TaskName { pool: self.pool.clone(), device: self.device.clone(), task };
        Some(WithdrawTask { name, token: lease.token, settings: self.settings })
    }
}

impl Dispatched {
    /// Reads attempt, task and payload, if they follow.
    pub(super) fn parse(reply: &mut Reply) -> Result<Option<Box<Dispatched>>, Error> {
        if !reply.has_more() {
            return Ok(None);
        }
        let attempt = small(reply)?;
        let (task, payload) = (reply.bytes()?.into(), reply.bytes()?.into());
        Ok(Some(Box::new(Dispatched { task, payload, attempt })))
    }
}
