//! `GetPool`: reads the settings in force and the usage of a pool.

use super::{Pool, PoolUsage, Settings, small};
use crate::{
    Call, Cost, Decision, Outcomes, Properties, Reply,
    denial::{AffectsDenials, Effect},
    error::Error,
    names::Name,
    script::{self, Script},
    time::{Millis, Timestamp},
    waiting,
};

/// The maximum number of leases that a view examines for its two times.
const VIEW_LEASES_MAX: usize = 256;

/// Reads the view of a pool. Changes nothing but removes dead tickets from the queue.
///
/// A pool that was never used also has a view, with its configured settings. The two times of a
/// view come from the first 256 leases by slot end, so in a larger pool `oldest_grant` can be too
/// late.
#[derive(Debug, Clone)]
pub struct GetPool {
    /// The pool.
    pub pool: Name,
    /// The pool's configured settings.
    pub settings: Settings,
}

/// The view of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolView {
    /// The usage of the pool.
    pub usage: PoolUsage,
    /// Length of a lease.
    pub lease_duration: Millis,
    /// How long an expired lease keeps its slot.
    pub expiry_grace: Millis,
    /// Whether new tasks are refused.
    pub paused: bool,
    /// Attempts of a queued task before it is dead.
    pub max_attempts: u32,
    /// The run-time overrides in force: 1 capacity, 2 lease, 4 grace, 8 paused, 16 attempts.
    pub overridden: u64,
    /// The earliest grant time among the first 256 leases by slot end.
    pub oldest_grant: Option<Timestamp>,
    /// The next expiry of a running lease.
    pub next_expire: Option<Timestamp>,
    /// The number of waiting calls.
    pub waiters: u64,
    /// The number of queued tasks.
    pub queued: u64,
    /// Until when the pool admits no new task after a failover.
    pub held_until: Option<Timestamp>,
}

impl PoolView {
    /// Whether the pool equals one that was never used.
    pub fn is_vacant(&self) -> bool {
        self.usage.in_use == 0 && self.overridden == 0 && self.waiters == 0 && self.queued == 0
    }

    pub(super) fn parse(reply: &mut Reply) -> Result<PoolView, Error> {
        reply.ok()?;
        let time = |micros| (micros > 0).then_some(Timestamp(micros));
        Ok(PoolView {
            usage: PoolUsage { capacity: small(reply)?, in_use: small(reply)? },
            lease_duration: Millis(reply.number()?),
            expiry_grace: Millis(reply.number()?),
            paused: reply.number()? != 0,
            max_attempts: small(reply)?,
            overridden: reply.number()?,
            oldest_grant: time(reply.number()?),
            next_expire: time(reply.number()?),
            waiters: reply.number()?,
            queued: reply.number()?,
            held_until: time(reply.number()?),
        })
    }

    /// Returns the view of a pool at this time.
    pub(super) fn from_pool(pool: &mut Pool, settings: &Settings, now: Timestamp) -> PoolView {
        let settings = settings.under(&pool.overrides);
        let waiters = pool.count_waiters(settings.capacity, now);
        let leases = || pool.leases(None).take(VIEW_LEASES_MAX).map(|(_, task)| task.lease);
        PoolView {
            usage: pool.usage(&settings),
            lease_duration: settings.lease_duration,
            expiry_grace: settings.expiry_grace,
            paused: settings.paused,
            max_attempts: settings.max_attempts,
            overridden: pool.overrides.bits(),
            oldest_grant: leases().map(|lease| lease.grant).min(),
            next_expire: leases().map(|lease| lease.expire).filter(|expire| *expire > now).min(),
            waiters,
            queued: pool.backlog.len() as u64,
            // The embedded engine has no failover.
            held_until: None,
        }
    }
}

impl Decision for GetPool {
    type State = Pool;
    type Outcome = PoolView;

    const SCRIPT: &'static Script = &script::admission::GET_POOL;
    // The script examines up to 256 leases.
    const PROPERTIES: Properties<GetPool> =
        Properties { cost: |_| Cost::bulk(900), outcomes: Outcomes::OK, ..Properties::DEFAULT }
            .affects_denials();

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"settings"]);
        call.key(&[b"leases"]);
        waiting::push_keys(call);
        call.key(&[b"backlog"]);
        call.key(&[b"token"]);
        self.settings.encode(call);
    }

    fn parse(reply: &mut Reply) -> Result<PoolView, Error> {
        PoolView::parse(reply)
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> PoolView {
        pool.lapse(now);
        PoolView::from_pool(pool, &self.settings, now)
    }
}

impl AffectsDenials for GetPool {
    /// Reading a view frees no slot, but reveals the grace in force, which another server may have
    /// changed.
    fn effect(&self, view: Option<&PoolView>) -> Effect {
        Effect { keeps: view.map(|view| view.expiry_grace), ..Effect::default() }
    }
}
