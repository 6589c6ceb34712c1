//! `ConfigurePool`: changes the run-time settings of a pool.

use std::sync::Arc;

use super::{Event, EventKind, Overrides, Pool, PoolView, Settings, push_queue_keys};
use crate::{
    Call, Cost, Decision, Listing, Outcomes, Properties, Reply, Revocable, Undo, UndoRule,
    acknowledgement::Acknowledgement,
    denial::{AffectsDenials, Effect},
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
    waiting,
};

/// Changes the given settings; the others stay.
///
/// The settings are stored with the pool and never expire. They apply on all servers from the next
/// decision on, and take precedence over the configuration until they are reset. With `reset`, all
/// run-time settings are removed first; then the given ones apply.
///
/// A higher capacity frees slots for waiters immediately. A lower capacity ends no lease: the pool
/// admits no new task until enough leases have ended. Running leases keep their length and grace. A
/// change is an event, and so is each reset. A repeat sets the same values.
///
/// On Redis, a reset also ends a failover hold and repairs the pool: stored values that cannot be
/// read are removed (`lua/lib/repair.lua`).
#[derive(Debug, Clone)]
pub struct ConfigurePool {
    /// The pool.
    pub pool: Name,
    /// The settings to change.
    pub overrides: Overrides,
    /// Whether to remove all run-time settings first, and to repair unreadable stored values.
    pub reset: bool,
    /// The pool's configured settings.
    pub settings: Settings,
}

impl Decision for ConfigurePool {
    type State = Pool;
    type Outcome = PoolView;

    const SCRIPT: &'static Script = &script::admission::CONFIGURE;
    const PROPERTIES: Properties<ConfigurePool> = Properties::<Self> {
        listing: |configure| match (configure.overrides == Overrides::default(), configure.reset) {
            (false, _) => Listing::Kept,
            (true, true) => Listing::Released,
            (true, false) => Listing::Same,
        },
        // With `reset` the script checks up to 1,000 leases.
        cost: |_| Cost::bulk(Cost::CALL_MAX),
        creates: |configure| configure.overrides != Overrides::default(),
        outcomes: Outcomes::OK,
        ..Properties::DEFAULT
    }
    .revocable()
    .affects_denials();

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"settings"]);
        call.key(&[b"token"]);
        call.key(&[b"leases"]);
        waiting::push_keys(call);
        push_queue_keys(call);
        self.overrides.encode(call);
        call.number(self.reset.into());
        self.settings.encode(call);
        call.number(self.settings.history.into());
    }

    fn parse(reply: &mut Reply) -> Result<PoolView, Error> {
        PoolView::parse(reply)
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> PoolView {
        pool.lapse(now);
        let was = pool.overrides;
        let earlier = if self.reset { Overrides::default() } else { was };
        pool.overrides = self.overrides.over(earlier);
        let settings = self.settings.under(&pool.overrides);
        if self.reset || pool.overrides != was {
            let event = Event {
                kind: EventKind::Configured,
                token: 0,
                attempt: 0,
                outcome: None,
                capacity: Some(settings.capacity),
                time: now,
                member: Arc::from([]),
            };
            pool.log(event, &settings);
        }
        // A higher capacity frees slots: wake waiters.
        let was_free = self.settings.under(&was).capacity.saturating_sub(pool.in_use());
        pool.hand_on(was_free, settings.capacity, now);
        PoolView::from_pool(pool, &self.settings, now)
    }
}

impl AffectsDenials for ConfigurePool {
    /// The pool may now have more slots, and a different grace.
    fn effect(&self, view: Option<&PoolView>) -> Effect {
        Effect { keeps: view.map(|view| view.expiry_grace), ..Effect::frees(true) }
    }
}

impl Revocable for ConfigurePool {
    /// As the settings of the pool require: a failover could bring the earlier settings back.
    fn acknowledgement(&self) -> Acknowledgement {
        self.settings.acknowledgement
    }

    /// The settings stand, because calls may already have been decided under them. The caller
    /// repeats the call.
    fn undo_rule(&self, _: &str) -> UndoRule {
        UndoRule::from_outcome::<ConfigurePool>(|_| Undo::Stands)
    }
}
