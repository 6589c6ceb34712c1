//! `HeartbeatLock`: the heartbeat of a server for its waiters in the queue of a lock.

use super::Lock;
use crate::{
    Call, Decision, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
    waiting::{self, Heartbeat, HeartbeatAnswer},
};

/// A heartbeat for the queue of a lock.
///
/// Keeps the server's tickets alive, removes dead tickets, and returns the server's waiter that may
/// proceed: at most one, because a lock has one slot. The answer contains the end of the current
/// lease. The next heartbeat is due then, because the holder may never release the lock. A
/// heartbeat grants nothing, and a repeat is safe.
#[derive(Debug, Clone)]
pub struct HeartbeatLock {
    /// The lock.
    pub name: Name,
    /// The heartbeat.
    pub heartbeat: Heartbeat,
}

impl Decision for HeartbeatLock {
    type State = Lock;
    type Outcome = HeartbeatAnswer;

    const SCRIPT: &'static Script = &script::lock::HEARTBEAT;
    const PROPERTIES: Properties<HeartbeatLock> = Properties::BACKGROUND;

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"lock"]);
        waiting::push_keys(call);
        self.heartbeat.encode(call);
    }

    fn parse(reply: &mut Reply) -> Result<HeartbeatAnswer, Error> {
        reply.ok()?;
        HeartbeatAnswer::parse(reply)
    }

    fn decide(&self, lock: &mut Lock, now: Timestamp) -> HeartbeatAnswer {
        let (free, holder) = (lock.free(now), lock.holder(now));
        let frees_in = holder.map(|held| now.until(held.lease.expire));
        self.heartbeat.decide(&mut lock.queue, free, frees_in, now)
    }
}
