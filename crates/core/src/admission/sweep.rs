//! `SweepPool`: processes the expiries of a pool in the background.

use super::{Pool, Settings};
use crate::{
    Allowance, Call, Cost, Decision, Properties, Reply, Swept,
    denial::{AffectsDenials, Effect},
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
};

/// Logs the end of expired leases, and removes expired and forgotten tasks from the queue.
///
/// No other decision depends on it: an expired lease holds no slot, and an expired task is not
/// dispatched, swept or not. It makes events appear even without calls, and frees memory.
///
/// One sweep spends one [`Allowance`], first on leases, then on scheduled tasks. A repeat continues.
/// The answer has the time at which the next sweep is due, and whether the pool may leave the
/// partition index.
#[derive(Debug, Clone)]
pub struct SweepPool {
    /// The pool.
    pub pool: Name,
    /// The pool's configured settings.
    pub settings: Settings,
}

impl Decision for SweepPool {
    type State = Pool;
    type Outcome = Swept;

    const SCRIPT: &'static Script = &script::admission::SWEEP;
    // About 0.8 ms for 100 leases. Tasks that die or leave the queue take up to 3 ms: at most two
    // sweeps share a script call.
    const PROPERTIES: Properties<SweepPool> =
        Properties { cost: |_| Cost::bulk(1500), ..Properties::BACKGROUND }.affects_denials();

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        for part in
            [&b"settings"[..], b"leases", b"events", b"queued", b"backlog", b"due", b"queue"]
        {
            call.key(&[part]);
        }
        call.number(self.settings.max_attempts.into());
        call.number(self.settings.retention.0);
        call.number(self.settings.history.into());
    }

    fn parse(reply: &mut Reply) -> Result<Swept, Error> {
        reply.ok()?;
        Ok(Swept {
            has_more: reply.number()? != 0,
            next: Some(reply.number()?).filter(|next| *next > 0).map(Timestamp),
            is_vacant: reply.number()? != 0,
        })
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> Swept {
        pool.lapse(now);
        let settings = self.settings.under(&pool.overrides);
        let mut allowance = Allowance::new();
        if pool.reclaim(&settings, &mut allowance, now) > 0 {
            return Swept { has_more: true, next: None, is_vacant: false };
        }
        let is_due = |due: &&(Timestamp, _)| due.0 <= now;
        let due = pool.backlog.due(None).take_while(is_due).take(allowance.tasks());
        let members: Vec<_> = due.map(|(_, member)| member.clone()).collect();
        for member in members {
            // The end of a running lease will process its task.
            pool.backlog.clear_due(&member);
            pool.settle(&member, &settings, now);
        }
        let next = pool.next_end();
        let is_vacant = next.is_none() && pool.is_unlisted();
        Swept { has_more: next.is_some_and(|next| next <= now), next, is_vacant }
    }
}

impl AffectsDenials for SweepPool {
    fn effect(&self, _: Option<&Swept>) -> Effect {
        Effect::frees(true)
    }
}
