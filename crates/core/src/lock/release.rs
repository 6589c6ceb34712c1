//! `ReleaseLock`: ends the lease of an owner.

use super::{Lock, push_plain, state::RETENTION, unknown_status};
use crate::{
    Call, Cost, Decision, Outcomes, PlainForm, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    statuses,
    time::Timestamp,
    waiting,
};

statuses! { RELEASE_RELEASED = 0, RELEASE_NOT_HELD = 1 }

/// Releases a lock, which goes to the first waiter.
///
/// Only the holder with the right token can release a lock: any other call answers `NotHeld` and
/// changes nothing. Without a token, a late release of an earlier lease also ends a newer lease of
/// the same owner. An owner that can hold the lock more than once should pass the token.
///
/// A repeat within 5 minutes answers `Released`, unless the lock was acquired in between. The
/// release sets the expiry of the lease to now and wakes the first waiter. It grants nothing
/// itself.
#[derive(Debug, Clone)]
pub struct ReleaseLock {
    /// The lock.
    pub name: Name,
    /// The owner that releases the lock.
    pub owner: Name,
    /// The fencing token of the lease; `None` skips the comparison.
    pub token: Option<u64>,
}

/// The answer to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The owner does not hold this lease: it has expired, was released long ago, or was never
    /// granted; nothing changed.
    NotHeld,
    /// The lock is released, by this call or by an earlier one that it repeats.
    Released,
}

impl Decision for ReleaseLock {
    type State = Lock;
    type Outcome = Release;

    const SCRIPT: &'static Script = &script::lock::RELEASE;
    const PROPERTIES: Properties<ReleaseLock> = Properties {
        // `NotHeld` is ambiguous: another owner may have acquired the lock between the two
        // attempts.
        settles: |_, outcome| *outcome == Release::Released,
        outcomes: Outcomes::new(&["released", "not_held"], |outcome| match outcome {
            Release::Released => 0,
            Release::NotHeld => 1,
        }),
        plain: Some(PlainForm {
            script: |_| Some(&script::lock::RELEASE_PLAIN),
            encode: |release, call| push_plain(call, &release.owner, release.token.unwrap_or(0)),
            cost: |_| Cost::from_micros(12),
        }),
        ..Properties::FREES_CAPACITY
    };

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"lock"]);
        waiting::push_keys(call);
        call.bytes(&[self.owner.as_bytes()]);
        call.optional(self.token);
    }

    fn parse(reply: &mut Reply) -> Result<Release, Error> {
        match reply.number()? {
            RELEASE_RELEASED => Ok(Release::Released),
            RELEASE_NOT_HELD => Ok(Release::NotHeld),
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
        // A repeat: the last tenure is the one that the first attempt released.
        let released = lock.last.as_ref().filter(|last| {
            last.is_released
                && now < last.lease.expire.after(RETENTION)
                && *last.owner == *owner
                && self.token.is_none_or(|token| token == last.lease.token)
        });
        if released.is_some() { Release::Released } else { Release::NotHeld }
    }
}
