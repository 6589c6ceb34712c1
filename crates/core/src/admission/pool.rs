//! The state of one pool in the embedded engine.

mod backlog;
mod expiry;
mod export;
mod lines;
mod record;

use std::{collections::BTreeSet, mem};

use super::{
    Event, HOLDERS_MAX, Overrides, PoolUsage, QueueState, Settings, SlotHolders, Task, TaskState,
};
use crate::{
    Bin, ENTRY_BYTES, Footprint, State,
    collections::{ExpiryIndex, History, IncrementalMap, Member},
    record::Touched,
    time::Timestamp,
    waiting::{self, Queue, WakeUps},
};
use backlog::Backlog;
pub(super) use backlog::{BacklogEntry, device_and_task};
pub(super) use expiry::Oldest;
pub use lines::{PoolLine, TaskLine};

/// The forget time of a task in the queue: its record stays until it leaves the queue.
pub(super) const NEVER: Timestamp = Timestamp(u64::MAX);

/// A pool: its leases, its queued tasks, and its records of ended leases and results.
///
/// Each task has one record in `tasks`. A record is also in at most one of `leases` and `ended`.
/// The count of the pool is the number of entries of `leases` whose slot has not ended.
///
/// Decisions call `lapse` first: `in_use` and the iterators of leases are as of that time. They
/// change records by `put`, which also updates the indexes.
#[derive(Debug, Default)]
pub struct Pool {
    /// The run-time settings.
    pub(super) overrides: Overrides,
    /// The fencing token of the last grant; 0 before the first.
    pub(super) last_token: u64,
    /// The waiters; `None` while no call waits.
    pub(super) queue: Option<Box<Queue>>,
    /// The event history; `None` before the first event and after its retention.
    pub(super) events: Option<Box<History<Event>>>,
    /// A history after its retention, which is dropped in steps.
    lapsed_events: Option<Box<History<Event>>>,
    /// The queued tasks.
    pub(super) backlog: Backlog,
    /// The task records by member.
    tasks: IncrementalMap<Member, Task>,
    /// Leases by the end of their slot: running leases, and ended leases whose `Expired` event is
    /// not logged yet. Each is the last lease of its task record.
    leases: ExpiryIndex,
    /// Ended leases whose event is not logged yet and whose task already has a newer lease.
    replaced: BTreeSet<Lapsed>,
    /// Records without a lease in `leases`, by their forget time.
    ended: ExpiryIndex,
    /// The persisted parts that have changed.
    touched: Touched,
    /// The bytes of all task records.
    bytes: u64,
    /// The number of leases whose expiry the current decision has processed.
    expired: u32,
    /// Only during a restore.
    restoring: Option<Box<record::Restoring>>,
}

/// An ended lease: slot end, member, token and attempt.
type Lapsed = (Timestamp, Member, u64, u32);

/// Returns the bytes of a task record.
fn bytes_of(member: &[u8], task: &Task) -> u64 {
    ENTRY_BYTES + member.len() as u64 + task.bytes()
}

/// Returns the entry of a task whose lease has ended.
fn lapsed_of(member: &[u8], task: &Task) -> Lapsed {
    (task.slot_end, Member::from(member), task.lease.token, task.attempt())
}

impl Pool {
    /// Updates the count to `now`. Ended leases stay where they are until they are reclaimed, up to
    /// 100 at a time. Counting is cheap however many leases end at the same moment.
    pub(super) fn lapse(&mut self, now: Timestamp) {
        self.leases.count(now);
    }

    /// Returns the number of held slots at the last [`Pool::lapse`].
    pub(super) fn in_use(&self) -> u32 {
        self.leases.to_come() as u32
    }

    /// Returns the usage of the pool under the given settings.
    pub(super) fn usage(&self, settings: &Settings) -> PoolUsage {
        PoolUsage { capacity: settings.capacity, in_use: self.in_use() }
    }

    /// Returns the number of waiting calls.
    pub(super) fn count_waiters(&mut self, capacity: u32, now: Timestamp) -> u64 {
        let free = capacity.saturating_sub(self.in_use());
        waiting::count(&mut self.queue, free, now)
    }

    /// Wakes waiters after the number of free slots grew from `was_free`.
    pub(super) fn hand_on(&mut self, was_free: u32, capacity: u32, now: Timestamp) {
        let free = capacity.saturating_sub(self.in_use());
        waiting::hand_on(&mut self.queue, was_free, free, now);
    }

    /// Returns the record of a task, unless it is forgotten.
    pub(super) fn task(&self, member: &[u8], now: Timestamp) -> Option<&Task> {
        self.tasks.get(member).filter(|task| now < task.forget)
    }

    /// Loads the records of tasks into the processor's cache.
    pub(super) fn warm<T: AsRef<[u8]>>(&self, members: impl Iterator<Item = T>) {
        self.tasks.warm(members);
    }

    /// Returns the stored member and a copy of the record.
    pub(super) fn lookup(&self, member: &[u8], now: Timestamp) -> Option<(Member, Task)> {
        let (member, task) = self.tasks.get_key_value(member)?;
        (now < task.forget).then(|| (member.clone(), task.clone()))
    }

    /// Stores the record of a task in place of the previous one, and updates all indexes. Returns
    /// the stored member.
    pub(super) fn put(&mut self, member: &[u8], task: Task, now: Timestamp) -> Member {
        // Removes two forgotten records for each new one, so that they never accumulate.
        self.forget(now, 2, drop);
        let (holds_slot, slot_end, forget) = (task.holds_slot(now), task.slot_end, task.forget);
        let has_ended = task.state == TaskState::Leased && !holds_slot;
        let next = has_ended.then(|| lapsed_of(member, &task));
        let queued = task.queued.as_ref().map(|queued| (queued.standing, queued.at));
        self.bytes += bytes_of(member, &task);
        let (member, was) = self.tasks.set(member, task);
        if let Some(was) = &was {
            self.bytes -= bytes_of(&member, was);
        }
        let is_listed = was.is_some_and(|was| self.leave(&member, &was, next.as_ref(), now));
        self.touched.record(&[&[record::TASK], &member]);
        if is_listed || holds_slot {
            self.leases.insert(slot_end, member.clone());
        } else if forget != NEVER {
            self.ended.insert(forget, member.clone());
        }
        match queued {
            Some((QueueState::Queued, at)) => self.backlog.add(&member, at),
            Some(_) => self.backlog.set_due(&member, forget),
            None => {}
        }
        member
    }

    /// Marks the lease of a task as returned to another call, so that it is not revoked.
    pub(super) fn mark_disclosed(&mut self, member: &[u8]) {
        if let Some(task) = self.tasks.get_mut(member) {
            task.is_disclosed = true;
            self.touched.record(&[&[record::TASK], member]);
        }
    }

    /// Removes up to `budget` forgotten records; returns the number removed.
    fn forget(
        &mut self,
        now: Timestamp,
        budget: usize,
        mut gone: impl FnMut(Box<(Member, Task)>),
    ) -> usize {
        for forgotten in 0..budget {
            let Some((_, member)) = self.ended.pop(now) else { return forgotten };
            self.touched.record(&[&[record::TASK], &member]);
            if let Some(pair) = self.tasks.remove_pair(&member) {
                self.bytes -= bytes_of(&pair.0, &pair.1);
                gone(pair);
            }
        }
        budget
    }

    /// Removes the previous record of a task from all indexes. Returns true if its ended lease is
    /// also the lease of the new record and its event is not logged yet.
    fn leave(
        &mut self,
        member: &Member,
        was: &Task,
        next: Option<&Lapsed>,
        now: Timestamp,
    ) -> bool {
        if let Some(queued) = was.queued.as_ref().filter(|q| q.standing == QueueState::Queued) {
            self.backlog.remove(member, queued.at);
        }
        if was.state != TaskState::Leased || !self.leases.remove(was.slot_end, member) {
            self.ended.remove(was.forget, member);
            return false;
        }
        // The lease had not ended, so no expiry event is missing.
        if was.slot_end > now {
            return false;
        }
        // The old lease has ended, and its event is not logged yet.
        let lapsed = lapsed_of(member, was);
        if next == Some(&lapsed) {
            return true;
        }
        self.record_lapsed(&lapsed);
        self.replaced.insert(lapsed);
        false
    }

    /// Returns the leases that hold a slot, in order of slot end, after a position.
    pub(super) fn leases(
        &self,
        after: Option<(Timestamp, &[u8])>,
    ) -> impl Iterator<Item = (&[u8], &Task)> {
        let (end, member) = after.unwrap_or_default();
        let entries = self.leases.after(end, member);
        entries.filter_map(|(_, member)| Some((&**member, self.tasks.get(member)?)))
    }

    /// Returns the tasks that hold a slot; `None` if there are more than [`HOLDERS_MAX`].
    pub(super) fn holders(&self) -> Option<SlotHolders> {
        let members = self.leases(None).map(|(member, _)| member);
        (self.in_use() <= HOLDERS_MAX).then(|| SlotHolders::from_members(members))
    }

    /// Returns the slot end after which a full pool has a free slot: once it has passed, the pool
    /// holds one slot fewer than its capacity.
    pub(super) fn makes_room(&self, capacity: u32) -> Option<Timestamp> {
        let before = self.leases.to_come().checked_sub(capacity as usize)?;
        self.leases.nth(before).map(|(slot_end, _)| *slot_end)
    }

    /// Returns the next slot end that frees a slot, even if slots are already free; `None` if the
    /// pool has no slots or no leases.
    pub(super) fn next_free(&self, capacity: u32) -> Option<Timestamp> {
        let before = self.leases.to_come().saturating_sub(capacity as usize);
        self.leases.nth(before).filter(|_| capacity > 0).map(|(slot_end, _)| *slot_end)
    }

    /// Returns all task records, to compare engines in tests.
    pub fn tasks(&self, now: Timestamp) -> impl Iterator<Item = (&[u8], &Task)> {
        let known = self.tasks.iter().filter(move |(_, task)| now < task.forget);
        known.map(|(member, task)| (&**member, task))
    }
}

impl State for Pool {
    const CAPABILITY: &'static str = "admission";
    const IS_LISTED: bool = true;

    /// Drops forgotten records and an old history. Expired leases are left to [`super::SweepPool`],
    /// because their ends are events.
    fn sweep(&mut self, now: Timestamp, budget: usize, bin: &mut Bin) -> usize {
        self.lapse(now);
        if let Some(events) = self.events.take_if(|events| events.has_lapsed(now)) {
            self.touched.record(&[&[record::EVENT]]);
            self.lapsed_events = Some(events);
        }
        let forgotten = self.forget(now, budget, |known| bin.push(known));
        forgotten + History::release(&mut self.lapsed_events, budget - forgotten)
    }

    fn has_ended(&self, now: Timestamp) -> bool {
        !self.replaced.is_empty() || self.next_end().is_some_and(|end| end <= now)
    }

    fn footprint(&self) -> Footprint {
        let (leases, queued) = (self.leases.len() as u64, self.backlog.len() as u64);
        Footprint { leases, queued, bytes: self.bytes }
    }

    fn is_vacant(&self, now: Timestamp) -> bool {
        // The first token of a fresh state is the time, so the time must have passed the last
        // token.
        self.tasks.is_empty()
            && self.replaced.is_empty()
            && self.events.is_none()
            && self.lapsed_events.is_none()
            && self.overrides == Overrides::default()
            && self.last_token < now.0
            && self.queue.as_ref().is_none_or(|queue| queue.is_empty())
    }

    fn take_expired(&mut self) -> u64 {
        mem::take(&mut self.expired).into()
    }

    fn take_wake_ups(&mut self) -> WakeUps {
        waiting::take_wake_ups(&mut self.queue)
    }
}

#[cfg(test)]
mod tests;
