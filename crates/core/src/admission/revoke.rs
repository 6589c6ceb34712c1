//! `RevokeTask`: revokes a lease that too few replicas acknowledged, or whose caller was gone before
//! its answer was written.
//!
//! It follows from another decision, because only the replicas' answer or the caller's connection
//! shows whether it is needed.

use super::{
    EventKind, Lease, Pool, Settings, Task, TaskName, TaskState, push_queue_keys, unknown_status,
};
use crate::{
    Call, Decision, Properties, Reply,
    denial::{AffectsDenials, Effect},
    error::Error,
    script::{self, Script},
    statuses,
    time::Timestamp,
    waiting,
};

statuses! { REVOKE_REVOKED = 0, REVOKE_STAYS = 1 }

/// Why a lease is revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevokeReason {
    /// Too few replicas acknowledged it. The call that was granted it fails with `Unacknowledged`.
    Unacknowledged,
    /// Its caller was gone before the answer was written.
    Unreceived,
}

impl RevokeReason {
    /// Returns the stored text.
    const fn text(self) -> &'static [u8] {
        match self {
            RevokeReason::Unacknowledged => b"revoked: too few replicas acknowledged the lease",
            RevokeReason::Unreceived => b"revoked: the caller was gone before the answer",
        }
    }
}

/// Revokes the lease with this token, unless another call was answered with it.
///
/// The outcome is true if the lease holds no slot afterwards. It is false if the lease stays:
/// another call returned or renewed it, or a result was reported. A repeat gives the same outcome.
///
/// A revoked attempt of a queued task does not count: the task is queued as before. If the task has
/// no record or another token, the lease has already ended.
#[derive(Debug, Clone)]
pub struct RevokeTask {
    /// The task.
    pub name: TaskName,
    /// The fencing token of the lease.
    pub token: u64,
    /// Why it is revoked.
    pub reason: RevokeReason,
    /// The pool's configured settings.
    pub settings: Settings,
}

impl RevokeTask {
    /// Ends the lease, logs it as an eviction, and wakes a waiter for the slot.
    fn revoke(&self, pool: &mut Pool, member: &[u8], mut task: Task, now: Timestamp) {
        let settings = self.settings.under(&pool.overrides);
        let was_free = settings.capacity.saturating_sub(pool.in_use());
        pool.log_task(EventKind::Evicted, pool.interned(member), &task, None, &settings, now);
        task.state = TaskState::Evicted { reason: Box::default() };
        if let Some(queued) = &mut task.queued {
            // Undoes the attempt: the task was not dispatched.
            queued.attempt -= 1;
            if queued.attempt == 0 {
                let none = Timestamp(0);
                task.lease = Lease { token: 0, grant: none, expire: none };
                (task.slot_end, task.state) = (none, TaskState::New);
            }
            pool.end_attempt(member, task, &settings, now);
        } else {
            task.state = TaskState::Evicted { reason: self.reason.text().into() };
            task.forget = now.after(settings.retention);
            pool.put(member, task, now);
        }
        pool.hand_on(was_free, settings.capacity, now);
    }
}

impl Decision for RevokeTask {
    type State = Pool;
    type Outcome = bool;

    const SCRIPT: &'static Script = &script::admission::REVOKE;
    const PROPERTIES: Properties<RevokeTask> = Properties::FREES_CAPACITY.affects_denials();

    fn partition(&self) -> &[u8] {
        self.name.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        let member = self.name.member();
        call.key(&[b"task:", &member]);
        call.key(&[b"leases"]);
        call.key(&[b"settings"]);
        waiting::push_keys(call);
        push_queue_keys(call);
        call.bytes(&[&member]);
        call.number(self.token);
        call.number(self.settings.capacity.into());
        call.number(self.settings.max_attempts.into());
        call.number(self.settings.retention.0);
        call.number(self.settings.history.into());
        call.bytes(&[self.reason.text()]);
    }

    fn parse(reply: &mut Reply) -> Result<bool, Error> {
        match reply.number()? {
            REVOKE_REVOKED => Ok(true),
            REVOKE_STAYS => Ok(false),
            status => unknown_status(status),
        }
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> bool {
        pool.lapse(now);
        let member = self.name.member();
        let Some(task) = pool.task(&member, now).cloned() else { return true };
        if task.lease.token != self.token {
            return true;
        }
        match task.state {
            TaskState::Completed { .. } | TaskState::Failed => false,
            TaskState::Leased if task.is_disclosed => false,
            TaskState::Leased if task.holds_slot(now) => {
                self.revoke(pool, &member, task, now);
                true
            }
            _ => true,
        }
    }
}

impl AffectsDenials for RevokeTask {
    fn effect(&self, outcome: Option<&bool>) -> Effect {
        Effect::frees(outcome.is_none_or(|is_revoked| *is_revoked))
    }
}
