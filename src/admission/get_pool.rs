//! `GetPool`: reads a pool's settings in force and its use.

use super::{Pool, Settings, Usage, small, unknown_status};
use crate::{
    decision::{Call, Cost, Decision, Listing, Reply},
    denial::Effect,
    error::Error,
    names::Name,
    script::{self, Script},
    time::{Millis, Timestamp},
    waiting,
};

/// Leases that a view looks at for its two times.
const VIEW_LEASES_MAX: usize = 256;

/// Names a pool.
#[derive(Debug, Clone)]
pub struct GetPool {
    /// The pool.
    pub pool: Name,
    /// Its configured settings.
    pub settings: Settings,
}

/// A pool as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolView {
    /// How full it is.
    pub usage: Usage,
    /// How long a lease runs.
    pub lease_duration: Millis,
    /// How long an ended lease keeps its slot.
    pub expiry_grace: Millis,
    /// Whether nobody is admitted.
    pub paused: bool,
    /// How often a queued task is dispatched.
    pub max_attempts: u32,
    /// What was set at run time: 1 capacity, 2 lease, 4 grace, 8 paused, 16 attempts.
    pub overridden: u64,
    /// When the longest-held lease was granted.
    pub oldest_grant: Option<Timestamp>,
    /// When the next running lease ends.
    pub next_expire: Option<Timestamp>,
    /// How many calls wait.
    pub waiters: u64,
    /// How many tasks are queued.
    pub queued: u64,
    /// Until when a failover keeps it from admitting anybody new.
    pub held_until: Option<Timestamp>,
}

impl PoolView {
    /// Whether the pool is as one that nobody has ever named.
    pub fn is_vacant(&self) -> bool {
        self.usage.in_use == 0 && self.overridden == 0 && self.waiters == 0 && self.queued == 0
    }

    pub(super) fn parse(reply: &mut Reply) -> Result<PoolView, Error> {
        let status = reply.number()?;
        if status != 0 {
            return unknown_status(status);
        }
        let time = |micros| (micros > 0).then_some(Timestamp(micros));
        Ok(PoolView {
            usage: Usage { capacity: small(reply)?, in_use: small(reply)? },
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

    pub(super) fn of(pool: &mut Pool, settings: &Settings, now: Timestamp) -> PoolView {
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
            // Nobody else ever led here.
            held_until: None,
        }
    }
}

impl Decision for GetPool {
    type State = Pool;
    type Outcome = PoolView;

    const SCRIPT: &'static Script = &script::GET_POOL;

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn effect(&self, view: Option<&PoolView>) -> Effect {
        Effect { keeps: view.map(|view| view.expiry_grace), ..Effect::default() }
    }

    fn cost(&self) -> Cost {
        // Up to 256 leases are looked at.
        Cost::bulk(900)
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
        PoolView::of(pool, &self.settings, now)
    }
}
