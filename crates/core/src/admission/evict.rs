//! `EvictTask`: frees the slot of a task.

use bytes::Bytes;

use super::{EventKind, Pool, Settings, TaskName, TaskState, push_queue_keys, unknown_status};
use crate::{
    Call, Decision, Outcomes, Properties, Reply,
    denial::{AffectsDenials, Effect},
    error::Error,
    script::{self, Script},
    statuses,
    time::Timestamp,
    waiting,
};

statuses! { EVICT_EVICTED = 0, EVICT_REPLAYED = 1, EVICT_ENDED = 2, EVICT_UNKNOWN = 3 }

/// Ends the lease of a task for an operator.
///
/// The slot is free immediately and goes to a waiter. The eviction does not stop the task itself,
/// and only a system that compares fencing tokens rejects its writes, so the caller must know that
/// the task has ended. A later result is stored as late, and a renewal answers `Expired`.
///
/// An evicted attempt of a queued task counts as ended without success, and stores no reason. A
/// task that holds no slot answers `Ended`. A repeat answers `Evicted` with `replayed`. On Redis,
/// an unreadable task record is removed, and the answer is `Unknown`.
#[derive(Debug, Clone)]
pub struct EvictTask {
    /// The task.
    pub name: TaskName,
    /// The reason, stored in the task record; at most [`super::REASON_BYTES_MAX`] bytes.
    pub reason: Bytes,
    /// The pool's configured settings.
    pub settings: Settings,
}

/// The verdict on an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictVerdict {
    /// The task holds no slot; nothing changed.
    Ended,
    /// The slot is free.
    Evicted {
        /// Whether an earlier call evicted the task.
        replayed: bool,
    },
    /// The task has no record, or was never admitted; nothing changed.
    Unknown,
}

impl Decision for EvictTask {
    type State = Pool;
    type Outcome = EvictVerdict;

    const SCRIPT: &'static Script = &script::admission::EVICT;
    const PROPERTIES: Properties<EvictTask> = Properties::<Self> {
        outcomes: Outcomes::new(&["evicted", "ended", "unknown"], |outcome| match outcome {
            EvictVerdict::Evicted { .. } => 0,
            EvictVerdict::Ended => 1,
            EvictVerdict::Unknown => 2,
        }),
        ..Properties::DEFAULT
    }
    .affects_denials();

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
        call.bytes(&[&self.reason]);
        call.number(self.settings.capacity.into());
        call.number(self.settings.max_attempts.into());
        call.number(self.settings.retention.0);
        call.number(self.settings.history.into());
    }

    fn parse(reply: &mut Reply) -> Result<EvictVerdict, Error> {
        Ok(match reply.number()? {
            EVICT_EVICTED => EvictVerdict::Evicted { replayed: false },
            EVICT_REPLAYED => EvictVerdict::Evicted { replayed: true },
            EVICT_ENDED => EvictVerdict::Ended,
            EVICT_UNKNOWN => EvictVerdict::Unknown,
            status => return unknown_status(status),
        })
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> EvictVerdict {
        pool.lapse(now);
        let member = self.name.member();
        let Some((member, mut task)) = pool.lookup(&member, now) else {
            return EvictVerdict::Unknown;
        };
        match task.state {
            TaskState::New => return EvictVerdict::Unknown,
            TaskState::Evicted { .. } => return EvictVerdict::Evicted { replayed: true },
            _ if !task.holds_slot(now) => return EvictVerdict::Ended,
            _ => {}
        }
        let settings = self.settings.under(&pool.overrides);
        let was_free = settings.capacity.saturating_sub(pool.in_use());
        pool.log_task(EventKind::Evicted, member.clone(), &task, None, &settings, now);
        if task.queued.is_some() {
            task.state = TaskState::Evicted { reason: Box::default() };
            pool.end_attempt(&member, task, &settings, now);
        } else {
            // A copy: a slice would keep the whole request message in memory.
            task.state = TaskState::Evicted { reason: (*self.reason).into() };
            task.forget = now.after(settings.retention);
            pool.put(&member, task, now);
        }
        pool.hand_on(was_free, settings.capacity, now);
        EvictVerdict::Evicted { replayed: false }
    }
}

impl AffectsDenials for EvictTask {
    fn effect(&self, verdict: Option<&EvictVerdict>) -> Effect {
        let kept = [EvictVerdict::Ended, EvictVerdict::Unknown];
        Effect::frees(verdict.is_none_or(|verdict| !kept.contains(verdict)))
    }
}
