//! `ConfigurePool`: changes a pool's run-time settings.

use super::{Overrides, Pool, PoolView, Settings};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
    waiting,
};

/// Changes what is given; what is not given stays.
#[derive(Debug, Clone)]
pub struct ConfigurePool {
    /// The pool.
    pub pool: Name,
    /// What to change.
    pub overrides: Overrides,
    /// Whether all run-time settings are dropped first, and stored values that
    /// cannot be read are repaired.
    pub reset: bool,
    /// The pool's configured settings.
    pub settings: Settings,
}

impl Decision for ConfigurePool {
    type State = Pool;
    type Outcome = PoolView;

    const SCRIPT: &'static Script = &script::CONFIGURE_POOL;

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn listing(&self) -> Listing {
        match (self.overrides == Overrides::default(), self.reset) {
            (false, _) => Listing::Kept,
            (true, true) => Listing::Released,
            (true, false) => Listing::Same,
        }
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"settings"]);
        call.key(&[b"token"]);
        call.key(&[b"leases"]);
        waiting::push_keys(call);
        self.overrides.encode(call);
        call.number(self.reset.into());
        self.settings.encode(call);
    }

    fn parse(reply: &mut Reply) -> Result<PoolView, Error> {
        PoolView::parse(reply)
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> PoolView {
        pool.reclaim(now);
        let was = self.settings.under(&pool.overrides).capacity;
        let earlier = if self.reset { Overrides::default() } else { pool.overrides };
        pool.overrides = self.overrides.over(earlier);
        let was_free = was.saturating_sub(pool.in_use());
        pool.hand_on(was_free, self.settings.under(&pool.overrides).capacity, now);
        PoolView::of(pool, &self.settings, now)
    }
}
