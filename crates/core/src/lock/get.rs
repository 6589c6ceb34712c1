//! `GetLock`: reads the holder of a lock and the number of waiters.

use bytes::Bytes;

use super::{Lease, Lock, unknown_status};
use crate::{
    AsOf, Call, Decision, Outcomes, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    statuses,
    time::Timestamp,
    waiting,
};

statuses! { GET_FREE = 0, GET_HELD = 1 }

/// Reads the view of a lock. Changes nothing but removes dead tickets from the queue.
///
/// A lock with an expired lease is free, although its record is stored for 5 minutes. The view can
/// be out of date as soon as it is read, so it must not decide whether to enter a critical section.
#[derive(Debug, Clone)]
pub struct GetLock {
    /// The lock.
    pub name: Name,
}

/// The view of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockView {
    /// The holder; `None` if the lock is free.
    pub holder: Option<Holder>,
    /// The number of waiting calls, on all servers.
    pub waiters: u64,
}

/// The holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The owner.
    pub owner: Bytes,
    /// The lease of the owner.
    pub lease: AsOf<Lease>,
}

impl Decision for GetLock {
    type State = Lock;
    type Outcome = LockView;

    const SCRIPT: &'static Script = &script::lock::GET;
    const PROPERTIES: Properties<GetLock> =
        Properties { outcomes: Outcomes::OK, ..Properties::DEFAULT };

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"lock"]);
        waiting::push_keys(call);
    }

    fn parse(reply: &mut Reply) -> Result<LockView, Error> {
        let (status, waiters) = (reply.number()?, reply.number()?);
        let holder = match status {
            GET_FREE => None,
            GET_HELD => {
                let lease = Lease::parse(reply)?.at(reply.now());
                Some(Holder { lease, owner: reply.text()?.into() })
            }
            status => return unknown_status(status),
        };
        Ok(LockView { holder, waiters })
    }

    fn decide(&self, lock: &mut Lock, now: Timestamp) -> LockView {
        let holder = lock
            .holder(now)
            .map(|held| (Bytes::copy_from_slice(&held.owner), held.lease.at(now)))
            .map(|(owner, lease)| Holder { owner, lease });
        let free = lock.free(now);
        LockView { holder, waiters: waiting::count(&mut lock.queue, free, now) }
    }
}
