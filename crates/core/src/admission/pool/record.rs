//! Persistence of a pool: its overrides and last token, its task records, its events and the
//! schedule of the sweeper. The indexes of leases, ended records and queued tasks are rebuilt from
//! the task records.

use serde::{Deserialize, Serialize};

use super::{Lapsed, Member, NEVER, Pool, bytes_of, lapsed_of};
use crate::{
    admission::{Overrides, QueueState, Task, TaskState},
    collections::History,
    record::{Changes, Recorded, Unreadable, decode, encode, split_part, unknown_part},
    time::Timestamp,
};

/// Letter of a task record, named by its member.
pub(super) const TASK: u8 = b't';
/// Letter of an event, named by its number.
pub(super) const EVENT: u8 = b'e';
/// Letter of the schedule entry of a task, named by its member.
pub(super) const DUE: u8 = b'd';
/// Letter of an ended lease whose event is not logged, and whose task has a newer lease.
const LAPSED: u8 = b'l';

/// The persisted form of a task record.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TaskRecord<T> {
    pub(super) task: T,
    /// Whether the expiry of its last lease is logged.
    pub(super) is_ended: bool,
}

/// The restored tasks, until the indexes are rebuilt.
#[derive(Debug, Default)]
pub(super) struct Restoring(Vec<(Member, bool)>);

impl Pool {
    /// Whether the expiry of the task's last lease is logged.
    fn is_ended(&self, member: &Member, task: &Task) -> bool {
        task.state == TaskState::Leased && !self.leases.contains(task.slot_end, member)
    }

    /// Whether the lease of a `LAPSED` part is still to be written.
    fn is_listed(&self, part: &[u8]) -> bool {
        decode_lapsed(part).is_ok_and(|lapsed| self.replaced.contains(&lapsed))
    }

    /// Records that an ended lease enters or leaves `replaced`.
    pub(super) fn record_lapsed(&mut self, (end, member, token, attempt): &Lapsed) {
        let (end, token) = (end.0.to_be_bytes(), token.to_be_bytes());
        self.touched.record(&[&[LAPSED], &end, &token, &attempt.to_be_bytes(), member]);
    }
}

/// Decodes the name of a `LAPSED` part: slot end, token, attempt, member; numbers are big-endian.
fn decode_lapsed(part: &[u8]) -> Result<Lapsed, Unreadable> {
    let cut = || Unreadable("the key of a lease is too short".to_owned());
    let (end, rest) = part.split_first_chunk::<8>().ok_or_else(cut)?;
    let (token, rest) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
    let (attempt, member) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let (end, token) = (Timestamp(u64::from_be_bytes(*end)), u64::from_be_bytes(*token));
    Ok((end, member.into(), token, u32::from_be_bytes(*attempt)))
}

impl Recorded for Pool {
    const KIND: u8 = 1;

    fn track_changes(&mut self) {
        self.touched.begin();
        self.backlog.touched.begin();
    }

    fn head(&self, to: &mut Vec<u8>) {
        if self.last_token > 0 || self.overrides != Overrides::default() {
            encode(&(self.overrides, self.last_token), to);
        }
    }

    /// A changed part without an entry is removed. One change clears a history that was dropped as
    /// a whole.
    fn drain(&mut self, to: &mut Changes) {
        for part in self.touched.drain() {
            let (letter, member) = split_part(&part);
            match self.tasks.get_key_value(member).filter(|_| letter == TASK) {
                Some((member, task)) => {
                    to.put(&[&part], &TaskRecord { task, is_ended: self.is_ended(member, task) });
                }
                None if letter == EVENT => to.clear(&[&part]),
                None if letter == LAPSED && self.is_listed(member) => to.put(&[&part], &()),
                None => to.remove(&[&part]),
            }
        }
        for member in self.backlog.touched.drain() {
            match self.backlog.due_of(&member) {
                Some(due) => to.put(&[&[DUE], &member], &due),
                None => to.remove(&[&[DUE], &member]),
            }
        }
        if let Some(events) = &mut self.events {
            events.drain(EVENT, to);
        }
    }

    fn restore(&mut self, part: &[u8], value: &[u8]) -> Result<(), Unreadable> {
        match split_part(part) {
            (0, _) => (self.overrides, self.last_token) = decode(value)?,
            (TASK, member) => {
                let TaskRecord { task, is_ended } = decode::<TaskRecord<Task>>(value)?;
                let member = Member::from(member);
                let restoring = self.restoring.get_or_insert_default();
                restoring.0.push((member.clone(), is_ended));
                self.bytes += bytes_of(&member, &task);
                if let Some(was) = self.tasks.insert(member.clone(), task) {
                    self.bytes -= bytes_of(&member, &was);
                }
            }
            (DUE, member) => self.backlog.set_due(&member.into(), decode(value)?),
            (LAPSED, lapsed) => {
                self.replaced.insert(decode_lapsed(lapsed)?);
            }
            (EVENT, number) => History::restore(&mut self.events, number, value)?,
            _ => return unknown_part(part),
        }
        Ok(())
    }

    /// Rebuilds the three indexes: the backlog of queued tasks; the leases whose expiry is not
    /// logged; all other records, by the time at which they are dropped.
    fn restored(&mut self) {
        let Some(restoring) = self.restoring.take() else { return };
        let (mut leases, mut ended) = (Vec::new(), Vec::new());
        for (member, is_ended) in restoring.0 {
            let Some(task) = self.tasks.get(&member) else { continue };
            if let Some(queued) = task.queued.as_ref()
                && queued.standing == QueueState::Queued
            {
                self.backlog.add(&member, queued.at);
            }
            // A lease that ended during the downtime expires with the next decision.
            if task.state == TaskState::Leased && !is_ended {
                self.replaced.remove(&lapsed_of(&member, task));
                leases.push((task.slot_end, member));
            } else if task.forget != NEVER {
                ended.push((task.forget, member));
            }
        }
        self.leases = leases.into_iter().collect();
        self.ended = ended.into_iter().collect();
    }
}
