//! What the embedded engine keeps of one pool.

mod archive;
mod backlog;
mod endings;
mod ends;
mod record;

use std::{collections::BTreeSet, sync::Arc};

use super::{Event, Overrides, Settings, Standing, Task, TaskState, Usage};
use crate::{
    decision::{Bin, State},
    events::History,
    parted::Parted,
    record::Touched,
    time::Timestamp,
    waiting::{self, Hints, Queue},
};
use backlog::Backlog;
pub(super) use backlog::{Line, device_and_task};
pub(super) use endings::Oldest;
use ends::Ends;

/// Device and task, joined; shared by the maps that hold it.
pub(super) type Member = Arc<[u8]>;

/// What is remembered until it is settled otherwise.
pub(super) const NEVER: Timestamp = Timestamp(u64::MAX);

/// A pool: its leases, its queued tasks, and what is remembered of ended ones.
#[derive(Debug, Default)]
pub struct Pool {
    pub(super) overrides: Overrides,
    pub(super) last_token: u64,
    pub(super) queue: Option<Box<Queue>>,
    pub(super) events: Option<Box<History<Event>>>,
    /// Those that have lapsed, and are dropped some at a time.
    lapsed_events: Option<Box<History<Event>>>,
    pub(super) backlog: Backlog,
    tasks: Parted<Member, Task>,
    /// Leases by the end of their slot: those that hold one, and those that have ended and
    /// whose end is no event yet. What is known of their tasks is these leases.
    leases: Ends,
    /// Leases that have ended, and whose end is no event yet, of which nothing else is known
    /// any more: their task has another one by now.
    replaced: BTreeSet<Lapsed>,
    /// Tasks without a slot, and whose lease is not above, by when they are forgotten.
    ended: Ends,
    /// Parts that have changed, where pools are kept over a restart.
    touched: Touched,
    restoring: Option<Box<record::Restoring>>,
}

/// A lease that has ended: of which task, its token and attempt.
type Lapsed = (Timestamp, Member, u64, u32);

impl Pool {
    /// Brings the count up to `now`. Leases that have ended stay where they are until they
    /// are reclaimed, some at a time: however many end together, to count them is little.
    pub(super) fn lapse(&mut self, now: Timestamp) {
        self.leases.count(now);
    }

    pub(super) fn in_use(&self) -> u32 {
        self.leases.to_come() as u32
    }

    pub(super) fn usage(&self, settings: &Settings) -> Usage {
        Usage { capacity: settings.capacity, in_use: self.in_use() }
    }

    /// How many calls wait.
    pub(super) fn count_waiters(&mut self, capacity: u32, now: Timestamp) -> u64 {
        let free = capacity.saturating_sub(self.in_use());
        waiting::count(&mut self.queue, free, now)
    }

    /// Tells those that wait of slots that became free since so many were.
    pub(super) fn hand_on(&mut self, was_free: u32, capacity: u32, now: Timestamp) {
        let free = capacity.saturating_sub(self.in_use());
        waiting::hand_on(&mut self.queue, was_free, free, now);
    }

    /// What is known of a task, if it is still to be known.
    pub(super) fn task(&self, member: &[u8], now: Timestamp) -> Option<&Task> {
        self.tasks.get(member).filter(|task| now < task.forget)
    }

    /// The same, and its name as it is kept.
    pub(super) fn known(&self, member: &[u8], now: Timestamp) -> Option<(Member, Task)> {
        let (member, task) = self.tasks.get_key_value(member)?;
        (now < task.forget).then(|| (member.clone(), task.clone()))
    }

    /// Puts a task on record in place of what was known of it; its name as it is kept.
    pub(super) fn put(&mut self, member: &[u8], task: Task, now: Timestamp) -> Member {
        // Two out for one in: what is to be forgotten never piles up.
        self.forget(now, 2, drop);
        let (holds_slot, slot_end, forget) = (task.holds_slot(now), task.slot_end, task.forget);
        let has_ended = task.state == TaskState::Leased && !holds_slot;
        let next = has_ended.then(|| endings::lapsed(member, &task));
        let queued = task.queued.as_ref().map(|queued| (queued.standing, queued.at));
        let (member, is_listed) = match self.tasks.get_key_value_mut(member) {
            Some((member, known)) => {
                let member = member.clone();
                let was = std::mem::replace(known, task);
                let is_listed = self.leave(&member, &was, next.as_ref(), now);
                (member, is_listed)
            }
            None => {
                let member = Member::from(member);
                self.tasks.add(member.clone(), task);
                (member, false)
            }
        };
        self.touched.note(&[&[record::TASK], &member]);
        if is_listed || holds_slot {
            self.leases.insert(slot_end, member.clone());
        } else if forget != NEVER {
            self.ended.insert(forget, member.clone());
        }
        match queued {
            Some((Standing::Queued, at)) => self.backlog.add(&member, at),
            Some(_) => self.backlog.set_due(&member, forget),
            None => {}
        }
        member
    }

    /// Notes that somebody was told of a task's lease.
    pub(super) fn note_told(&mut self, member: &[u8]) {
        if let Some(task) = self.tasks.get_mut(member) {
            task.is_told = true;
            self.touched.note(&[&[record::TASK], member]);
        }
    }

    /// Takes out records that are remembered no longer, at most `budget`; how many.
    fn forget(
        &mut self,
        now: Timestamp,
        budget: usize,
        mut gone: impl FnMut(Box<(Member, Task)>),
    ) -> usize {
        for forgotten in 0..budget {
            let Some((_, member)) = self.ended.pop(now) else { return forgotten };
            self.touched.note(&[&[record::TASK], &member]);
            self.tasks.remove_pair(&member).into_iter().for_each(&mut gone);
        }
        budget
    }

    /// Takes what was known of a task out of all rows. Whether its lease has ended, is the
    /// next one still, and is to be told of.
    fn leave(
        &mut self,
        member: &Member,
        was: &Task,
        next: Option<&Lapsed>,
        now: Timestamp,
    ) -> bool {
        if let Some(queued) = was.queued.as_ref().filter(|q| q.standing == Standing::Queued) {
            self.backlog.remove(member, queued.at);
        }
        if was.state != TaskState::Leased || !self.leases.remove(was.slot_end, member) {
            self.ended.remove(was.forget, member);
            return false;
        }
        if was.slot_end > now {
            return false;
        }
        let lapsed = endings::lapsed(member, was);
        if next == Some(&lapsed) {
            return true;
        }
        self.note_lapsed(&lapsed);
        self.replaced.insert(lapsed);
        false
    }

    /// The leases that hold a slot, the earliest to end first, from `after`.
    pub(super) fn leases(
        &self,
        after: Option<(Timestamp, &[u8])>,
    ) -> impl Iterator<Item = (&[u8], &Task)> {
        let (end, member) = after.unwrap_or_default();
        let entries = self.leases.after(end, member);
        entries.filter_map(|(_, member)| Some((&**member, self.tasks.get(member)?)))
    }

    /// The end of the slot that makes room when all are taken: once it has
    /// ended, one less than the capacity are held.
    pub(super) fn makes_room(&self, capacity: u32) -> Option<Timestamp> {
        let before = self.leases.to_come().checked_sub(capacity as usize)?;
        self.leases.nth(before).map(|(slot_end, _)| *slot_end)
    }

    /// The next end of a slot that frees one more, those included that are free already; none
    /// in a pool without slots.
    pub(super) fn next_free(&self, capacity: u32) -> Option<Timestamp> {
        let before = self.leases.to_come().saturating_sub(capacity as usize);
        self.leases.nth(before).filter(|_| capacity > 0).map(|(slot_end, _)| *slot_end)
    }

    /// All that is known of tasks, for comparing engines.
    pub fn tasks(&self, now: Timestamp) -> impl Iterator<Item = (&[u8], &Task)> {
        let known = self.tasks.iter().filter(move |(_, task)| now < task.forget);
        known.map(|(member, task)| (&**member, task))
    }
}

impl State for Pool {
    const CAPABILITY: &'static str = "admission";

    fn sweep(&mut self, now: Timestamp, budget: usize, bin: &mut Bin) -> usize {
        self.lapse(now);
        if let Some(events) = self.events.take_if(|events| events.has_lapsed(now)) {
            self.touched.note(&[&[record::EVENT]]);
            self.lapsed_events = Some(events);
        }
        let forgotten = self.forget(now, budget, |known| bin.push(known));
        forgotten + History::release(&mut self.lapsed_events, budget - forgotten)
    }

    fn has_ended(&self, now: Timestamp) -> bool {
        !self.replaced.is_empty() || self.next_end().is_some_and(|end| end <= now)
    }

    fn is_vacant(&self, now: Timestamp) -> bool {
        // A new state's first token is the time, so it must have passed the last.
        self.tasks.is_empty()
            && self.replaced.is_empty()
            && self.events.is_none()
            && self.lapsed_events.is_none()
            && self.overrides == Overrides::default()
            && self.last_token < now.0
            && self.queue.as_ref().is_none_or(|queue| queue.is_empty())
    }

    fn take_hints(&mut self) -> Hints {
        waiting::take_hints(&mut self.queue)
    }
}

#[cfg(test)]
mod tests;
