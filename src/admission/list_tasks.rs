//! `ListTasks`: reads a page of the tasks that are or were queued.

use std::str;

use super::{
    Pool, QueueState, Task, TaskState,
    pool::{BacklogEntry, device_and_task},
};
use crate::decision::{
    Call, Cost, Decision, Delivery, Outcomes, Paged, Reply,
    error::Error,
    names::{Name, SEPARATOR},
    script::{self, Script},
    stages,
    time::Timestamp,
};

/// Bytes of a listed task before its 8-byte numbers: standing, state, running and attempt.
const HEAD_BYTES: usize = 7;

/// Reads a page of the backlog, or of the tasks that left it.
///
/// These are two listings, each with its own cursors. A task that leaves the queue during the first
/// one appears in the second. A completed task is in neither: its result replaces the queue data.
/// Payloads are not listed.
#[derive(Debug, Clone)]
pub struct ListTasks {
    /// The pool.
    pub pool: Name,
    /// True for tasks that left the queue, in the order in which they are forgotten. False for
    /// queued tasks, by device and age.
    pub left: bool,
    /// The maximum number of entries that are read for the page; above 0. The schedule that lists
    /// the tasks that left the queue has other tasks too, so such a page can have fewer.
    pub limit: u32,
    /// The position of the last entry of the previous page.
    pub after: Option<TaskCursor>,
}

/// The position of a task in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskCursor {
    /// When the task is forgotten, for tasks that left the queue; otherwise 0.
    pub due: u64,
    /// Device and task, for tasks that left the queue; otherwise device, time and task.
    pub entry: Vec<u8>,
}

/// A page of tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPage {
    /// The tasks.
    pub tasks: Vec<ListedTask>,
    /// The position of the last entry, if more follow.
    pub next: Option<TaskCursor>,
}

/// A task that is or was queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTask {
    /// Device and task, joined by the separator.
    pub member: Vec<u8>,
    /// The current state.
    pub state: ListedState,
    /// The number of attempts so far.
    pub attempt: u32,
    /// When it was queued.
    pub at: Timestamp,
    /// When it expires.
    pub ends: Option<Timestamp>,
    /// The token of its last lease; 0 before the first.
    pub token: u64,
    /// How the attempt of its last lease ended; `None` before the first, and while the lease holds a
    /// slot.
    pub last_end: Option<AttemptEnd>,
}

/// How an attempt ended without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptEnd {
    /// An operator evicted the task, or the lease was revoked.
    Evicted,
    /// The slot of the lease ended without a result.
    Expired,
    /// The device reported a failure, in time or late.
    Failed,
}

/// The state of a task that is or was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedState {
    /// It was cancelled.
    Cancelled,
    /// Its last attempt ended without success.
    Dead,
    /// It expired before a success.
    Expired,
    /// It waits for a report of its device.
    Queued,
    /// It is queued, and a lease of it holds a slot.
    Running,
}

impl ListedState {
    /// `Running` includes the grace of a lease: the task may still run.
    fn of(standing: QueueState, holds_slot: bool) -> ListedState {
        match standing {
            QueueState::Cancelled => ListedState::Cancelled,
            QueueState::Dead => ListedState::Dead,
            QueueState::Expired => ListedState::Expired,
            QueueState::Queued if holds_slot => ListedState::Running,
            QueueState::Queued => ListedState::Queued,
        }
    }

    /// Whether the task left the queue.
    pub fn has_left(self) -> bool {
        !matches!(self, ListedState::Queued | ListedState::Running)
    }
}

impl ListedTask {
    /// The listed form of a task; `None` if it was never queued, or has a result.
    fn of(member: &[u8], task: &Task, now: Timestamp) -> Option<ListedTask> {
        let queued = task.queued.as_ref()?;
        let holds_slot = task.state == TaskState::Leased && now < task.slot_end;
        Some(ListedTask {
            member: member.to_vec(),
            state: ListedState::of(queued.standing, holds_slot),
            attempt: queued.attempt,
            at: queued.at,
            ends: queued.ends,
            token: task.lease.token,
            last_end: match task.state {
                TaskState::Leased => (!holds_slot).then_some(AttemptEnd::Expired),
                TaskState::Failed => Some(AttemptEnd::Failed),
                TaskState::Evicted { .. } => Some(AttemptEnd::Evicted),
                TaskState::New | TaskState::Completed { .. } => None,
            },
        })
    }

    /// Reads a member and a packed record, little-endian: one byte each for standing, state and
    /// running, u32 for the attempt, and u64 each for time, expiry time and token.
    fn parse(reply: &mut Reply) -> Result<ListedTask, Error> {
        let (member, packed) = (reply.bytes()?, reply.bytes()?);
        let unreadable = || Error::Corrupt("malformed task in a script's reply".to_owned());
        let (head, numbers) = packed.split_at_checked(HEAD_BYTES).ok_or_else(unreadable)?;
        let ([at, ends, token], []) = numbers.as_chunks() else { return Err(unreadable()) };
        let [standing, state, running, attempt @ ..] = head else { return Err(unreadable()) };
        let holds_slot = *running != 0;
        let attempt = <[u8; 4]>::try_from(attempt).map_err(|_| unreadable())?;
        let [at, ends, token] = [at, ends, token].map(|number| u64::from_le_bytes(*number));
        let standing = match standing {
            b'C' => QueueState::Cancelled,
            b'T' => QueueState::Expired,
            b'X' => QueueState::Dead,
            _ => QueueState::Queued,
        };
        let last_end = match state {
            b'L' => (!holds_slot).then_some(AttemptEnd::Expired),
            b'F' => Some(AttemptEnd::Failed),
            b'E' => Some(AttemptEnd::Evicted),
            _ => None,
        };
        Ok(ListedTask {
            member,
            state: ListedState::of(standing, holds_slot),
            attempt: u32::from_le_bytes(attempt),
            at: Timestamp(at),
            ends: Some(ends).filter(|ends| *ends > 0).map(Timestamp),
            token,
            last_end,
        })
    }

    /// The names of device and task.
    pub fn device_and_task(&self) -> (&[u8], &[u8]) {
        device_and_task(&self.member)
    }
}

impl TaskCursor {
    /// The position of a queued task, as Redis stores it: device, time in 16 digits and task.
    fn of(line: &BacklogEntry) -> TaskCursor {
        let (device, task) = device_and_task(&line.member);
        let entry = [device, format!("\x1f{:016}\x1f", line.at.0).as_bytes(), task].concat();
        TaskCursor { due: 0, entry }
    }

    /// The backlog entry of this cursor. Malformed parts become empty or 0.
    fn line(&self) -> BacklogEntry {
        let mut parts = self.entry.splitn(3, |byte| *byte == SEPARATOR);
        let mut next = || parts.next().unwrap_or_default();
        let (device, at, task) = (next(), next(), next());
        let at = str::from_utf8(at).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        BacklogEntry { member: [device, &[SEPARATOR], task].concat().into(), at: Timestamp(at) }
    }
}

impl Decision for ListTasks {
    type State = Pool;
    type Outcome = TaskPage;
    type Stages = stages::InSteps;

    const SCRIPT: &'static Script = &script::admission::LIST_TASKS;
    const DELIVERY: Delivery<ListTasks> =
        Delivery { cost: |list| Cost::bulk(100 + 8 * list.limit), ..Delivery::DEFAULT };
    const OUTCOMES: Outcomes<ListTasks> = Outcomes::OK;

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        for part in [&b"queued"[..], b"backlog", b"due"] {
            call.key(&[part]);
        }
        call.number(self.left.into());
        call.number(self.limit.into());
        call.optional(self.after.as_ref().map(|cursor| cursor.due));
        call.bytes(&[self.after.as_ref().map_or(&[], |cursor| &cursor.entry)]);
    }

    fn parse(reply: &mut Reply) -> Result<TaskPage, Error> {
        reply.ok()?;
        let more = reply.number()? != 0;
        let last = TaskCursor { due: reply.number()?, entry: reply.bytes()? };
        let mut tasks = Vec::new();
        while reply.has_more() {
            tasks.push(ListedTask::parse(reply)?);
        }
        Ok(TaskPage { tasks, next: more.then_some(last) })
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> TaskPage {
        pool.lapse(now);
        let limit = self.limit as usize;
        let entries: Vec<(TaskCursor, &[u8])> = if self.left {
            let after = self.after.as_ref().map(|cursor| (Timestamp(cursor.due), &*cursor.entry));
            let due = pool.backlog.due(after).take(limit + 1);
            let cursor =
                |due: &Timestamp, member: &[u8]| TaskCursor { due: due.0, entry: member.to_vec() };
            due.map(|(due, member)| (cursor(due, member), &**member)).collect()
        } else {
            let after = self.after.as_ref().map(TaskCursor::line);
            let lines = pool.backlog.after(after.as_ref()).take(limit + 1);
            lines.map(|line| (TaskCursor::of(line), &*line.member)).collect()
        };
        let (more, page) = (entries.len() > limit, &entries[..entries.len().min(limit)]);
        let listed = page
            .iter()
            .filter_map(|(_, member)| ListedTask::of(member, pool.task(member, now)?, now))
            // The schedule also contains queued tasks with an expiry time.
            .filter(|task| !self.left || task.state.has_left());
        TaskPage {
            tasks: listed.collect(),
            next: page.last().filter(|_| more).map(|(cursor, _)| cursor.clone()),
        }
    }
}

impl Paged for ListTasks {
    const STEP: u32 = 250;

    fn limit(&self) -> u32 {
        self.limit
    }

    fn limited(&self, limit: u32) -> ListTasks {
        ListTasks { limit, ..self.clone() }
    }

    fn behind(&self, page: &TaskPage) -> Option<ListTasks> {
        page.next.clone().map(|next| ListTasks { after: Some(next), ..self.clone() })
    }

    fn append(page: &mut TaskPage, next: TaskPage) {
        page.tasks.extend(next.tasks);
        page.next = next.next;
    }
}
