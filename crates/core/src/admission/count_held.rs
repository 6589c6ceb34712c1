//! `CountHeld`: counts the leases and queued tasks of a pool, for the limits of its namespace on
//! Redis.

use super::Pool;
use crate::{
    Call, Cost, Decision, Holds, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    stages,
    time::Timestamp,
};

/// Counts the leases that hold a slot and the queued tasks of a pool. Changes nothing.
#[derive(Debug, Clone)]
pub struct CountHeld {
    /// The pool.
    pub pool: Name,
}

impl Decision for CountHeld {
    type State = Pool;
    type Outcome = Holds;
    type Stages = stages::Direct;

    const SCRIPT: &'static Script = &script::admission::COUNT_HELD;
    // Not background work: many pools share a script call.
    const PROPERTIES: Properties<CountHeld> =
        Properties { cost: |_| Cost::of(5), ..Properties::DEFAULT };

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"leases"]);
        call.key(&[b"backlog"]);
    }

    fn parse(reply: &mut Reply) -> Result<Holds, Error> {
        reply.ok()?;
        Ok(Holds { leases: reply.number()?, queued: reply.number()?, ..Holds::default() })
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> Holds {
        pool.lapse(now);
        let (leases, queued) = (pool.in_use().into(), pool.backlog.len() as u64);
        Holds { leases, queued, ..Holds::default() }
    }
}
