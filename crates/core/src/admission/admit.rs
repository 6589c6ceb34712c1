//! `AdmitTask`: grants a lease to a named task, or to the oldest queued task of a device.

mod answer;
mod policy;

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;

pub use answer::{Admission, AdmitDecision, Dispatched};
pub use policy::FullPool;

use super::{
    EventKind, JoinedMember, Lease, Pool, PoolUsage, Settings, Task, TaskState, member,
    packed_duration,
    pool::{NEVER, Oldest, device_and_task},
    push_plain, push_pool_keys,
    settings::AfterFailover,
    task::ends,
    unknown_status,
};
use crate::{
    Allowance, Call, Cost, Decision, ENTRY_BYTES, Ends, Listing, Outcomes, PlainForm, Properties,
    Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    statuses,
    time::{Millis, Timestamp},
    waiting::{self, Proceed, WaitingCall, Waits},
};

statuses! {
    ADMIT_GRANTED = 0, ADMIT_REPLAYED = 1, ADMIT_FULL = 2, ADMIT_NO_TASK = 3, ADMIT_PAUSED = 4,
    ADMIT_FINISHED = 5, ADMIT_LIMITED = 6,
}

/// `retry_after` of a paused pool, in µs, before it is spread: 10 s. The end of the pause is
/// unknown.
const PAUSED_RETRY_MICROS: u64 = 10_000_000;
/// `retry_after` if a slot is free but belongs to a waiter, which will soon take it or lose its
/// ticket: 50 ms.
const KEPT_RETRY_MICROS: u64 = 50_000;
/// The smallest window over which `retry_after` is spread.
const SPREAD_MIN_MICROS: u64 = 50_000;
/// The largest window over which `retry_after` is spread.
const SPREAD_MAX_MICROS: u64 = 5_000_000;

/// Requests a slot for a task.
///
/// The decision, in this order:
/// 1. A running lease of the task is returned again, marked `replayed`. A repeat is therefore safe.
/// 2. A task with a result, or one that left the queue, is `AlreadyCompleted`.
/// 3. Without a task name and without a queued task the answer is `NoTask`.
/// 4. A pool that is paused or has capacity 0 answers `Paused`.
/// 5. A pool without a free slot for this caller answers `Full`. Waiters go before callers that do
///    not wait, unless the pool allows `barging`.
/// 6. Otherwise the task gets a new lease with a higher fencing token.
///
/// A task whose lease is within its grace keeps its slot, and gets a new lease in it.
///
/// A grant writes the lease, the task record, an event, and the last token. A refusal writes only
/// the ticket of a call that waits. Both may also log expiries, which do not affect the decision.
///
/// On Redis, a pool with `after_failover` `Hold` also answers `Paused` after a failover, for the
/// time of one lease and its grace. Leases that the new primary does not know may still run.
#[derive(Debug, Clone)]
pub struct AdmitTask {
    /// The pool: one external system.
    pub pool: Name,
    /// The device that would run the task.
    pub device: Name,
    /// The task; `None` requests the oldest queued task of the device.
    pub task: Option<Name>,
    /// Length of the lease: [`LEASE_MIN`](super::LEASE_MIN) to [`LEASE_MAX`](super::LEASE_MAX); `None`
    /// for the pool's setting.
    pub lease_duration: Option<Millis>,
    /// The pool's configured settings, without run-time overrides. Overrides are stored with the pool
    /// and apply in the decision.
    pub settings: Settings,
    /// The ticket of a call that waits.
    pub waiting: Option<WaitingCall>,
}

impl AdmitTask {
    /// Returns the same request with copied names, for a request that outlives its message.
    pub fn detached(self) -> AdmitTask {
        let (pool, device) = (self.pool.detached(), self.device.detached());
        let task = self.task.as_ref().map(Name::detached);
        AdmitTask { pool, device, task, ..self }
    }

    /// Returns the member of the named task. A report without a task gives an empty task name.
    fn member(&self) -> JoinedMember {
        member(&self.device, self.task.as_ref().map_or(&[], Name::as_bytes))
    }

    /// Returns the length of the lease by the request or the configured settings. A run-time
    /// override can make it different.
    fn length(&self) -> Millis {
        self.lease_duration.unwrap_or(self.settings.lease_duration)
    }

    /// Returns the length of a new lease, if it is shorter than [`AdmitTask::length`].
    fn ends_sooner(&self, admission: &Admission) -> Option<Millis> {
        match &admission.decision {
            AdmitDecision::Admitted { lease, replayed: false, .. } => {
                Some(lease.grant.until(lease.expire)).filter(|length| *length < self.length())
            }
            _ => None,
        }
    }

    /// Returns the script of the plain form: for a named task, without a wait or failover holds.
    fn plain_script(&self) -> Option<&'static Script> {
        let is_plain = self.task.is_some()
            && self.waiting.is_none()
            && self.settings.after_failover == AfterFailover::Admit;
        is_plain.then_some(&script::admission::ADMIT_PLAIN)
    }

    fn encode_plain(&self, call: &mut Call) {
        let member = self.member();
        push_plain(call, &member, &self.settings);
        let (lease_ms, seed) = (packed_duration(self.lease_duration), self.seed() as u32);
        let lists = u8::from(self.is_cacheable());
        call.bytes(&[&member, &[0], &lease_ms, &seed.to_le_bytes(), &[lists]]);
    }

    /// Returns a number that differs between devices, to spread their `retry_after`.
    fn seed(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.device.hash(&mut hasher);
        hasher.finish() >> 32
    }

    /// Spreads a wait over an additional eighth of it, between 50 ms and 5 s. Devices that are
    /// refused at the same time then do not retry at the same time, and no slot stays idle for
    /// long.
    fn spread(&self, wait_micros: u64, now: Timestamp) -> Millis {
        let window = (wait_micros / 8).clamp(SPREAD_MIN_MICROS, SPREAD_MAX_MICROS);
        Millis((wait_micros + (self.seed() + now.0) % window).div_ceil(1000))
    }

    /// Returns the oldest queued task of the device, if the call names no task.
    fn pick(
        &self,
        pool: &mut Pool,
        settings: &Settings,
        allowance: &mut Allowance,
        now: Timestamp,
    ) -> Oldest {
        match self.task {
            Some(_) => Oldest::None,
            None => pool.oldest_task(self.device.as_bytes(), settings, allowance, now),
        }
    }

    /// Returns the answer if it does not depend on a free slot: steps 1 to 4 of the decision.
    fn settled(
        &self,
        task: Option<&Task>,
        member: &[u8],
        settings: &Settings,
        now: Timestamp,
    ) -> Option<AdmitDecision> {
        let is_finished =
            |task: &Task| matches!(task.state, TaskState::Completed { .. }) || !task.is_open();
        match task {
            Some(task) if task.is_running(now) => Some(admitted(member, task, true, now)),
            Some(task) if is_finished(task) => Some(AdmitDecision::AlreadyCompleted),
            None if self.task.is_none() => Some(AdmitDecision::NoTask),
            _ if settings.paused || settings.capacity == 0 => {
                let retry_after = self.spread(PAUSED_RETRY_MICROS, now);
                Some(AdmitDecision::Paused { retry_after })
            }
            // This lease is in its grace and was the last attempt. The task leaves the queue when
            // the slot ends; until then the slot cannot pass to another task.
            Some(task) if task.holds_slot(now) && task.is_over(settings, now) => {
                let retry_after = self.spread(task.slot_end.0 - now.0, now);
                Some(AdmitDecision::full(retry_after, Proceed::Refused))
            }
            _ => None,
        }
    }

    /// Decides under the settings in force, after reclaiming ended leases within the allowance.
    fn rule(&self, pool: &mut Pool, settings: &Settings, now: Timestamp) -> AdmitDecision {
        const AGAIN: AdmitDecision = AdmitDecision::full(Millis(1), Proceed::Again);
        let mut allowance = Allowance::new();
        let ended = pool.reclaim(settings, &mut allowance, now) as u32;
        let waiter = self.member();
        let (picked, more) = match self.pick(pool, settings, &mut allowance, now) {
            Oldest::Task(member, task) => (Some((member, task)), false),
            oldest => (None, oldest == Oldest::More),
        };
        let (member, task) = match &picked {
            Some((member, task)) => (&**member, Some(task.clone())),
            None if self.task.is_some() => (&*waiter, pool.settle(&waiter, settings, now)),
            None => (&*waiter, None),
        };
        let (in_use, capacity) = (pool.in_use(), settings.capacity);
        // 1 if an earlier lease of the task holds a slot in its grace; the new lease reuses that
        // slot.
        let own = u32::from(task.as_ref().is_some_and(|task| task.holds_slot(now)));
        let mut answer =
            if more { Some(AGAIN) } else { self.settled(task.as_ref(), member, settings, now) };
        // Ended leases whose event is not logged yet still count against the capacity here. The
        // events alone must never show more leases than the capacity.
        let has_room = in_use - own < capacity;
        if ended > 0 && has_room && in_use - own + ended >= capacity {
            answer = answer.or(Some(AGAIN));
        }
        let free = capacity.saturating_sub(in_use);
        // A call that has its answer, or that reuses its slot, needs no ticket.
        let proceed = if answer.is_some() || own == 1 && has_room {
            if let (Some(queue), Some(waiting)) = (&mut pool.queue, &self.waiting) {
                queue.needs_no_turn(&waiter, waiting, free, &mut allowance, now);
            }
            Proceed::Now
        } else {
            let waiting = self.waiting.as_ref();
            let queue = &mut pool.queue;
            let barging = settings.barging;
            waiting::try_proceed(queue, &waiter, waiting, free, barging, &mut allowance, now)
        };
        if let Some(answer) = answer {
            // This call returns the lease of an earlier call, which may still be waiting for
            // replicas or whose caller may be gone. The earlier call must no longer revoke it.
            if answer.is_lease() && task.is_some_and(|task| !task.is_disclosed) {
                pool.mark_disclosed(member);
            }
            return answer;
        }
        if proceed != Proceed::Now {
            // `None` if a slot is free but belongs to a waiter.
            let room = pool.makes_room(capacity).map(|end| end.0 - now.0);
            let retry_after = self.spread(room.unwrap_or(KEPT_RETRY_MICROS), now);
            let holders = room.filter(|_| self.is_cacheable()).and_then(|_| pool.holders());
            return AdmitDecision::Full {
                retry_after,
                proceed,
                room_in: room.unwrap_or(0),
                holders,
            };
        }
        self.grant(pool, member, task, settings, now)
    }

    /// Grants a new lease. Its token is the time in µs, or one above the last token of the pool.
    fn grant(
        &self,
        pool: &mut Pool,
        member: &[u8],
        task: Option<Task>,
        settings: &Settings,
        now: Timestamp,
    ) -> AdmitDecision {
        if let Some(task) = task.as_ref().filter(|task| task.holds_slot(now)) {
            pool.log_task(EventKind::Expired, pool.interned(member), task, None, settings, now);
        }
        let expire = now.after(self.lease_duration.unwrap_or(settings.lease_duration));
        let lease = Lease { token: now.0.max(pool.last_token + 1), grant: now, expire };
        let (slot_end, forget) = ends(expire, settings.expiry_grace, settings.retention);
        pool.last_token = lease.token;
        // A new lease in the slot of an earlier lease must not be revoked: that would free the slot
        // while the earlier holder may still run.
        let is_disclosed = task.as_ref().is_some_and(|task| task.holds_slot(now));
        let mut queued = task.and_then(|task| task.queued);
        if let Some(queued) = &mut queued {
            queued.attempt += 1;
        }
        let forget = if queued.is_some() { NEVER } else { forget };
        let task = Task { lease, slot_end, forget, state: TaskState::Leased, is_disclosed, queued };
        let answer = admitted(member, &task, false, now);
        let member = pool.put(member, task.clone(), now);
        pool.log_task(EventKind::Admitted, member, &task, None, settings, now);
        waiting::tell_end(&mut pool.queue, slot_end, now);
        answer
    }
}

/// Returns the answer for a task that holds a lease.
fn admitted(member: &[u8], task: &Task, replayed: bool, now: Timestamp) -> AdmitDecision {
    let dispatched = task.queued.as_ref().map(|queued| {
        let task = Bytes::copy_from_slice(device_and_task(member).1);
        Box::new(Dispatched { task, payload: queued.payload.clone(), attempt: queued.attempt })
    });
    AdmitDecision::Admitted { lease: task.lease.at(now), replayed, dispatched }
}

impl Decision for AdmitTask {
    type State = Pool;
    type Outcome = Admission;

    const SCRIPT: &'static Script = &script::admission::ADMIT;
    const PROPERTIES: Properties<AdmitTask> = Properties::<Self> {
        listing: |admit| Listing::Held(Ends::After(admit.length())),
        ends_sooner: AdmitTask::ends_sooner,
        // Without a task name the answer may carry a payload, so the bound is higher.
        cost: |admit| Cost::from_micros(if admit.task.is_some() { 30 } else { 150 }),
        creates: |_| true,
        adds: |admit| match admit.task {
            Some(_) => ENTRY_BYTES + admit.member().len() as u64,
            None => 0,
        },
        outcomes: Outcomes::new(
            &["admitted", "full", "no_task", "paused", "already_completed", "limited"],
            |outcome: &Admission| match outcome.decision {
                AdmitDecision::Admitted { .. } => 0,
                AdmitDecision::Full { .. } => 1,
                AdmitDecision::NoTask => 2,
                AdmitDecision::Paused { .. } => 3,
                AdmitDecision::AlreadyCompleted => 4,
                AdmitDecision::Limited => 5,
            },
        ),
        is_unfinished: |outcome| AdmitTask::proceed(outcome) == Proceed::Again,
        fallback: Some(AdmitTask::FALLBACK),
        plain: Some(PlainForm {
            script: AdmitTask::plain_script,
            encode: AdmitTask::encode_plain,
            cost: |_| Cost::from_micros(12),
        }),
        ..Properties::DEFAULT
    }
    .caches_refusals()
    .revocable()
    .affects_denials()
    .grows()
    .issues()
    .warms();

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        let task = self.task.as_ref().map_or(&[][..], Name::as_bytes);
        push_pool_keys(call);
        waiting::push_tickets_key(call);
        call.key(&[b"task:", &self.member()]);
        self.settings.encode_shared(call);
        call.number(self.settings.barging.into());
        self.settings.encode_sighting(call);
        call.number(call.is_limited().into());
        call.bytes(&[self.device.as_bytes()]);
        call.bytes(&[task]);
        call.optional(self.lease_duration.map(|duration| duration.0));
        call.number(self.seed());
        waiting::push_waiting(call, self.waiting.as_ref());
        call.number(self.is_cacheable().into());
    }

    fn parse(reply: &mut Reply) -> Result<Admission, Error> {
        let status = reply.number()?;
        let usage = PoolUsage::parse(reply)?;
        let decision = match status {
            ADMIT_GRANTED | ADMIT_REPLAYED => AdmitDecision::Admitted {
                lease: Lease::parse(reply)?.at(reply.now()),
                replayed: status == ADMIT_REPLAYED,
                dispatched: Dispatched::parse(reply)?,
            },
            ADMIT_FULL => AdmitDecision::parse_full(reply)?,
            ADMIT_NO_TASK => AdmitDecision::NoTask,
            ADMIT_PAUSED => AdmitDecision::Paused { retry_after: Millis(reply.number()?) },
            ADMIT_FINISHED => AdmitDecision::AlreadyCompleted,
            ADMIT_LIMITED => AdmitDecision::Limited,
            status => return unknown_status(status),
        };
        Ok(Admission { decision, usage })
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> Admission {
        pool.lapse(now);
        let settings = self.settings.under(&pool.overrides);
        let decision = self.rule(pool, &settings, now);
        Admission { decision, usage: pool.usage(&settings) }
    }
}
