//! `EvictTask`: takes a task's slot away.

use bytes::Bytes;

use super::{Pool, Settings, Task, TaskName, TaskState, unknown_status};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    error::Error,
    script::{self, Script},
    time::Timestamp,
    waiting,
};

/// Names the task to evict.
#[derive(Debug, Clone)]
pub struct EvictTask {
    /// The task.
    pub name: TaskName,
    /// Why, for the record.
    pub reason: Bytes,
    /// The pool's configured settings.
    pub settings: Settings,
}

/// Whether a slot was taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictVerdict {
    /// The task holds no slot.
    Ended,
    /// The slot is free.
    Evicted {
        /// Whether an earlier call had evicted it.
        replayed: bool,
    },
    /// Nothing is known of the task.
    Unknown,
}

impl Decision for EvictTask {
    type State = Pool;
    type Outcome = EvictVerdict;

    const SCRIPT: &'static Script = &script::EVICT_TASK;

    fn partition(&self) -> &[u8] {
        self.name.pool.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn encode(&self, call: &mut Call) {
        let member = self.name.member();
        call.key(&[b"task:", &member]);
        call.key(&[b"leases"]);
        call.key(&[b"settings"]);
        waiting::push_keys(call);
        call.bytes(&[&member]);
        call.bytes(&[&self.reason]);
        call.number(self.settings.retention.0);
        call.number(self.settings.capacity.into());
    }

    fn parse(reply: &mut Reply) -> Result<EvictVerdict, Error> {
        Ok(match reply.number()? {
            0 => EvictVerdict::Evicted { replayed: false },
            1 => EvictVerdict::Evicted { replayed: true },
            2 => EvictVerdict::Ended,
            3 => EvictVerdict::Unknown,
            status => return unknown_status(status),
        })
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> EvictVerdict {
        pool.reclaim(now);
        let member = self.name.member();
        let Some(task) = pool.task(&member, now) else {
            return EvictVerdict::Unknown;
        };
        if let TaskState::Evicted { .. } = task.state {
            return EvictVerdict::Evicted { replayed: true };
        }
        if !task.holds_slot(now) {
            return EvictVerdict::Ended;
        }
        let evicted = Task {
            lease: task.lease,
            slot_end: task.slot_end,
            forget: now.after(self.settings.retention),
            // A copy: a slice would keep the whole received message.
            state: TaskState::Evicted { reason: Bytes::copy_from_slice(&self.reason) },
        };
        let capacity = self.settings.under(&pool.overrides).capacity;
        let was_free = capacity.saturating_sub(pool.in_use());
        pool.put(&member, evicted, now);
        pool.hand_on(was_free, capacity, now);
        EvictVerdict::Evicted { replayed: false }
    }
}
