//! `HeartbeatPool`: the heartbeat of a server for its waiters in the queue of a pool.

use super::{Pool, Settings};
use crate::{
    Call, Decision, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
    waiting::{self, Heartbeat, HeartbeatAnswer},
};

/// A heartbeat for the queue of a pool.
///
/// Keeps the server's tickets alive, removes dead tickets, and returns the server's waiters that
/// may proceed. It grants nothing: a waiter that may proceed sends its own AdmitTask. The answer
/// contains the time at which the next lease frees a slot by expiring; the next heartbeat is due
/// then. In a paused pool all waiters proceed, so that they get the answer `Paused`. A repeat is
/// safe.
#[derive(Debug, Clone)]
pub struct HeartbeatPool {
    /// The pool.
    pub pool: Name,
    /// The pool's configured settings.
    pub settings: Settings,
    /// The heartbeat.
    pub heartbeat: Heartbeat,
}

impl Decision for HeartbeatPool {
    type State = Pool;
    type Outcome = HeartbeatAnswer;

    const SCRIPT: &'static Script = &script::admission::HEARTBEAT;
    const PROPERTIES: Properties<HeartbeatPool> = Properties::BACKGROUND;

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"settings"]);
        call.key(&[b"leases"]);
        waiting::push_keys(call);
        call.number(self.settings.capacity.into());
        call.number(self.settings.paused.into());
        self.heartbeat.encode(call);
    }

    fn parse(reply: &mut Reply) -> Result<HeartbeatAnswer, Error> {
        reply.ok()?;
        HeartbeatAnswer::parse(reply)
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> HeartbeatAnswer {
        pool.lapse(now);
        let settings = self.settings.under(&pool.overrides);
        let free = settings.capacity.saturating_sub(pool.in_use());
        let frees_in = pool.next_free(settings.capacity).map(|end| now.until(end));
        let answer = self.heartbeat.decide(&mut pool.queue, free, frees_in, now);
        // Waiting calls of a paused pool ask again and get `Paused`.
        let again = answer.again || settings.paused || settings.capacity == 0;
        HeartbeatAnswer { again, ..answer }
    }
}
