//! The rules that callers of a pool may rely on.

use tollgate_core::admission::{
    Admission, AdmitDecision, CancelVerdict, Cancellation, CompleteVerdict, EnqueueStatus,
    EvictVerdict, Lease, LeasePage, RenewVerdict, RequeueVerdict,
};

use super::{Answer, Ask, Known, Pool, QueueState, Queued, RETENTION, State, Task};
use crate::capability::{Checked, holds, text};

impl Pool {
    pub(super) fn checked(&mut self, ask: &Ask, answer: &Answer, now: u64) -> Checked {
        match (ask, answer) {
            (Ask::Admit { device, task, length }, Answer::Admitted(answer)) => {
                self.admitted((*device, *task, *length), answer, now)?;
                self.used(answer.usage, now)
            }
            (Ask::Complete { task, token, is_done }, Answer::Completed(answer)) => {
                let expected = self.complete(*task, *token, *is_done, now);
                holds(answer.verdict == expected, "the verdict of the result")?;
                self.used(answer.usage, now)
            }
            (Ask::Renew { task, token, length }, Answer::Renewed(answer)) => {
                self.renewed(*task, *token, (*length, answer), now)
            }
            (Ask::Evict(task), Answer::Evicted(answer)) => {
                holds(*answer == self.evict(*task, now), "the verdict of the eviction")
            }
            (Ask::Enqueue(task), Answer::Enqueued(answer)) => {
                holds(*answer == self.enqueue(*task, now), "the status of the queued task")
            }
            (Ask::Cancel(task), Answer::Cancelled(answer)) => {
                holds(*answer == self.cancel(*task, now), "the verdict of the cancellation")
            }
            (Ask::Requeue(task), Answer::Requeued(answer)) => {
                holds(*answer == self.requeue(*task, now), "the verdict of the requeue")
            }
            (Ask::Configure { capacity, is_paused }, Answer::View(view)) => {
                (self.capacity, self.is_paused) = (*capacity, *is_paused);
                holds(view.paused == *is_paused, "the view has the paused setting")?;
                self.used(view.usage, now)
            }
            (_, Answer::View(view)) => {
                let queued = self.tasks.values().filter(|task| task.is_queued());
                let is_open = |task: &&Known| !task.is_over() || task.holds_slot(now);
                let least = queued.filter(is_open).count() as u64;
                holds(view.queued >= least, "no queued task is lost")?;
                self.used(view.usage, now)
            }
            (Ask::Events { after }, Answer::Events(page)) => self.events.follow(*after, page),
            (_, Answer::Leases(page)) => self.listed(page, now),
            (_, Answer::Swept(_)) => Ok(()),
            _ => Err("the answer belongs to the call"),
        }
    }

    fn listed(&self, page: &LeasePage, now: u64) -> Checked {
        let held = self.tasks.iter().filter(|(_, task)| task.holds_slot(now));
        let mut held: Vec<_> = held
            .map(|((device, task), known)| {
                (text('d', device), text('t', task), known.token, known.expire)
            })
            .collect();
        let named = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut listed: Vec<_> = page
            .leases
            .iter()
            .map(|it| (named(&it.device), named(&it.task), it.lease.token, it.lease.expire.0))
            .collect();
        held.sort();
        listed.sort();
        holds(held == listed, "the listing has exactly the held leases")
    }

    fn admitted(&mut self, ask: (u8, Option<u32>, u64), answer: &Admission, now: u64) -> Checked {
        let (device, task, length) = ask;
        let task = task.map(|task| (device, task)).or_else(|| self.oldest(device, now));
        let known = task.and_then(|task| self.known(task, now)).cloned();
        let own = known.as_ref().is_some_and(|known| known.holds_slot(now));
        let has_room = self.slots(now) - u32::from(own) < self.capacity;
        let is_finished = known.as_ref().is_some_and(|known| {
            known.state == State::Completed || known.queued.is_some() && !known.is_queued()
        });
        let running = known.as_ref().filter(|known| known.is_running(now));
        match (&answer.decision, task) {
            (AdmitDecision::Admitted { lease, replayed: true, dispatched }, Some(task)) => {
                let is_same = running.is_some_and(|known| {
                    (known.token, known.expire) == (lease.token, lease.expire.0)
                });
                holds(is_same, "a repeat gets the same lease")?;
                self.dispatched(task, dispatched.as_deref().map(|d| (&d.task[..], d.attempt)))
            }
            (AdmitDecision::Admitted { lease, replayed: false, dispatched }, Some(task)) => {
                holds(running.is_none(), "a running task gets no second lease")?;
                holds(!is_finished, "a finished task is not run again")?;
                holds(has_room, "never above the capacity")?;
                holds(!self.is_paused, "a paused pool admits no task")?;
                self.grant(task, lease, (known, length), now)?;
                self.dispatched(task, dispatched.as_deref().map(|d| (&d.task[..], d.attempt)))
            }
            (AdmitDecision::AlreadyCompleted, _) => holds(
                is_finished && running.is_none(),
                "ALREADY_COMPLETED only for a finished task",
            ),
            (AdmitDecision::NoTask, None) => Ok(()),
            (_, None) => Err("NO_TASK for a device without queued tasks"),
            _ if running.is_some() || is_finished => Err("a repeat gets the same answer"),
            (AdmitDecision::Paused { .. }, _) => holds(
                self.is_paused || self.capacity == 0,
                "PAUSED only for a paused pool or a capacity of 0",
            ),
            (AdmitDecision::Full { retry_after, .. }, _) => {
                let is_over = known.is_some_and(|known| own && known.is_over());
                holds(retry_after.0 > 0, "a refusal has retry_after")?;
                holds(is_over || !has_room, "FULL only if no slot is free")
            }
            _ => Err("the answer belongs to the call"),
        }
    }

    fn dispatched(&self, task: Task, dispatched: Option<(&[u8], u32)>) -> Checked {
        let queued = self.tasks.get(&task).and_then(|known| known.queued.as_ref());
        let Some(Queued { attempt, .. }) = queued else {
            return holds(dispatched.is_none(), "no task in the answer if none was queued");
        };
        let Some((name, told)) = dispatched else { return Err("the answer has the queued task") };
        holds(name == text('t', task.1).as_bytes(), "the oldest task of the device first")?;
        holds(*attempt <= super::MAX_ATTEMPTS, "no more attempts than allowed")?;
        holds(told == *attempt, "attempts rise by one")
    }

    fn grant(
        &mut self,
        task: Task,
        lease: &Lease,
        (known, length): (Option<Known>, u64),
        now: u64,
    ) -> Checked {
        holds(lease.token > self.last_token, "tokens grow")?;
        let expire = now + length * 1000;
        holds(
            (lease.grant.0, lease.expire.0) == (now, expire),
            "the lease has the requested length",
        )?;
        let (token, slot_end) = (lease.token, expire + self.grace);
        self.last_token = token;
        let mut queued = known.and_then(|known| known.queued);
        queued.iter_mut().for_each(|queued| queued.attempt += 1);
        let forget = if queued.is_some() { u64::MAX } else { slot_end + RETENTION };
        let (state, mentioned) = (State::Leased, self.step);
        let known = Known { state, token, expire, slot_end, forget, queued, mentioned };
        self.tasks.insert(task, known);
        Ok(())
    }

    fn complete(
        &mut self,
        task: Task,
        token: Option<u64>,
        is_done: bool,
        now: u64,
    ) -> CompleteVerdict {
        let Some(known) = self.known(task, now) else { return CompleteVerdict::Unknown };
        if known.state == State::New {
            return CompleteVerdict::Unknown;
        } else if token.is_some_and(|token| token != known.token) {
            return CompleteVerdict::StaleToken;
        } else if matches!(known.state, State::Completed | State::Failed) {
            return CompleteVerdict::AlreadyCompleted;
        }
        let in_time = known.is_running(now);
        let has_ended = known.state == State::Leased && !known.holds_slot(now);
        let Some(known) = self.tasks.get_mut(&task) else { return CompleteVerdict::Unknown };
        if has_ended && known.is_over() {
            known.leave(QueueState::Dead, now);
        }
        if known.queued.is_some() && !is_done {
            known.state = State::Failed;
            if known.is_over() {
                known.leave(QueueState::Dead, now);
            }
        } else {
            (known.state, known.queued, known.forget) = (State::Completed, None, now + RETENTION);
        }
        if in_time { CompleteVerdict::Completed } else { CompleteVerdict::Late }
    }

    fn renewed(
        &mut self,
        task: Task,
        token: Option<u64>,
        (length, answer): (u64, &RenewVerdict),
        now: u64,
    ) -> Checked {
        let grace = self.grace;
        let is_known = self.known(task, now).is_some_and(|known| known.state != State::New);
        let Some(known) = self.tasks.get_mut(&task).filter(|_| is_known) else {
            return holds(*answer == RenewVerdict::Unknown, "UNKNOWN for an unknown task");
        };
        let is_stale = token.is_some_and(|token| token != known.token);
        let is_done = matches!(known.state, State::Completed | State::Failed);
        match answer {
            RenewVerdict::StaleToken => {
                holds(is_stale, "STALE_TOKEN only for a token of another lease")
            }
            _ if is_stale => Err("STALE_TOKEN for a token of another lease"),
            RenewVerdict::Completed => holds(is_done, "COMPLETED only for a task with a result"),
            _ if is_done => Err("COMPLETED for a task with a result"),
            RenewVerdict::Expired => {
                holds(!known.holds_slot(now), "EXPIRED only after the end of the lease")
            }
            RenewVerdict::Renewed(lease) => {
                holds(known.holds_slot(now), "an ended lease is not renewed")?;
                known.expire = now + length * 1000;
                known.slot_end = known.expire + grace;
                let is_kept = known.queued.is_some() && known.is_queued();
                known.forget = if is_kept { u64::MAX } else { known.slot_end + RETENTION };
                let is_same = (lease.token, lease.expire.0) == (known.token, known.expire);
                holds(is_same, "a renewal keeps the token and sets the end")
            }
            RenewVerdict::Unknown => Err("UNKNOWN only for an unknown task"),
        }
    }

    fn evict(&mut self, task: Task, now: u64) -> EvictVerdict {
        let is_known = self.known(task, now).is_some_and(|known| known.state != State::New);
        let Some(known) = self.tasks.get_mut(&task).filter(|_| is_known) else {
            return EvictVerdict::Unknown;
        };
        if known.state == State::Evicted {
            return EvictVerdict::Evicted { replayed: true };
        } else if !known.holds_slot(now) {
            return EvictVerdict::Ended;
        }
        known.state = State::Evicted;
        if known.is_over() {
            known.leave(QueueState::Dead, now);
        } else if known.queued.is_none() {
            known.forget = now + RETENTION;
        }
        EvictVerdict::Evicted { replayed: false }
    }

    fn enqueue(&mut self, task: Task, now: u64) -> EnqueueStatus {
        if self.known(task, now).is_some() {
            return EnqueueStatus::Duplicate;
        }
        self.places += 1;
        let (standing, place) = (QueueState::Queued, self.places);
        let known = Known {
            state: State::New,
            token: 0,
            expire: 0,
            slot_end: 0,
            forget: u64::MAX,
            queued: Some(Queued { standing, attempt: 0, place }),
            mentioned: self.step,
        };
        self.tasks.insert(task, known);
        EnqueueStatus::Enqueued
    }

    fn cancel(&mut self, task: Task, now: u64) -> Cancellation {
        let answer = |verdict, replayed| Cancellation { verdict, replayed };
        let is_known = self.known(task, now).is_some();
        let Some(known) = self.tasks.get_mut(&task).filter(|_| is_known) else {
            return answer(CancelVerdict::Unknown, false);
        };
        if known.state == State::Completed {
            return answer(CancelVerdict::Completed, false);
        }
        let Some(standing) = known.queued.as_ref().map(|queued| queued.standing) else {
            return answer(CancelVerdict::Unknown, false);
        };
        let holds_slot = known.holds_slot(now);
        let verdict = if holds_slot { CancelVerdict::Running } else { CancelVerdict::Cancelled };
        if standing != QueueState::Cancelled {
            known.leave(QueueState::Cancelled, now);
        }
        answer(verdict, standing == QueueState::Cancelled)
    }

    fn requeue(&mut self, task: Task, now: u64) -> RequeueVerdict {
        let (is_known, place) = (self.known(task, now).is_some(), self.places + 1);
        let Some(known) = self.tasks.get_mut(&task).filter(|_| is_known) else {
            return RequeueVerdict::Unknown;
        };
        if known.state == State::Completed {
            return RequeueVerdict::NotDead;
        }
        if known.is_over() && !known.holds_slot(now) {
            known.leave(QueueState::Dead, now);
        }
        match known.queued.as_ref().map(|queued| queued.standing) {
            None => RequeueVerdict::Unknown,
            Some(QueueState::Queued) => RequeueVerdict::AlreadyQueued,
            Some(QueueState::Cancelled) => RequeueVerdict::NotDead,
            Some(QueueState::Dead) => {
                let standing = QueueState::Queued;
                known.queued = Some(Queued { standing, attempt: 0, place });
                known.forget = u64::MAX;
                self.places = place;
                RequeueVerdict::Requeued
            }
        }
    }
}
