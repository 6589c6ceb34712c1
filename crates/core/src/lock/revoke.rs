//! `RevokeLock`: revokes a lease whose caller was gone before its answer was written.

use super::{Lock, unknown_status};
use crate::{
    Call, Decision, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    statuses,
    time::Timestamp,
    waiting,
};

statuses! { REVOKE_REVOKED = 0, REVOKE_STAYS = 1 }

/// Revokes the lease with this token, unless another call was answered with it.
///
/// The outcome is true if the lease does not hold the lock afterwards. A revoked lock is released,
/// and goes to the first waiter. A repeat gives the same outcome.
#[derive(Debug, Clone)]
pub struct RevokeLock {
    /// The lock.
    pub name: Name,
    /// The owner that was granted the lease.
    pub owner: Name,
    /// The fencing token of the lease.
    pub token: u64,
}

impl Decision for RevokeLock {
    type State = Lock;
    type Outcome = bool;

    const SCRIPT: &'static Script = &script::lock::REVOKE;
    const PROPERTIES: Properties<RevokeLock> = Properties::FREES_CAPACITY;

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"lock"]);
        waiting::push_keys(call);
        call.bytes(&[self.owner.as_bytes()]);
        call.number(self.token);
    }

    fn parse(reply: &mut Reply) -> Result<bool, Error> {
        match reply.number()? {
            REVOKE_REVOKED => Ok(true),
            REVOKE_STAYS => Ok(false),
            status => unknown_status(status),
        }
    }

    fn decide(&self, lock: &mut Lock, now: Timestamp) -> bool {
        let disclosed = lock.disclosed;
        let Some(tenure) = lock.held_by(self.owner.as_bytes(), Some(self.token), now) else {
            return true;
        };
        if disclosed == self.token {
            return false;
        }
        tenure.lease.expire = now;
        tenure.is_released = true;
        waiting::hand_on(&mut lock.queue, 0, 1, now);
        true
    }
}
