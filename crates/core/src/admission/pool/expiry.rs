//! The ends of leases, attempts and queued tasks, and their events; the twin of
//! `lua/lib/expiry.lua` and of a part of `admit.lua`.
//!
//! An *expiry* happens at its time. It is *processed* later: by the next decision on the task, by a
//! grant, or by the sweeper. Processing logs events in order of slot end, as many as the allowance
//! permits, and removes expired tasks from the queue.
//!
//! Decisions compare times, so their answer does not depend on whether an expiry is processed. The
//! exception is a grant: it waits while the events, with the grant, would show more leases than the
//! capacity.

use bytes::Bytes;

use super::{Lapsed, Member, NEVER, Pool, lapsed_of, record};
use crate::{
    Allowance,
    admission::{Event, EventKind, Outcome, Overrides, QueueState, Settings, Task, TaskState},
    collections::History,
    time::Timestamp,
};

/// The queued task that a report without a task name gets.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::admission) enum Oldest {
    /// Undecided: the allowance is spent, and more tasks may have expired.
    More,
    /// The device has no queued task.
    None,
    /// The oldest queued task.
    Task(Member, Task),
}

impl Pool {
    /// Appends an event of a task's lease.
    pub(in crate::admission) fn log_task(
        &mut self,
        kind: EventKind,
        member: Member,
        task: &Task,
        outcome: Option<Outcome>,
        settings: &Settings,
        now: Timestamp,
    ) {
        let (token, attempt) = (task.lease.token, task.attempt());
        let capacity = (kind == EventKind::Admitted).then_some(settings.capacity);
        let event = Event { kind, token, attempt, outcome, capacity, time: now, member };
        self.log(event, settings);
    }

    /// Appends an event to the history. An expired task has token 0, an expired lease its token.
    pub(in crate::admission) fn log(&mut self, event: Event, settings: &Settings) {
        self.expired += u32::from(event.kind == EventKind::Expired && event.token > 0);
        let now = event.time;
        History::append(&mut self.events, event, settings.history, now);
    }

    /// Reclaims ended leases in order of slot end while the allowance lasts, and logs their
    /// expiry. Returns the number of ended leases that remain.
    pub(in crate::admission) fn reclaim(
        &mut self,
        settings: &Settings,
        allowance: &mut Allowance,
        now: Timestamp,
    ) -> usize {
        while !allowance.is_spent() {
            let Some(lapsed) = self.first_lapsed(now) else { break };
            self.record_lapsed(&lapsed);
            let (_, member, token, attempt) = lapsed;
            self.touched.record(&[&[record::TASK], &member]);
            self.log_expired(member.clone(), token, attempt, settings, now);
            let task = self.task(&member, now).filter(|task| task.lease.token == token);
            let over = task.filter(|task| task.is_over(settings, now)).cloned();
            allowance.spend_lease(over.is_some());
            if let Some(task) = over {
                self.end_attempt(&member, task, settings, now);
            }
        }
        self.replaced.len() + self.leases.len() - self.leases.to_come()
    }

    /// Removes the first ended lease from its index. The record of its task is forgotten at its own
    /// time.
    fn first_lapsed(&mut self, now: Timestamp) -> Option<Lapsed> {
        // Both indexes are sorted by slot end and member; take the earlier entry.
        let is_replaced = match (self.leases.first(), self.replaced.first()) {
            (Some((end, member)), Some(first)) => (&first.0, &first.1) <= (end, member),
            (_, first) => first.is_some(),
        };
        if is_replaced {
            return self.replaced.pop_first();
        }
        let (slot_end, member) = self.leases.pop(now)?;
        let task = self.tasks.get(&member)?;
        if task.forget != NEVER {
            self.ended.insert(task.forget, member.clone());
        }
        Some((slot_end, member, task.lease.token, task.attempt()))
    }

    /// Returns the member as stored in the record, to share its memory.
    pub(in crate::admission) fn interned(&self, member: &[u8]) -> Member {
        let known = self.tasks.get_key_value(member).map(|(member, _)| member.clone());
        known.unwrap_or_else(|| Member::from(member))
    }

    /// Appends the event of an expired lease or, with token 0, of an expired queued task.
    fn log_expired(
        &mut self,
        member: Member,
        token: u64,
        attempt: u32,
        settings: &Settings,
        now: Timestamp,
    ) {
        let (kind, outcome, capacity) = (EventKind::Expired, None, None);
        let event = Event { kind, token, attempt, outcome, capacity, time: now, member };
        self.log(event, settings);
    }

    /// Stores the end of an attempt without success. The task leaves the queue if it has expired or
    /// this was its last attempt.
    pub(in crate::admission) fn end_attempt(
        &mut self,
        member: &[u8],
        task: Task,
        settings: &Settings,
        now: Timestamp,
    ) {
        if !task.is_over(settings, now) {
            self.put(member, task, now);
            return;
        }
        if task.attempt() >= settings.max_attempts {
            self.log_task(EventKind::Dead, self.interned(member), &task, None, settings, now);
            self.leave_queue(member, task, QueueState::Dead, settings, now);
        } else {
            // Token 0: the task has expired, not its lease.
            self.log_expired(self.interned(member), 0, task.attempt(), settings, now);
            self.leave_queue(member, task, QueueState::Expired, settings, now);
        }
    }

    /// Removes a task from the queue with this standing. The record stays for the retention,
    /// counted from the end of its slot if it holds one.
    pub(in crate::admission) fn leave_queue(
        &mut self,
        member: &[u8],
        mut task: Task,
        standing: QueueState,
        settings: &Settings,
        now: Timestamp,
    ) {
        if let Some(queued) = &mut task.queued {
            queued.standing = standing;
            // Only RequeueTask, of dead tasks, reads the payload again; keep other records small.
            if standing != QueueState::Dead {
                queued.payload = Bytes::new();
            }
        }
        let known_from = if task.holds_slot(now) { task.slot_end } else { now };
        task.forget = known_from.after(settings.retention);
        self.put(member, task, now);
    }

    /// Ends a lease whose slot has ended: logs the expiry and ends the attempt.
    pub(in crate::admission) fn expire(
        &mut self,
        member: &[u8],
        task: Task,
        settings: &Settings,
        now: Timestamp,
    ) {
        self.leases.remove(task.slot_end, member);
        self.record_lapsed(&lapsed_of(member, &task));
        self.log_task(EventKind::Expired, self.interned(member), &task, None, settings, now);
        self.end_attempt(member, task, settings, now);
    }

    /// Whether a lease has ended with its grace and is not reclaimed yet.
    pub(in crate::admission) fn is_lapsed(&self, member: &[u8], task: &Task) -> bool {
        task.state == TaskState::Leased && self.leases.has_ended(task.slot_end, member)
    }

    /// Processes all expiries of one task: its lease, its expiry time and its attempts. Returns the
    /// record afterwards.
    pub(in crate::admission) fn settle(
        &mut self,
        member: &[u8],
        settings: &Settings,
        now: Timestamp,
    ) -> Option<Task> {
        let task = self.task(member, now)?.clone();
        if self.is_lapsed(member, &task) {
            self.expire(member, task, settings, now);
        } else if task.is_over(settings, now) && !task.holds_slot(now) {
            self.end_attempt(member, task, settings, now);
        } else {
            return Some(task);
        }
        self.task(member, now).cloned()
    }

    /// Returns the oldest queued task of the device, after expired ones are removed: at least one
    /// of them, more while the allowance lasts.
    pub(in crate::admission) fn oldest_task(
        &mut self,
        device: &[u8],
        settings: &Settings,
        allowance: &mut Allowance,
        now: Timestamp,
    ) -> Oldest {
        loop {
            let Some(line) = self.backlog.oldest(device) else { return Oldest::None };
            let member = line.member.clone();
            let task = self.settle(&member, settings, now);
            if let Some(task) = task.filter(Task::is_queued) {
                return Oldest::Task(member, task);
            }
            allowance.spend_task();
            if allowance.is_spent() {
                return Oldest::More;
            }
        }
    }

    /// Whether the pool has no queued task, override or waiter, so that a listing need not show it.
    pub(in crate::admission) fn is_unlisted(&self) -> bool {
        self.backlog.len() == 0
            && self.overrides == Overrides::default()
            && self.queue.as_ref().is_none_or(|queue| queue.is_empty())
    }

    /// Returns the next time at which a sweep has something to do.
    pub(in crate::admission) fn next_end(&self) -> Option<Timestamp> {
        let lease = self.leases.first().map(|(slot_end, _)| *slot_end);
        let due = self.backlog.due(None).next().map(|(due, _)| *due);
        lease.into_iter().chain(due).min()
    }
}
