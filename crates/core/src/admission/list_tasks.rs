//! `ListTasks`: reads a page of the tasks that are or were queued.

use serde::{Deserialize, Serialize};

use super::{
    Pool, QueueState, Task, TaskState,
    pool::{BacklogEntry, device_and_task},
    small, unknown_status,
};
use crate::{
    Call, Cost, Decision, Outcomes, Properties, Reply, Steps,
    error::Error,
    names::Name,
    script::{self, Script},
    statuses,
    time::Timestamp,
};

// The state of a listed task.
statuses! {
    LISTED_CANCELLED = 0, LISTED_DEAD = 1, LISTED_EXPIRED = 2, LISTED_QUEUED = 3,
    LISTED_RUNNING = 4,
}
// How its last attempt ended.
statuses! {
    LAST_END_NONE = 0, LAST_END_EVICTED = 1, LAST_END_EXPIRED = 2, LAST_END_FAILED = 3,
}

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
    /// The maximum number of entries that are read for the page; above 0. Tasks that left the queue
    /// are found in a schedule that also contains other tasks, so a page of them can be shorter.
    pub limit: u32,
    /// The position of the last entry of the previous page.
    pub after: Option<TaskCursor>,
}

/// The position of a task in a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCursor {
    /// When the task is forgotten, for tasks that left the queue; otherwise 0.
    pub due: u64,
    /// Device and task, joined by the separator.
    pub member: Vec<u8>,
    /// When a queued task was queued; 0 for tasks that left the queue.
    pub at: Timestamp,
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
    /// It waits until its device reports.
    Queued,
    /// It is queued, and its lease holds a slot.
    Running,
}

impl ListedState {
    /// `Running` includes the grace of a lease: the task may still run.
    fn from_standing(standing: QueueState, holds_slot: bool) -> ListedState {
        match standing {
            QueueState::Cancelled => ListedState::Cancelled,
            QueueState::Dead => ListedState::Dead,
            QueueState::Expired => ListedState::Expired,
            QueueState::Queued if holds_slot => ListedState::Running,
            QueueState::Queued => ListedState::Queued,
        }
    }

    fn parse(number: u64) -> Result<ListedState, Error> {
        Ok(match number {
            LISTED_CANCELLED => ListedState::Cancelled,
            LISTED_DEAD => ListedState::Dead,
            LISTED_EXPIRED => ListedState::Expired,
            LISTED_QUEUED => ListedState::Queued,
            LISTED_RUNNING => ListedState::Running,
            status => return unknown_status(status),
        })
    }

    /// Whether the task left the queue.
    pub fn has_left(self) -> bool {
        !matches!(self, ListedState::Queued | ListedState::Running)
    }
}

impl AttemptEnd {
    fn parse(number: u64) -> Result<Option<AttemptEnd>, Error> {
        Ok(match number {
            LAST_END_NONE => None,
            LAST_END_EVICTED => Some(AttemptEnd::Evicted),
            LAST_END_EXPIRED => Some(AttemptEnd::Expired),
            LAST_END_FAILED => Some(AttemptEnd::Failed),
            status => return unknown_status(status),
        })
    }
}

impl ListedTask {
    /// Returns the listed form of a task; `None` if it was never queued, or has a result.
    fn from_task(member: &[u8], task: &Task, now: Timestamp) -> Option<ListedTask> {
        let queued = task.queued.as_ref()?;
        let holds_slot = task.state == TaskState::Leased && now < task.slot_end;
        Some(ListedTask {
            member: member.to_vec(),
            state: ListedState::from_standing(queued.standing, holds_slot),
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

    fn parse(reply: &mut Reply) -> Result<ListedTask, Error> {
        Ok(ListedTask {
            member: reply.text()?,
            state: ListedState::parse(reply.number()?)?,
            last_end: AttemptEnd::parse(reply.number()?)?,
            attempt: small(reply)?,
            at: Timestamp(reply.number()?),
            ends: Some(reply.number()?).filter(|ends| *ends > 0).map(Timestamp),
            token: reply.number()?,
        })
    }

    /// Returns the names of device and task.
    pub fn device_and_task(&self) -> (&[u8], &[u8]) {
        device_and_task(&self.member)
    }
}

impl TaskCursor {
    /// Returns the position of a queued task.
    fn from_entry(line: &BacklogEntry) -> TaskCursor {
        TaskCursor { due: 0, member: line.member.to_vec(), at: line.at }
    }

    /// Returns the backlog entry of this cursor.
    fn line(&self) -> BacklogEntry {
        BacklogEntry { member: (&*self.member).into(), at: self.at }
    }
}

impl Decision for ListTasks {
    type State = Pool;
    type Outcome = TaskPage;

    const SCRIPT: &'static Script = &script::admission::LIST_TASKS;
    const PROPERTIES: Properties<ListTasks> = Properties {
        cost: |list| Cost::bulk(100 + 8 * list.limit),
        outcomes: Outcomes::OK,
        steps: Some(Steps {
            max: 250,
            limit: |list| list.limit,
            limited: |list, limit| ListTasks { limit, ..list.clone() },
            after: |list, page| {
                page.next.clone().map(|next| ListTasks { after: Some(next), ..list.clone() })
            },
            append: |page, next| {
                page.tasks.extend(next.tasks);
                page.next = next.next;
            },
        }),
        ..Properties::DEFAULT
    };

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
        call.bytes(&[self.after.as_ref().map_or(&[], |cursor| &cursor.member)]);
        call.number(self.after.as_ref().map_or(0, |cursor| cursor.at.0));
    }

    fn parse(reply: &mut Reply) -> Result<TaskPage, Error> {
        reply.ok()?;
        let more = reply.number()? != 0;
        let (due, member) = (reply.number()?, reply.text()?);
        let last = TaskCursor { due, member, at: Timestamp(reply.number()?) };
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
            let after = self.after.as_ref().map(|cursor| (Timestamp(cursor.due), &*cursor.member));
            let due = pool.backlog.due(after).take(limit + 1);
            let cursor = |due: &Timestamp, member: &[u8]| TaskCursor {
                due: due.0,
                member: member.to_vec(),
                at: Timestamp(0),
            };
            due.map(|(due, member)| (cursor(due, member), &**member)).collect()
        } else {
            let after = self.after.as_ref().map(TaskCursor::line);
            let lines = pool.backlog.after(after.as_ref()).take(limit + 1);
            lines.map(|line| (TaskCursor::from_entry(line), &*line.member)).collect()
        };
        let (more, page) = (entries.len() > limit, &entries[..entries.len().min(limit)]);
        let listed = page
            .iter()
            .filter_map(|(_, member)| ListedTask::from_task(member, pool.task(member, now)?, now))
            // The schedule also contains queued tasks with an expiry time.
            .filter(|task| !self.left || task.state.has_left());
        TaskPage {
            tasks: listed.collect(),
            next: page.last().filter(|_| more).map(|(cursor, _)| cursor.clone()),
        }
    }
}
