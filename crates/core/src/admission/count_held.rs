//! `CountHeld`: counts the leases and queued tasks of a pool, for the limits of its namespace on
//! Redis.

use super::Pool;
use crate::{
    Call, Cost, Decision, Footprint, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
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
    type Outcome = Footprint;

    const SCRIPT: &'static Script = &script::admission::COUNT_HELD;
    // Not background work: many pools share a script call.
    const PROPERTIES: Properties<CountHeld> =
        Properties { cost: |_| Cost::from_micros(5), ..Properties::DEFAULT };

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"leases"]);
        call.key(&[b"backlog"]);
    }

    fn parse(reply: &mut Reply) -> Result<Footprint, Error> {
        reply.ok()?;
        Ok(Footprint { leases: reply.number()?, queued: reply.number()?, ..Footprint::default() })
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> Footprint {
        pool.lapse(now);
        let (leases, queued) = (pool.in_use().into(), pool.backlog.len() as u64);
        Footprint { leases, queued, ..Footprint::default() }
    }
}
