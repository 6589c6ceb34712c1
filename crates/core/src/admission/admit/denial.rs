//! The cached denial of a full pool.

use super::{Admission, AdmitDecision, AdmitTask};
use crate::{
    admission::{PoolUsage, Settings, SlotHolders, member},
    denial::{AffectsDenials, Deniable, Effect},
    time::{Millis, Timestamp},
    waiters::Proceed,
};

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

/// The longest and the shortest `retry_after` of a cached refusal of a pool whose holders are not known:
/// the task may hold a lease. The caller asks again soon, and the store decides then.
const RETRY_MAX: Millis = Millis(1000);
const RETRY_MIN: Millis = Millis(500);

impl AdmitTask {
    /// Whether a refusal may be cached: of calls that name a task and do not wait. A waiting call must
    /// reach the queue, and only the store knows the next queued task of a device.
    pub(super) fn is_cacheable(&self) -> bool {
        self.waiting.is_none() && self.task.is_some() && self.settings.denial_cache.0 > 0
    }

    /// Limits the `retry_after` of a cached refusal. Devices differ.
    fn soon(&self, retry_after: Millis) -> Millis {
        if retry_after > RETRY_MAX {
            Millis(RETRY_MIN.0 + self.seed() % (RETRY_MAX.0 - RETRY_MIN.0))
        } else {
            retry_after
        }
    }
}

impl Deniable for AdmitTask {
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
            AdmitDecision::Full { turn: Proceed::Refused, room_in, holders, .. }
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
        // Its lease is returned again.
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
        let (turn, holders) = (Proceed::Refused, None);
        let decision = AdmitDecision::Full { retry_after, turn, room_in, holders };
        Some(Admission { decision, usage: denial.usage })
    }
}

impl AffectsDenials for AdmitTask {
    /// A new lease invalidates cached denials, because it may expire before all others. Without an
    /// outcome, the effect assumes that a lease was granted.
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
