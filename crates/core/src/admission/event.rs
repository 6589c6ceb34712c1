//! The events of a pool.

use serde::{Deserialize, Serialize};

use super::{Outcome, pool::device_and_task};
use crate::time::Timestamp;

/// One change of a pool, appended in the same atomic step as the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The kind of change.
    pub kind: EventKind,
    /// The fencing token of the lease; 0 if the event concerns no lease.
    pub token: u64,
    /// The attempt of a queued task, from 1; 0 for tasks that were never queued.
    pub attempt: u32,
    /// Whether the task succeeded, for `Completed` and `Late`.
    pub outcome: Option<Outcome>,
    /// The capacity of the pool, for `Admitted` and `Configured`.
    pub capacity: Option<u32>,
    /// When the change happened.
    pub time: Timestamp,
    /// Device and task, joined; empty if the event concerns no task.
    pub member: std::sync::Arc<[u8]>,
}

/// The kinds of change, numbered as in the scripts and the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// A task was queued.
    Enqueued = 1,
    /// A task was granted a lease.
    Admitted = 2,
    /// A lease was extended.
    Renewed = 3,
    /// A result came before the end of the lease.
    Completed = 4,
    /// A result came after the end of the lease.
    Late = 5,
    /// A lease ended without a result. With token 0: a queued task expired and left its queue.
    Expired = 6,
    /// An operator took a slot, or a lease was revoked.
    Evicted = 7,
    /// A task was cancelled and left its queue.
    Cancelled = 8,
    /// A task left its queue after its last attempt.
    Dead = 9,
    /// The run-time settings changed.
    Configured = 10,
}

impl EventKind {
    /// The kinds in the order of their numbers, from 1.
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
    /// Parses `kind token attempt outcome capacity time member`. Outcome 0 is none; an empty
    /// capacity is none. `None` if the text is malformed.
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

    /// Returns the names of device and task; both empty if the event concerns no task.
    pub fn device_and_task(&self) -> (&[u8], &[u8]) {
        device_and_task(&self.member)
    }
}
