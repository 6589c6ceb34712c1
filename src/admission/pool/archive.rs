//! Export and import of a pool: its persisted entries as lines of an export file, and back.

use bytes::Bytes;

use super::{
    NEVER, Pool, device_and_task,
    record::{DUE, Kept, TASK},
};
use crate::{
    admission::{Lease, Outcome, Overrides, Queued, Standing, Task, TaskState},
    decision::{
        export::{Line, PoolLine, QueuedLine, StandingName, StateName, TaskLine, Text},
        names::SEPARATOR,
        persistence::{Changes, Unreadable, decode, encode, split_part},
        time::{Millis, Timestamp},
    },
};

impl Pool {
    /// The line of a persisted entry; `None` for entries that follow from others, and for events.
    pub(crate) fn archive(
        partition: &[u8],
        part: &[u8],
        value: &[u8],
    ) -> Result<Option<Line>, Unreadable> {
        let pool = Text::new(partition);
        match split_part(part) {
            (0, _) => {
                let (overrides, last_token) = decode::<(Overrides, u64)>(value)?;
                Ok(Some(Line::Pool(PoolLine {
                    pool,
                    last_token,
                    capacity: overrides.capacity,
                    lease_ms: overrides.lease_duration.map(|lease| lease.0),
                    grace_ms: overrides.expiry_grace.map(|grace| grace.0),
                    paused: overrides.paused,
                    max_attempts: overrides.max_attempts,
                })))
            }
            (TASK, member) => {
                let Kept { task, is_ended } = decode::<Kept<Task>>(value)?;
                Ok(Some(Line::Task(task_line(pool, member, task, is_ended))))
            }
            _ => Ok(None),
        }
    }
}

/// The line of a task record.
fn task_line(pool: Text, member: &[u8], task: Task, is_ended: bool) -> TaskLine {
    let (device, name) = device_and_task(member);
    let (state, succeeded, text) = match task.state {
        TaskState::New => (StateName::New, None, Box::default()),
        TaskState::Leased => (StateName::Leased, None, Box::default()),
        TaskState::Failed => (StateName::Failed, None, Box::default()),
        TaskState::Evicted { reason } => (StateName::Evicted, None, reason),
        TaskState::Completed { outcome, result } => {
            (StateName::Completed, Some(outcome == Outcome::Succeeded), result)
        }
    };
    let queued = task.queued.map(|queued| QueuedLine {
        standing: match queued.standing {
            Standing::Queued => StandingName::Queued,
            Standing::Cancelled => StandingName::Cancelled,
            Standing::Dead => StandingName::Dead,
            Standing::Expired => StandingName::Expired,
        },
        attempt: queued.attempt,
        at: queued.at.0,
        ends: queued.ends.map(|ends| ends.0),
        payload: Text(queued.payload.into()),
    });
    TaskLine {
        pool,
        device: Text::new(device),
        task: Text::new(name),
        state,
        token: task.lease.token,
        grant: task.lease.grant.0,
        expire: task.lease.expire.0,
        slot_end: task.slot_end.0,
        forget: (task.forget != NEVER).then_some(task.forget.0),
        told: task.is_told && state == StateName::Leased,
        listed: state == StateName::Leased && !is_ended,
        succeeded,
        text: Text(text.into()),
        queued,
    }
}

impl PoolLine {
    /// Appends the entry of this line to a write batch.
    pub(crate) fn record(&self, to: &mut Changes) {
        let overrides = Overrides {
            capacity: self.capacity,
            lease_duration: self.lease_ms.map(Millis),
            expiry_grace: self.grace_ms.map(Millis),
            paused: self.paused,
            max_attempts: self.max_attempts,
        };
        let mut head = Vec::new();
        encode(&(overrides, self.last_token), &mut head);
        to.of::<Pool>(&self.pool.0);
        to.head(&head);
    }
}

impl TaskLine {
    /// The member: device and task, joined.
    pub(crate) fn member(&self) -> Vec<u8> {
        [&self.device.0[..], &[SEPARATOR], &self.task.0].concat()
    }

    /// When the sweeper has to process the task, in µs; `None` for never.
    pub(crate) fn due(&self) -> Option<u64> {
        let queued = self.queued.as_ref()?;
        match queued.standing {
            StandingName::Queued => queued.ends,
            _ => self.forget,
        }
    }

    /// Appends the entries of this line to a write batch.
    pub(crate) fn record(&self, to: &mut Changes) {
        let member = self.member();
        to.of::<Pool>(&self.pool.0);
        let is_ended = self.state == StateName::Leased && !self.listed;
        to.put(&[&[TASK], &member], &Kept { task: self.task(), is_ended });
        if let Some(due) = self.due() {
            to.put(&[&[DUE], &member], &Timestamp(due));
        }
    }

    /// The task record of this line.
    fn task(&self) -> Task {
        let text = || self.text.0.clone().into();
        let queued = self.queued.as_ref().map(|queued| {
            Box::new(Queued {
                standing: match queued.standing {
                    StandingName::Queued => Standing::Queued,
                    StandingName::Cancelled => Standing::Cancelled,
                    StandingName::Dead => Standing::Dead,
                    StandingName::Expired => Standing::Expired,
                },
                attempt: queued.attempt,
                at: Timestamp(queued.at),
                ends: queued.ends.map(Timestamp),
                payload: Bytes::from(queued.payload.0.clone()),
            })
        });
        Task {
            lease: Lease {
                token: self.token,
                grant: Timestamp(self.grant),
                expire: Timestamp(self.expire),
            },
            slot_end: Timestamp(self.slot_end),
            forget: self.forget.map_or(NEVER, Timestamp),
            state: match (self.state, self.succeeded) {
                (StateName::New, _) => TaskState::New,
                (StateName::Leased, _) => TaskState::Leased,
                (StateName::Failed, _) => TaskState::Failed,
                (StateName::Evicted, _) => TaskState::Evicted { reason: text() },
                (StateName::Completed, succeeded) => TaskState::Completed {
                    outcome: match succeeded {
                        Some(true) => Outcome::Succeeded,
                        _ => Outcome::Failed,
                    },
                    result: text(),
                },
            },
            is_told: self.told,
            queued,
        }
    }
}
