//! `ReleaseLock`: ends the owner's lease.

use super::{Lock, state::RETENTION, unknown_status};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
    waiting,
};

/// Gives a lock back.
#[derive(Debug, Clone)]
pub struct ReleaseLock {
    /// The lock.
    pub name: Name,
    /// Who holds it.
    pub owner: Name,
    /// The lease's fencing token; none is not compared.
    pub token: Option<u64>,
}

/// Whether the lock was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The owner held no such lease.
    NotHeld,
    /// It was, by this call or the one that it repeats.
    Released,
}

impl Decision for ReleaseLock {
    type State = Lock;
    type Outcome = Release;

    const SCRIPT: &'static Script = &script::RELEASE_LOCK;

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn frees_capacity(&self) -> bool {
        true
    }

    fn settles(&self, outcome: &Release) -> bool {
        // Another one may have acquired it between the two tries.
        *outcome == Release::Released
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"lock"]);
        waiting::push_keys(call);
        call.bytes(&[self.owner.as_bytes()]);
        call.optional(self.token);
    }

    fn parse(reply: &mut Reply) -> Result<Release, Error> {
        match reply.number()? {
            0 => Ok(Release::Released),
            1 => Ok(Release::NotHeld),
            status => unknown_status(status),
        }
    }

    fn decide(&self, lock: &mut Lock, now: Timestamp) -> Release {
        let owner = self.owner.as_bytes();
        if let Some(tenure) = lock.held_by(owner, self.token, now) {
            tenure.lease.expire = now;
            tenure.is_released = true;
            waiting::hand_on(&mut lock.queue, 0, 1, now);
            return Release::Released;
        }
        let released = lock.last.as_ref().filter(|last| {
            last.is_released
                && now < last.lease.expire.after(RETENTION)
                && *last.owner == *owner
                && self.token.is_none_or(|token| token == last.lease.token)
        });
        if released.is_some() { Release::Released } else { Release::NotHeld }
    }
}
