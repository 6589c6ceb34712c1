//! `AttendLock`: the heartbeat of a server for its waiters in the queue of a lock.

use super::{Lock, unknown_status};
use crate::decision::{
    Call, Decision, Listing, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
    waiters::{self, Attend, Attendance},
};

/// A heartbeat for the queue of a lock.
///
/// Keeps the server's tickets alive, removes dead tickets, and returns the server's waiter that may
/// proceed. A repeat is safe.
#[derive(Debug, Clone)]
pub struct AttendLock {
    /// The lock.
    pub name: Name,
    /// The heartbeat.
    pub attend: Attend,
}

impl Decision for AttendLock {
    type State = Lock;
    type Outcome = Attendance;

    const SCRIPT: &'static Script = &script::ATTEND_LOCK;

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn is_upkeep(&self) -> bool {
        true
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"lock"]);
        waiters::push_keys(call);
        self.attend.encode(call);
    }

    fn parse(reply: &mut Reply) -> Result<Attendance, Error> {
        match reply.number()? {
            0 => Attendance::parse(reply),
            status => unknown_status(status),
        }
    }

    fn decide(&self, lock: &mut Lock, now: Timestamp) -> Attendance {
        let (free, holder) = (lock.free(now), lock.holder(now));
        let frees_in = holder.map(|held| now.until(held.lease.expire));
        self.attend.decide(&mut lock.queue, free, frees_in, now)
    }
}
