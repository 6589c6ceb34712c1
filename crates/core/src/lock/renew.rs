//! `RenewLock`: extends the lease of an owner.

use super::{Lease, Lock, unknown_status};
use crate::{
    AsOf, Call, Decision, Outcomes, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    statuses,
    time::{Millis, Timestamp},
};

statuses! { RENEW_RENEWED = 0, RENEW_NOT_HELD = 1 }

/// Requests more time for a lock.
///
/// The new expiry is `lease_duration` from now, so a renewal can also shorten the lease. The lease
/// keeps its token and its time of grant. A length that is specified becomes the default of later
/// renewals.
///
/// An expired lease cannot be renewed, even if the lock is still free: another owner may have held
/// it in between. The owner must acquire it again, and gets a new token. A repeat extends the lease
/// again, which is safe.
#[derive(Debug, Clone)]
pub struct RenewLock {
    /// The lock.
    pub name: Name,
    /// The owner that holds the lock.
    pub owner: Name,
    /// The fencing token of the lease; `None` skips the comparison.
    pub token: Option<u64>,
    /// Length of the lease from now, [`LEASE_MIN`](super::LEASE_MIN) to
    /// [`LEASE_MAX`](super::LEASE_MAX); `None` for the previous length.
    pub lease_duration: Option<Millis>,
}

/// The answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The owner does not hold this lease; nothing changed.
    NotHeld,
    /// The lease runs until its new expiry, with the same token.
    Renewed(AsOf<Lease>),
}

impl Decision for RenewLock {
    type State = Lock;
    type Outcome = Renewal;

    const SCRIPT: &'static Script = &script::lock::RENEW;
    const PROPERTIES: Properties<RenewLock> = Properties {
        outcomes: Outcomes::new(&["renewed", "not_held"], |outcome| match outcome {
            Renewal::Renewed(_) => 0,
            Renewal::NotHeld => 1,
        }),
        ..Properties::FREES_CAPACITY
    };

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"lock"]);
        call.bytes(&[self.owner.as_bytes()]);
        call.optional(self.token);
        call.optional(self.lease_duration.map(|duration| duration.0));
    }

    fn parse(reply: &mut Reply) -> Result<Renewal, Error> {
        match reply.number()? {
            RENEW_RENEWED => Ok(Renewal::Renewed(Lease::parse(reply)?.at(reply.now()))),
            RENEW_NOT_HELD => Ok(Renewal::NotHeld),
            status => unknown_status(status),
        }
    }

    fn decide(&self, lock: &mut Lock, now: Timestamp) -> Renewal {
        let Some(tenure) = lock.held_by(self.owner.as_bytes(), self.token, now) else {
            return Renewal::NotHeld;
        };
        tenure.length = self.lease_duration.unwrap_or(tenure.length);
        tenure.lease.expire = now.after(tenure.length);
        let lease = tenure.lease;
        lock.disclosed = lease.token;
        Renewal::Renewed(lease.at(now))
    }
}
