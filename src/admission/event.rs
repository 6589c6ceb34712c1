//! What changed in a pool.

use serde::{Deserialize, Serialize};

use super::{Outcome, pool::device_and_task};
use crate::time::Timestamp;

/// A change of a pool's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What changed.
    pub kind: EventKind,
    /// The lease's token; 0 where there is none.
    pub token: u64,
    /// Which attempt of a queued task; 0 for others.
    pub attempt: u32,
    /// How the task went, of a result.
    pub outcome: Option<Outcome>,
    /// The pool's slots, of ADMITTED and CONFIGURED.
    pub capacity: Option<u32>,
    /// When.
    pub time: Timestamp,
    /// Device and task, joined; empty where there is none.
    pub member: std::sync::Arc<[u8]>,
}

/// What can change; the numbers are those of the scripts and of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// A task was queued.
    Enqueued = 1,
    /// A task was granted a lease.
    Admitted = 2,
    /// A lease was extended.
    Renewed = 3,
    /// A result came in time.
    Completed = 4,
    /// A result came late.
    Late = 5,
    /// A lease ended without a result; without a token: a task left its queue since its
    /// expire time passed.
    Expired = 6,
    /// A slot was taken away.
    Evicted = 7,
    /// A task was taken out of its queue.
    Cancelled = 8,
    /// A task left its queue after its last attempt.
    Dead = 9,
    /// Settings changed.
    Configured = 10,
}

impl EventKind {
    const ALL: [EventKind; 10] = [
        EventKind::Enqueued,
        EventKind::Admitted,
        EventKind::Renewed,
        EventKind::Completed,
        EventKind::Late,
        EventKind::Expired,
        EventKind::Evicted,
        EventKind::Cancelled,
        EventKind::Dead,
        EventKind::Configured,
    ];
}

impl Event {
    /// Reads `kind token attempt outcome capacity time member`, in which 0 is no outcome
    /// and no capacity is empty.
    pub(super) fn parse(text: &[u8]) -> Option<Event> {
        let mut parts = text.splitn(7, |byte| *byte == b' ');
        let mut next = || std::str::from_utf8(parts.next()?).ok();
        let kind: usize = next()?.parse().ok()?;
        let (token, attempt) = (next()?.parse().ok()?, next()?.parse().ok()?);
        let outcome = match next()? {
            "0" => None,
            "1" => Some(Outcome::Succeeded),
            "2" => Some(Outcome::Failed),
            _ => return None,
        };
        let capacity = match next()? {
            "" => None,
            text => Some(text.parse().ok()?),
        };
        let time = Timestamp(next()?.parse().ok()?);
        let kind = *EventKind::ALL.get(kind.checked_sub(1)?)?;
        let member = parts.next()?.into();
        Some(Event { kind, token, attempt, outcome, capacity, time, member })
    }

    /// Device and task; empty where there are none.
    pub fn device_and_task(&self) -> (&[u8], &[u8]) {
        device_and_task(&self.member)
    }
}
