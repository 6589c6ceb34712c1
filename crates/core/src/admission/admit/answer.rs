//! The answer to AdmitTask.

use bytes::Bytes;

use super::AdmitTask;
use crate::{
    AsOf, Reply,
    admission::{Lease, PoolUsage, RevokeReason, RevokeTask, SlotHolders, TaskName, small},
    error::Error,
    names::Name,
    time::Millis,
    waiting::Proceed,
};

/// The answer, and the usage of the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The decision about the task.
    pub decision: AdmitDecision,
    /// The usage of the pool after the decision.
    pub usage: PoolUsage,
}

/// Whether the task may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmitDecision {
    /// The task may run.
    Admitted {
        /// The lease of the task.
        lease: AsOf<Lease>,
        /// Whether an earlier call was granted this lease.
        replayed: bool,
        /// The queued task that was selected; `None` for a task that was never queued.
        dispatched: Option<Box<Dispatched>>,
    },
    /// The task has a result, or it left the queue. It must not run.
    AlreadyCompleted,
    /// All slots are held, or the free ones belong to waiters.
    Full {
        /// When to ask again; above 0.
        retry_after: Millis,
        /// Whether the call waits, and its ticket number.
        proceed: Proceed,
        /// Time until a lease expires and frees the slot that the task needs, in µs and without
        /// spreading. 0 if the task waits for something else.
        room_in: u64,
        /// The tasks that hold a slot, if the answer can be cached and there are at most 128 of
        /// them.
        holders: Option<SlotHolders>,
    },
    /// The call named no task, and none is queued for the device.
    NoTask,
    /// The pool is paused, has capacity 0, or is on hold after a failover.
    Paused {
        /// When to ask again; above 0.
        retry_after: Millis,
    },
    /// A slot is free, but the namespace is at its limit of leases. Only the script gives this
    /// answer; the Redis engine replaces it with the error for the limit.
    Limited,
}

/// A queued task that is given to a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatched {
    /// The task.
    pub task: Bytes,
    /// The payload of the task, unchanged.
    pub payload: Bytes,
    /// The number of attempts, including this one. Starts at 1.
    pub attempt: u32,
}

impl AdmitDecision {
    /// FULL without a known time at which a lease ends and frees the slot.
    pub(in crate::admission) const fn full(retry_after: Millis, proceed: Proceed) -> AdmitDecision {
        AdmitDecision::Full { retry_after, proceed, room_in: 0, holders: None }
    }

    /// Reads FULL after the usage of the pool.
    pub(super) fn parse_full(reply: &mut Reply) -> Result<AdmitDecision, Error> {
        let retry_after = Millis(reply.number()?);
        let proceed = Proceed::parse(reply.number()?);
        let room_in = reply.number()?;
        let leases = reply.has_more().then(|| reply.any_bytes()).transpose()?;
        let holders = leases.and_then(|leases| SlotHolders::parse(&leases));
        Ok(AdmitDecision::Full { retry_after, proceed, room_in, holders })
    }
}

impl Admission {
    /// Whether the call was granted a lease.
    pub fn is_granted(&self) -> bool {
        self.decision.is_lease()
    }
}

impl AdmitDecision {
    /// Whether the task holds a lease.
    pub(super) fn is_lease(&self) -> bool {
        matches!(self, AdmitDecision::Admitted { .. })
    }
}

impl AdmitTask {
    /// Returns the decision that revokes the lease of this call; `None` if the call was granted no
    /// new lease.
    pub(super) fn revocation(
        &self,
        admission: &Admission,
        reason: RevokeReason,
    ) -> Option<RevokeTask> {
        let AdmitDecision::Admitted { lease, replayed: false, dispatched } = &admission.decision
        else {
            return None;
        };
        let task = match dispatched {
            Some(dispatched) => Name::parse(dispatched.task.clone()).ok()?,
            None => self.task.clone()?,
        };
        let name = TaskName { pool: self.pool.clone(), device: self.device.clone(), task };
        Some(RevokeTask { name, token: lease.token, reason, settings: self.settings })
    }
}

impl Dispatched {
    /// Reads attempt, task and payload, if present.
    pub(super) fn parse(reply: &mut Reply) -> Result<Option<Box<Dispatched>>, Error> {
        if !reply.has_more() {
            return Ok(None);
        }
        let attempt = small(reply)?;
        let (task, payload) = (reply.text()?.into(), reply.bytes()?.into());
        Ok(Some(Box::new(Dispatched { task, payload, attempt })))
    }
}
