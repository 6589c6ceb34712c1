//! What the engine does for AdmitTask in addition to asking the store: cached refusals, waiting
//! calls, acknowledgement by replicas, the limits of namespaces, and the fallback.
//!
//! The waiter is the task of a device. A device that reports without a task waits under an empty task
//! name; when a slot is free, its oldest queued task gets the slot.
//!
//! Leases that the fallback grants are known only to this server. Their tokens are readings of its
//! clock, so a lease that the store grants later has a higher token, as long as the clocks agree.

use super::{Admission, AdmitDecision, AdmitTask};
use crate::{
    Decision, Grows, Issues, Revocable, Revocation, Takes, Taking, Undo, UndoRule, Warms,
    acknowledgement::Acknowledgement,
    admission::{
        Catalog, HeartbeatPool, Pool, PoolUsage, RevokeReason, RevokeTask, Settings, SlotHolders,
        member,
    },
    denial::{AffectsDenials, Effect, RefusalCaching},
    fallback::{FallbackRule, OnStoreFailure},
    time::{Millis, Timestamp},
    waiting::{Heartbeat, Proceed, WaitingCall, Waits},
};

/// Bounds of `retry_after` in a cached refusal if the holders of the pool are unknown. The task may
/// itself hold a lease, so its caller is asked to retry soon, and the store then decides.
const RETRY_MAX: Millis = Millis(1000);
const RETRY_MIN: Millis = Millis(500);
/// `retry_after` of a refusal by the fallback.
const FALLBACK_RETRY: Millis = Millis(1000);

/// A pool that was full when the store answered.
#[derive(Debug)]
pub struct FullPool {
    /// The configured settings at that time. A call with other settings asks the store.
    settings: Settings,
    usage: PoolUsage,
    /// Time until the earliest lease frees a slot, in µs from then.
    room_in: u64,
    /// The holders at that time, if there are few.
    holders: Option<SlotHolders>,
}

impl AdmitTask {
    /// Whether a refusal of this call may be cached: only if it names a task and does not wait. A
    /// waiting call must reach the queue, and only the store knows the next queued task of a
    /// device.
    pub(super) fn is_cacheable(&self) -> bool {
        self.waiting.is_none() && self.task.is_some() && self.settings.denial_cache.0 > 0
    }

    /// Limits the `retry_after` of a cached refusal, to a value that differs between devices.
    fn soon(&self, retry_after: Millis) -> Millis {
        if retry_after > RETRY_MAX {
            Millis(RETRY_MIN.0 + self.seed() % (RETRY_MAX.0 - RETRY_MIN.0))
        } else {
            retry_after
        }
    }
}

impl RefusalCaching for AdmitTask {
    type Denial = FullPool;

    fn kind(&self) -> Option<u64> {
        self.is_cacheable().then_some(0)
    }

    fn member(&self) -> Option<Vec<u8>> {
        Some(AdmitTask::member(self).into_vec())
    }

    fn denial(&self, outcome: &Admission) -> Option<(FullPool, u64)> {
        match &outcome.decision {
            // Without `room_in` a slot is free and belongs to a waiter; that can change at any
            // moment.
            AdmitDecision::Full { proceed: Proceed::Refused, room_in, holders, .. }
                if *room_in > 0 =>
            {
                let (settings, usage) = (self.settings, outcome.usage);
                let (room_in, holders) = (*room_in, holders.clone());
                let full = FullPool { settings, usage, room_in, holders };
                Some((full, room_in.min(settings.denial_cache.micros())))
            }
            _ => None,
        }
    }

    fn deny(&self, denial: &FullPool, passed: u64, now: Timestamp) -> Option<Admission> {
        if denial.settings != self.settings {
            return None;
        }
        // The store returns the lease that the task already holds.
        let task = self.task.as_ref().map_or(&b""[..], |task| task.as_bytes());
        let may_hold = |holders: &SlotHolders| holders.may_contain(self.device.as_bytes(), task);
        if denial.holders.as_ref().is_some_and(may_hold) {
            return None;
        }
        let room_in = denial.room_in.saturating_sub(passed).max(1);
        let retry_after = match denial.holders {
            Some(_) => self.spread(room_in, now),
            None => self.soon(self.spread(room_in, now)),
        };
        let (proceed, holders) = (Proceed::Refused, None);
        let decision = AdmitDecision::Full { retry_after, proceed, room_in, holders };
        Some(Admission { decision, usage: denial.usage })
    }
}

impl AffectsDenials for AdmitTask {
    /// A new lease invalidates cached refusals, because it may expire before all others. Without an
    /// outcome, assumes that a lease was granted.
    fn effect(&self, outcome: Option<&Admission>) -> Effect {
        let (frees, member, length) = match outcome.map(|outcome| &outcome.decision) {
            Some(AdmitDecision::Admitted { lease, replayed, dispatched }) => {
                let task = dispatched.as_ref().map(|queued| member(&self.device, &queued.task));
                let member = task.unwrap_or_else(|| AdmitTask::member(self));
                (!replayed, member, lease.grant.until(lease.expire))
            }
            Some(_) => return Effect::default(),
            None => (true, AdmitTask::member(self), self.length()),
        };
        let length = Millis(length.0 + self.settings.expiry_grace.0);
        Effect { holds: Some((member.into_vec(), length)), ..Effect::frees(frees) }
    }
}

impl Waits for AdmitTask {
    type Heartbeat = HeartbeatPool;
    type Revoke = RevokeTask;
    type Rules = Catalog;

    fn waiting(&mut self) -> &mut Option<WaitingCall> {
        &mut self.waiting
    }

    fn follow(&mut self, rules: &Catalog) {
        self.settings = rules.settings(&self.pool);
    }

    fn waiter(&self) -> Vec<u8> {
        self.member().into_vec()
    }

    fn heartbeat(&self, heartbeat: Heartbeat) -> HeartbeatPool {
        HeartbeatPool { pool: self.pool.clone(), settings: self.settings, heartbeat }
    }

    fn revoke(&self, outcome: &Admission) -> Option<RevokeTask> {
        self.revocation(outcome, RevokeReason::Unreceived)
    }

    /// A call waits only after `Full`. In a paused pool it is answered immediately.
    fn proceed(outcome: &Admission) -> Proceed {
        match outcome.decision {
            AdmitDecision::Full { proceed, .. } => proceed,
            _ => Proceed::Now,
        }
    }

    /// After a grant, the time until the new lease ends, since it may be the first to end.
    fn frees_in(outcome: &Admission) -> Option<Millis> {
        match outcome.decision {
            AdmitDecision::Full { room_in, .. } if room_in > 0 => {
                Some(Millis(room_in.div_ceil(1000)))
            }
            AdmitDecision::Full { retry_after, .. } => Some(retry_after),
            AdmitDecision::Admitted { lease, .. } => Some(lease.grant.until(lease.expire)),
            _ => None,
        }
    }
}

impl Revocable for AdmitTask {
    /// Returns the acknowledgement that the settings of the pool require. A refusal does not wait
    /// for replicas, but a repeated lease does: replicas may not have acknowledged its grant yet.
    fn acknowledgement(&self) -> Acknowledgement {
        self.settings.acknowledgement
    }

    /// A new lease is revoked, so that its slot is free again. A repeated lease stays: only the
    /// call that got it first may revoke it.
    fn undo_rule(&self, prefix: &str) -> UndoRule {
        let (decision, prefix) = (self.clone(), prefix.to_owned());
        UndoRule::from_outcome::<AdmitTask>(move |admission| {
            match decision.revocation(admission, RevokeReason::Unacknowledged) {
                Some(revocation) => Undo::Revoke(Revocation::by(&revocation, &prefix)),
                None if admission.is_granted() => Undo::Stands,
                None => Undo::Counts,
            }
        })
    }
}

impl Grows for AdmitTask {
    const TAKES: Option<Takes> = Some(Takes::Lease);

    /// True for a task without a record that would get a lease.
    fn is_new(&self, pool: &Pool, now: Timestamp) -> bool {
        let member = self.member();
        let settings = self.settings.under(&pool.overrides);
        // A waiter is already stored. A caller that will be refused anyway gets the refusal
        // instead.
        let waits = pool.queue.as_ref().is_some_and(|queue| queue.contains(&member));
        let has_room = !settings.paused && pool.in_use() < settings.capacity;
        has_room && !waits && self.task.is_some() && pool.task(&member, now).is_none()
    }

    /// Returns a lease, unless the call is refused or its task already holds one.
    fn takes(&self, pool: &Pool, now: Timestamp) -> Option<Takes> {
        let settings = self.settings.under(&pool.overrides);
        // A caller that will be refused anyway gets the refusal instead.
        let has_room = !settings.paused && pool.in_use() < settings.capacity;
        let is_granted = match &self.task {
            // The lease that the task holds is returned again.
            Some(_) => {
                let known = pool.task(&self.member(), now);
                known.is_none_or(|task| !task.holds_slot(now) && task.is_open())
            }
            None => pool.backlog.oldest(self.device.as_bytes()).is_some(),
        };
        (has_room && is_granted).then_some(Takes::Lease)
    }

    fn taken(admission: &Admission) -> Taking {
        match admission.decision {
            AdmitDecision::Admitted { replayed: false, .. } => Taking::One,
            AdmitDecision::Limited => Taking::Limited,
            _ => Taking::Nothing,
        }
    }
}

impl Issues for AdmitTask {
    /// Raises the last token of the pool to `floor` for this decision.
    fn decide_above(&self, pool: &mut Pool, now: Timestamp, floor: Timestamp) -> Admission {
        let last = pool.last_token;
        let raised = last.max(floor.0);
        pool.last_token = raised;
        let admission = self.decide(pool, now);
        if pool.last_token == raised {
            // No lease was granted: restore the token.
            pool.last_token = last;
        }
        admission
    }
}

impl Warms for AdmitTask {
    fn warm(calls: &[AdmitTask], pool: &Pool) {
        pool.warm(calls.iter().map(AdmitTask::member));
    }
}

impl AdmitTask {
    pub(super) const FALLBACK: FallbackRule<AdmitTask> = FallbackRule {
        has_no_share: AdmitTask::has_no_share,
        ..FallbackRule::new(AdmitTask::on_store_failure, AdmitTask::refused, AdmitTask::for_one_of)
    };

    /// Only the store knows the queued tasks of a device.
    fn on_store_failure(&self) -> OnStoreFailure {
        match self.task {
            Some(_) => self.settings.on_store_failure,
            None => OnStoreFailure::Fail,
        }
    }

    /// Returns a full pool; how many leases it really has is unknown.
    fn refused(&self) -> Option<Admission> {
        let decision = AdmitDecision::full(FALLBACK_RETRY, Proceed::Refused);
        let capacity = self.settings.capacity;
        Some(Admission { decision, usage: PoolUsage { capacity, in_use: capacity } })
    }

    fn has_no_share(&self, replicas: u32) -> bool {
        self.settings.capacity > 0 && self.settings.for_one_of(replicas).capacity == 0
    }

    /// No call waits within a share.
    fn for_one_of(&self, replicas: u32) -> AdmitTask {
        AdmitTask { settings: self.settings.for_one_of(replicas), waiting: None, ..self.clone() }
    }
}
