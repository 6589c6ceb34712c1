//! What the embedded engine keeps of one pool.

mod archive;
mod backlog;
mod endings;
mod record;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use super::{Event, Overrides, Settings, Standing, Task, TaskState, Usage};
use crate::{
    decision::State,
    events::History,
    record::Touched,
    time::Timestamp,
    waiting::{self, Hints, Queue},
};
use backlog::Backlog;
pub(super) use backlog::{Line, device_and_task};
pub(super) use endings::Oldest;

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
    pub(super) backlog: Backlog,
    tasks: HashMap<Member, Task>,
    /// Leases that hold a slot, by the end of it. Ended ones are taken out
    /// before every decision, so its length is the count.
    leases: BTreeSet<(Timestamp, Member)>,
    /// Leases that have ended, and whose end is no event yet.
    lapsed: BTreeSet<Lapsed>,
    /// Tasks without a slot, by when they are forgotten.
    ended: BTreeSet<(Timestamp, Member)>,
    /// Parts that have changed, where pools are kept over a restart.
    touched: Touched,
    restoring: Option<Box<record::Restoring>>,
}

/// A lease that has ended: of which task, its token and attempt.
type Lapsed = (Timestamp, Member, u64, u32);

impl Pool {
    /// Brings the count up to `now`. Each lease ends once, so the work is
    /// amortized over the grants.
    pub(super) fn lapse(&mut self, now: Timestamp) {
        self.lapse_some(now, usize::MAX);
    }

    /// The same of so many leases at most.
    fn lapse_some(&mut self, now: Timestamp, most: usize) {
        for _ in 0..most {
            if self.leases.first().is_none_or(|(slot_end, _)| *slot_end > now) {
                break;
            }
            if let Some((slot_end, member)) = self.leases.pop_first()
                && let Some(task) = self.tasks.get(&member)
            {
                self.lapsed.insert((slot_end, member.clone(), task.lease.token, task.attempt()));
                if task.forget != NEVER {
                    self.ended.insert((task.forget, member));
                }
            }
        }
    }

    pub(super) fn in_use(&self) -> u32 {
        self.leases.len() as u32
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

    /// Puts a task on record in place of what was known of it.
    pub(super) fn put(&mut self, member: &[u8], task: Task, now: Timestamp) {
        // Two out for one in: what is to be forgotten never piles up.
        self.forget(now, 2);
        let member = self.remove(member).unwrap_or_else(|| Member::from(member));
        self.touched.note(&[&[record::TASK], &member]);
        if task.holds_slot(now) {
            self.leases.insert((task.slot_end, member.clone()));
        } else if task.forget != NEVER {
            self.ended.insert((task.forget, member.clone()));
        }
        if let Some(queued) = &task.queued {
            match queued.standing {
                Standing::Queued => self.backlog.add(&member, queued.at),
                _ => self.backlog.set_due(&member, task.forget),
            }
        }
        self.tasks.insert(member, task);
    }

    /// Notes that somebody was told of a task's lease.
    pub(super) fn note_told(&mut self, member: &[u8]) {
        if let Some(task) = self.tasks.get_mut(member) {
            task.is_told = true;
            self.touched.note(&[&[record::TASK], member]);
        }
    }

    /// Drops records that are remembered no longer, at most `budget`.
    fn forget(&mut self, now: Timestamp, budget: usize) {
        for _ in 0..budget {
            match self.ended.first() {
                Some((forget, _)) if *forget <= now => {}
                _ => return,
            }
            if let Some((_, member)) = self.ended.pop_first() {
                self.touched.note(&[&[record::TASK], &member]);
                if let Some(task) = self.tasks.remove(&member) {
                    self.detach(&member, &task);
                }
            }
        }
    }

    /// A lease that has ended is to be told of still, though its task goes.
    fn detach(&mut self, member: &Member, task: &Task) {
        let entry = (task.slot_end, member.clone(), task.lease.token, task.attempt());
        if self.lapsed.contains(&entry) {
            self.note_lapsed(&entry);
        }
    }

    fn remove(&mut self, member: &[u8]) -> Option<Member> {
        let (member, task) = self.tasks.remove_entry(member)?;
        self.detach(&member, &task);
        if let Some(queued) = task.queued.as_ref().filter(|q| q.standing == Standing::Queued) {
            self.backlog.remove(&member, queued.at);
        }
        let entry = (task.slot_end, member);
        if task.state != TaskState::Leased || !self.leases.remove(&entry) {
            let entry = (task.forget, entry.1);
            self.ended.remove(&entry);
            return Some(entry.1);
        }
        Some(entry.1)
    }

    /// The leases that hold a slot, the earliest to end first, from `after`.
    pub(super) fn leases(
        &self,
        after: Option<(Timestamp, &[u8])>,
    ) -> impl Iterator<Item = (&[u8], &Task)> {
        // Where the lease itself is gone, go on from the first that ends with it.
        let (from, skip) = match after {
            None => ((Timestamp(0), Member::from(&[][..])), false),
            Some((slot_end, member)) => {
                let entry = (slot_end, Member::from(member));
                match self.leases.contains(&entry) {
                    true => (entry, true),
                    false => ((slot_end, Member::from(&[][..])), false),
                }
            }
        };
        let entries = self.leases.range(from..).skip(usize::from(skip));
        entries.filter_map(|(_, member)| Some((&**member, self.tasks.get(member)?)))
    }

    /// The end of the slot that makes room when all are taken: once it has
    /// ended, one less than the capacity are held.
    pub(super) fn makes_room(&self, capacity: u32) -> Option<Timestamp> {
        let capacity = capacity as usize;
        let before = self.leases.len().checked_sub(capacity)?;
        // From the nearer end; as a rule it is the very first.
        let entry = match before < capacity {
            true => self.leases.iter().nth(before),
            false => self.leases.iter().nth_back(capacity - 1),
        };
        entry.map(|(slot_end, _)| *slot_end)
    }

    /// All that is known of tasks, for comparing engines.
    pub fn tasks(&self, now: Timestamp) -> impl Iterator<Item = (&[u8], &Task)> {
        let known = self.tasks.iter().filter(move |(_, task)| now < task.forget);
        known.map(|(member, task)| (&**member, task))
    }
}

impl State for Pool {
    const CAPABILITY: &'static str = "admission";

    fn sweep(&mut self, now: Timestamp, budget: usize) {
        self.lapse_some(now, budget);
        self.forget(now, budget);
        if self.events.take_if(|events| events.has_lapsed(now)).is_some() {
            self.touched.note(&[&[record::EVENT]]);
        }
    }

    fn has_ended(&self, now: Timestamp) -> bool {
        !self.lapsed.is_empty() || self.next_end().is_some_and(|end| end <= now)
    }

    fn is_vacant(&self, now: Timestamp) -> bool {
        // A new state's first token is the time, so it must have passed the last.
        self.tasks.is_empty()
            && self.lapsed.is_empty()
            && self.events.is_none()
            && self.overrides == Overrides::default()
            && self.last_token < now.0
            && self.queue.as_ref().is_none_or(|queue| queue.is_empty())
    }

    fn take_hints(&mut self) -> Hints {
        waiting::take_hints(&mut self.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        admission::{Lease, task::ends},
        time::Millis,
    };

    fn leased(lease: Lease, slot_end: Timestamp, forget: Timestamp) -> Task {
        Task { lease, slot_end, forget, state: TaskState::Leased, is_told: false, queued: None }
    }

    #[test]
    fn what_is_to_be_forgotten_does_not_pile_up() {
        let mut pool = Pool::default();
        for second in 0..10_000u64 {
            let now = Timestamp(second * 1_000_000);
            let (expire, retention) = (now.after(Millis(500)), Millis::from_secs(60));
            let lease = Lease { token: now.0, grant: now, expire };
            let (slot_end, forget) = ends(expire, Millis(0), retention);
            pool.lapse(now);
            pool.reclaim(&Settings::default(), now);
            pool.put(&second.to_be_bytes(), leased(lease, slot_end, forget), now);
        }
        assert!(pool.tasks.len() < 70, "{} records", pool.tasks.len());
        assert!(pool.lapsed.len() < 2, "{} lapsed", pool.lapsed.len());
    }

    #[test]
    fn a_swept_pool_is_vacant() {
        let mut pool = Pool::default();
        let lease = Lease { token: 1, grant: Timestamp(1), expire: Timestamp(2) };
        for task in 0..10u8 {
            pool.put(&[task], leased(lease, Timestamp(3), Timestamp(10)), Timestamp(1));
        }
        pool.sweep(Timestamp(9), 100);
        assert!(!pool.is_vacant(Timestamp(9)) && pool.in_use() == 0);
        pool.sweep(Timestamp(10), 4);
        assert_eq!(pool.tasks.len(), 6);
        pool.sweep(Timestamp(10), 100);
        assert!(!pool.is_vacant(Timestamp(10)), "no event tells of the ends yet");
        pool.reclaim(&Settings::default(), Timestamp(10));
        let forgotten = Timestamp(10).after(crate::events::KEPT);
        pool.sweep(forgotten, 100);
        assert!(pool.is_vacant(forgotten));
    }
}
