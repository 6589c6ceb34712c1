//! Which tasks are queued, by device and age, and when the sweeper has to see to some.

use std::{cmp::Ordering, collections::BTreeSet};

use super::Member;
use crate::{names::SEPARATOR, parted::Parted, record::Touched, time::Timestamp};

/// The queued tasks of a pool.
#[derive(Debug, Default)]
pub(in crate::admission) struct Backlog {
    lines: BTreeSet<Line>,
    /// When queued tasks expire, and others are forgotten.
    due: BTreeSet<(Timestamp, Member)>,
    due_of: Parted<Member, Timestamp>,
    /// Tasks that are to be seen to at another time, where pools are kept over a restart.
    pub(super) touched: Touched,
}

/// A queued task; those of a device stand together, in the order of their time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::admission) struct Line {
    /// Device and task.
    pub(in crate::admission) member: Member,
    /// When it was queued; unlike every other of its device.
    pub(in crate::admission) at: Timestamp,
}

impl Line {
    fn parts(&self) -> (&[u8], Timestamp, &[u8]) {
        let (device, task) = device_and_task(&self.member);
        (device, self.at, task)
    }
}

impl Ord for Line {
    fn cmp(&self, other: &Line) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialOrd for Line {
    fn partial_cmp(&self, other: &Line) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Backlog {
    pub(super) fn add(&mut self, member: &Member, at: Timestamp) {
        self.lines.insert(Line { member: member.clone(), at });
    }

    pub(super) fn remove(&mut self, member: &Member, at: Timestamp) {
        self.lines.remove(&Line { member: member.clone(), at });
    }

    /// How many tasks are queued.
    pub(in crate::admission) fn len(&self) -> usize {
        self.lines.len()
    }

    /// The oldest task of a device.
    pub(in crate::admission) fn oldest(&self, device: &[u8]) -> Option<&Line> {
        let first = self.lines.range(bound(device, 0)..).next();
        first.filter(|line| line.parts().0 == device)
    }

    /// The newest task of a device.
    pub(in crate::admission) fn newest(&self, device: &[u8]) -> Option<&Line> {
        let last = self.lines.range(..bound(device, u64::MAX)).next_back();
        last.filter(|line| line.parts().0 == device)
    }

    /// The tasks behind one, or all.
    pub(in crate::admission) fn after(&self, line: Option<&Line>) -> impl Iterator<Item = &Line> {
        let start = line.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.lines.range((start, std::ops::Bound::Unbounded))
    }

    /// Has a task seen to at a time.
    pub(in crate::admission) fn set_due(&mut self, member: &Member, due: Timestamp) {
        self.clear_due(member);
        self.touched.note(&[member]);
        self.due.insert((due, member.clone()));
        self.due_of.insert(member.clone(), due);
    }

    /// When a task has to be seen to.
    pub(super) fn due_of(&self, member: &[u8]) -> Option<Timestamp> {
        self.due_of.get(member).copied()
    }

    pub(in crate::admission) fn clear_due(&mut self, member: &[u8]) {
        if let Some((member, due)) = self.due_of.remove_pair(member).map(|pair| *pair) {
            self.touched.note(&[&member]);
            self.due.remove(&(due, member));
        }
    }

    /// The tasks that have to be seen to, the first to be first, behind one or all.
    pub(in crate::admission) fn due(
        &self,
        after: Option<(Timestamp, &[u8])>,
    ) -> impl Iterator<Item = &(Timestamp, Member)> {
        let (time, member) = after.unwrap_or_default();
        let from = (time, Member::from(member));
        // Where the entry itself is gone, go on from the first that is due with it.
        let is_there = self.due.contains(&from);
        let start = if is_there { from } else { (time, Member::from(&[][..])) };
        self.due.range(start..).skip(usize::from(is_there))
    }
}

/// Where a device's tasks begin, or end.
fn bound(device: &[u8], at: u64) -> Line {
    Line { member: [device, &[SEPARATOR]].concat().into(), at: Timestamp(at) }
}

/// The two names of a member.
pub(in crate::admission) fn device_and_task(member: &[u8]) -> (&[u8], &[u8]) {
    let at = member.iter().position(|byte| *byte == SEPARATOR).unwrap_or(member.len());
    (&member[..at], member.get(at + 1..).unwrap_or_default())
}
