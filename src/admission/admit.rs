//! `AdmitTask`: grants a task of a device a lease if its pool has room.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{
    AttendPool, Lease, Pool, Settings, Task, TaskState, Usage, member, pool::ends, unknown_status,
};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    error::Error,
    names::Name,
    script::{self, Script},
    time::{Millis, Timestamp},
    waiting::{self, Attend, Place, Turn, Waits},
};

const PAUSED_RETRY_MICROS: u64 = 10_000_000;
/// For a slot that is free, but kept for those that wait.
const KEPT_RETRY_MICROS: u64 = 50_000;
const SPREAD_MIN_MICROS: u64 = 50_000;
const SPREAD_MAX_MICROS: u64 = 5_000_000;

/// Asks for a slot.
#[derive(Debug, Clone)]
pub struct AdmitTask {
    /// The external system.
    pub pool: Name,
    /// The device that would run the task.
    pub device: Name,
    /// The task; none asks for the device's oldest queued one.
    pub task: Option<Name>,
    /// How long the lease runs; none for the pool's.
    pub lease_duration: Option<Millis>,
    /// The pool's configured settings.
    pub settings: Settings,
    /// The place it asks from, if it waits.
    pub place: Option<Place>,
}

/// The answer, and how full the pool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The answer.
    pub decision: AdmitDecision,
    /// The pool's use, this task included.
    pub usage: Usage,
}

/// Whether the task may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmitDecision {
    /// It may.
    Admitted {
        /// The lease it holds.
        lease: Lease,
        /// Whether an earlier call had been granted it.
        replayed: bool,
    },
    /// A result of it is on record.
    AlreadyCompleted,
    /// All slots are held, or kept for those that wait.
    Full {
        /// When to ask again; above 0.
        retry_after: Millis,
        /// Whether it waits for its turn.
        turn: Turn,
    },
    /// No task was named, and none is queued for the device.
    NoTask,
    /// The pool is paused or has no slots.
    Paused {
        /// When to ask again; above 0.
        retry_after: Millis,
    },
}

impl Admission {
    /// Whether the task may run.
    pub fn is_granted(&self) -> bool {
        matches!(self.decision, AdmitDecision::Admitted { .. })
    }
}

impl AdmitTask {
    fn member(&self) -> Vec<u8> {
        member(&self.device, self.task.as_ref().map_or(&[], Name::as_bytes))
    }

    /// Tells devices apart, so that those refused in one instant are spread.
    fn seed(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.device.hash(&mut hasher);
        hasher.finish() >> 32
    }

    /// What to wait, spread over an eighth of it: long waits that end together
    /// come back further apart, and no slot idles long for it.
    fn spread(&self, wait_micros: u64, now: Timestamp) -> Millis {
        let window = (wait_micros / 8).clamp(SPREAD_MIN_MICROS, SPREAD_MAX_MICROS);
        Millis((wait_micros + (self.seed() + now.0) % window).div_ceil(1000))
    }

    /// The answer that takes no free slot, if there is one, and whether the task still
    /// holds a slot of its own.
    fn settled(
        &self,
        task: Option<&Task>,
        settings: &Settings,
        now: Timestamp,
    ) -> (Option<AdmitDecision>, bool) {
        if let Some(task) = task {
            if let TaskState::Completed { .. } = task.state {
                return (Some(AdmitDecision::AlreadyCompleted), false);
            }
            if task.is_running(now) {
                let admitted = AdmitDecision::Admitted { lease: task.lease, replayed: true };
                return (Some(admitted), true);
            }
        }
        let refusal = if self.task.is_none() {
            Some(AdmitDecision::NoTask)
        } else if settings.paused || settings.capacity == 0 {
            let retry_after = self.spread(PAUSED_RETRY_MICROS, now);
            Some(AdmitDecision::Paused { retry_after })
        } else {
            None
        };
        // Within the grace: a task does not compete with itself.
        (refusal, task.is_some_and(|task| task.holds_slot(now)))
    }

    fn rule(&self, pool: &mut Pool, settings: &Settings, now: Timestamp) -> AdmitDecision {
        let member = self.member();
        let (in_use, capacity) = (pool.in_use(), settings.capacity);
        let (answer, is_own) = self.settled(pool.task(&member, now), settings, now);
        let free = capacity.saturating_sub(in_use);
        let turn = if answer.is_some() || is_own && in_use <= capacity {
            if let (Some(queue), Some(place)) = (&mut pool.queue, &self.place) {
                queue.needs_no_turn(&member, place, free, now);
            }
            Turn::Now
        } else {
            let place = self.place.as_ref();
            waiting::take_turn(&mut pool.queue, &member, place, free, settings.barging, now)
        };
        if let Some(answer) = answer {
            return answer;
        }
        if turn != Turn::Now {
            let room = pool.makes_room(capacity).map_or(KEPT_RETRY_MICROS, |end| end.0 - now.0);
            let retry_after = self.spread(room, now);
            return AdmitDecision::Full { retry_after, turn };
        }

        let expire = now.after(self.lease_duration.unwrap_or(settings.lease_duration));
        let lease = Lease { token: now.0.max(pool.last_token + 1), grant: now, expire };
        let (slot_end, forget) = ends(expire, settings.expiry_grace, settings.retention);
        pool.last_token = lease.token;
        pool.put(&member, Task { lease, slot_end, forget, state: TaskState::Leased }, now);
        AdmitDecision::Admitted { lease, replayed: false }
    }
}

impl Decision for AdmitTask {
    type State = Pool;
    type Outcome = Admission;

    const SCRIPT: &'static Script = &script::ADMIT_TASK;

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn listing(&self) -> Listing {
        // Asking for a queued task grants nothing yet.
        if self.task.is_some() { Listing::Held } else { Listing::Same }
    }

    fn encode(&self, call: &mut Call) {
        let member = self.member();
        call.key(&[b"settings"]);
        call.key(&[b"token"]);
        call.key(&[b"task:", &member]);
        call.key(&[b"leases"]);
        waiting::push_keys(call);
        call.bytes(&[&member]);
        call.optional(self.lease_duration.map(|duration| duration.0));
        call.number(self.seed());
        call.number(self.task.is_some().into());
        self.settings.encode(call);
        call.number(self.settings.retention.0);
        call.number(self.settings.barging.into());
        waiting::push_place(call, self.place.as_ref());
    }

    fn parse(reply: &mut Reply) -> Result<Admission, Error> {
        let status = reply.number()?;
        let usage = Usage::parse(reply)?;
        let decision = match status {
            0 => AdmitDecision::Admitted { lease: Lease::parse(reply)?, replayed: false },
            1 => AdmitDecision::Admitted { lease: Lease::parse(reply)?, replayed: true },
            2 => {
                let retry_after = Millis(reply.number()?);
                AdmitDecision::Full { retry_after, turn: Turn::parse(reply.number()?) }
            }
            3 => AdmitDecision::NoTask,
            4 => AdmitDecision::Paused { retry_after: Millis(reply.number()?) },
            5 => AdmitDecision::AlreadyCompleted,
            status => return unknown_status(status),
        };
        Ok(Admission { decision, usage })
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> Admission {
        pool.reclaim(now);
        let settings = self.settings.under(&pool.overrides);
        let decision = self.rule(pool, &settings, now);
        Admission { decision, usage: pool.usage(&settings) }
    }
}

impl Waits for AdmitTask {
    type Attend = AttendPool;

    fn place(&mut self) -> &mut Option<Place> {
        &mut self.place
    }

    fn waiter(&self) -> Vec<u8> {
        self.member()
    }

    fn attend(&self, attend: Attend) -> AttendPool {
        AttendPool { pool: self.pool.clone(), settings: self.settings, attend }
    }

    fn turn(outcome: &Admission) -> Turn {
        match outcome.decision {
            AdmitDecision::Full { turn, .. } => turn,
            _ => Turn::Now,
        }
    }

    fn frees_in(outcome: &Admission) -> Option<Millis> {
        match outcome.decision {
            AdmitDecision::Full { retry_after, .. } => Some(retry_after),
            AdmitDecision::Admitted { lease, .. } => Some(lease.grant.until(lease.expire)),
            _ => None,
        }
    }
}
