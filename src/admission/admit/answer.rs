//! What AdmitTask answers.

use bytes::Bytes;

use crate::{
    admission::{Lease, Usage, small},
    decision::Reply,
    error::Error,
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
        matches!(self.decision, AdmitDecision::Admitted { .. })
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
