//! `GetLock`: reads who holds a lock and how many wait.

use bytes::Bytes;

use super::{Lease, Lock, unknown_status};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
    waiting,
};

/// Names a lock.
#[derive(Debug, Clone)]
pub struct GetLock {
    /// The lock.
    pub name: Name,
}

/// A lock as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockView {
    /// Who holds it.
    pub holder: Option<Holder>,
    /// How many calls wait.
    pub waiters: u64,
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The owner.
    pub owner: Bytes,
    /// Its lease.
    pub lease: Lease,
}

impl Decision for GetLock {
    type State = Lock;
    type Outcome = LockView;

    const SCRIPT: &'static Script = &script::GET_LOCK;

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"lock"]);
        waiting::push_keys(call);
    }

    fn parse(reply: &mut Reply) -> Result<LockView, Error> {
        let (status, waiters) = (reply.number()?, reply.number()?);
        let holder = match status {
            0 => None,
            1 => {
                let lease = Lease::parse(reply)?;
                Some(Holder { lease, owner: reply.bytes()?.into() })
            }
            status => return unknown_status(status),
        };
        Ok(LockView { holder, waiters })
    }

    fn decide(&self, lock: &mut Lock, now: Timestamp) -> LockView {
        let holder = lock
            .holder(now)
            .map(|held| Holder { owner: Bytes::copy_from_slice(&held.owner), lease: held.lease });
        let free = lock.free(now);
        LockView { holder, waiters: waiting::count(&mut lock.queue, free, now) }
    }
}
