//! `RenewLock`: extends the owner's lease.

use super::{Lease, Lock, unknown_status};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    error::Error,
    names::Name,
    script::{self, Script},
    time::{Millis, Timestamp},
};

/// Asks for more time.
#[derive(Debug, Clone)]
pub struct RenewLock {
    /// The lock.
    pub name: Name,
    /// Who holds it.
    pub owner: Name,
    /// The lease's fencing token; none is not compared.
    pub token: Option<u64>,
    /// How long the lease runs from now on; none for as long as last time.
    pub lease_duration: Option<Millis>,
}

/// Whether the lease goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The owner holds no such lease.
    NotHeld,
    /// It goes on, with the same token.
    Renewed(Lease),
}

impl Decision for RenewLock {
    type State = Lock;
    type Outcome = Renewal;

    const SCRIPT: &'static Script = &script::RENEW_LOCK;

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn frees_capacity(&self) -> bool {
        true
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"lock"]);
        call.bytes(&[self.owner.as_bytes()]);
        call.optional(self.token);
        call.optional(self.lease_duration.map(|duration| duration.0));
    }

    fn parse(reply: &mut Reply) -> Result<Renewal, Error> {
        match reply.number()? {
            0 => Ok(Renewal::Renewed(Lease::parse(reply)?)),
            1 => Ok(Renewal::NotHeld),
            status => unknown_status(status),
        }
    }

    fn decide(&self, lock: &mut Lock, now: Timestamp) -> Renewal {
        match lock.held_by(self.owner.as_bytes(), self.token, now) {
            None => Renewal::NotHeld,
            Some(tenure) => {
                tenure.length = self.lease_duration.unwrap_or(tenure.length);
                tenure.lease.expire = now.after(tenure.length);
                Renewal::Renewed(tenure.lease)
            }
        }
    }
}
