//! The backlog: queued tasks by device and age, and the schedule of the sweeper.

use std::{cmp::Ordering, collections::BTreeSet};

use super::Member;
use crate::{collections::IncrementalMap, names::SEPARATOR, record::Touched, time::Timestamp};

/// The queued tasks of a pool, and the times at which tasks need a sweep.
///
/// A task is in `lines` while it is in the queue, with or without a running attempt. It is in `due`
/// if it has an expiry time, or if it has left the queue: its record is then dropped at that time.
#[derive(Debug, Default)]
pub(in crate::admission) struct Backlog {
    /// The queued tasks, in order.
    lines: BTreeSet<BacklogEntry>,
    /// The schedule: when queued tasks expire, and when tasks that left the queue are forgotten.
    due: BTreeSet<(Timestamp, Member)>,
    /// The same schedule by member.
    due_of: IncrementalMap<Member, Timestamp>,
    /// Members whose schedule entry has changed, for persistence.
    pub(super) touched: Touched,
}

/// A queued task. Sorted by device, then by the time it was queued, then by task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::admission) struct BacklogEntry {
    /// Device and task, joined.
    pub(in crate::admission) member: Member,
    /// When it was queued; unique within its device.
    pub(in crate::admission) at: Timestamp,
}

impl BacklogEntry {
    /// Returns the sort key: device, time and task.
    fn parts(&self) -> (&[u8], Timestamp, &[u8]) {
        let (device, task) = device_and_task(&self.member);
        (device, self.at, task)
    }
}

impl Ord for BacklogEntry {
    fn cmp(&self, other: &BacklogEntry) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialOrd for BacklogEntry {
    fn partial_cmp(&self, other: &BacklogEntry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Backlog {
    /// Adds a task.
    pub(super) fn add(&mut self, member: &Member, at: Timestamp) {
        self.lines.insert(BacklogEntry { member: member.clone(), at });
    }

    /// Removes a task, if it is queued.
    pub(super) fn remove(&mut self, member: &Member, at: Timestamp) {
        self.lines.remove(&BacklogEntry { member: member.clone(), at });
    }

    /// Returns the number of queued tasks.
    pub(in crate::admission) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the oldest queued task of a device.
    pub(in crate::admission) fn oldest(&self, device: &[u8]) -> Option<&BacklogEntry> {
        let first = self.lines.range(bound(device, 0)..).next();
        first.filter(|line| line.parts().0 == device)
    }

    /// Returns the newest queued task of a device.
    fn newest(&self, device: &[u8]) -> Option<&BacklogEntry> {
        let last = self.lines.range(..bound(device, u64::MAX)).next_back();
        last.filter(|line| line.parts().0 == device)
    }

    /// Returns the enqueue time of the next task of a device, later than all its other tasks.
    pub(in crate::admission) fn next_time(&self, device: &[u8], now: Timestamp) -> Timestamp {
        self.newest(device).map_or(now, |line| now.max(Timestamp(line.at.0 + 1)))
    }

    /// Returns the queued tasks after one, or all of them.
    pub(in crate::admission) fn after(
        &self,
        line: Option<&BacklogEntry>,
    ) -> impl Iterator<Item = &BacklogEntry> {
        let start = line.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.lines.range((start, std::ops::Bound::Unbounded))
    }

    /// Schedules a task for the sweeper, in place of its previous time.
    pub(in crate::admission) fn set_due(&mut self, member: &Member, due: Timestamp) {
        self.clear_due(member);
        self.touched.record(&[member]);
        self.due.insert((due, member.clone()));
        self.due_of.insert(member.clone(), due);
    }

    /// Returns the scheduled time of a task.
    pub(super) fn due_of(&self, member: &[u8]) -> Option<Timestamp> {
        self.due_of.get(member).copied()
    }

    /// Removes a task from the schedule.
    pub(in crate::admission) fn clear_due(&mut self, member: &[u8]) {
        if let Some((member, due)) = self.due_of.remove_pair(member).map(|pair| *pair) {
            self.touched.record(&[&member]);
            self.due.remove(&(due, member));
        }
    }

    /// Returns the scheduled tasks in order of time, after one or all of them.
    pub(in crate::admission) fn due(
        &self,
        after: Option<(Timestamp, &[u8])>,
    ) -> impl Iterator<Item = &(Timestamp, Member)> {
        let (time, member) = after.unwrap_or_default();
        let from = (time, Member::from(member));
        // If the given entry is no longer scheduled, start at the first entry with its time.
        let is_there = self.due.contains(&from);
        let start = if is_there { from } else { (time, Member::from(&[][..])) };
        self.due.range(start..).skip(usize::from(is_there))
    }
}

/// Returns a position before (`at` = 0) or after (`at` = max) all tasks of a device.
fn bound(device: &[u8], at: u64) -> BacklogEntry {
    BacklogEntry { member: [device, &[SEPARATOR]].concat().into(), at: Timestamp(at) }
}

/// Splits a member into device and task.
pub(in crate::admission) fn device_and_task(member: &[u8]) -> (&[u8], &[u8]) {
    let at = member.iter().position(|byte| *byte == SEPARATOR).unwrap_or(member.len());
    (&member[..at], member.get(at + 1..).unwrap_or_default())
}
