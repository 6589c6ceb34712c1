//! One simulated caller.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use tokio::task::JoinSet;
use tollgate_client::{Connection, time};

use super::{Callers, window::Window};
use crate::{
    cli::fleet::{counters::lock, run::World, schedule::Arrivals},
    decision::time::monotonic,
};

/// A caller of the fleet.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) schedule: Arrivals,
    pub(super) key: Arc<Key>,
}

/// A key, with the connection of its calls.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) connection: Connection,
    pub(super) name: String,
    /// Checks the allowed calls.
    pub(super) window: Mutex<Window>,
    pub(super) world: Arc<World>,
    pub(super) fleet: Arc<Callers>,
}

impl Caller {
    /// Makes calls until the fleet stops, then waits for the answers.
    pub(super) async fn live(mut self) {
        let (world, mut calls) = (&self.key.world, JoinSet::new());
        let options = &world.options.callers;
        while let Some((due, size)) = self.schedule.next() {
            if !world.stop.pause(due).await {
                break;
            }
            for _ in 0..size {
                while calls.len() >= options.in_flight() {
                    calls.join_next().await;
                }
                calls.spawn(self.key.clone().call());
            }
            while calls.try_join_next().is_some() {}
            // A patient caller waits for all answers, and postpones the next call until all of
            // them allow it.
            while options.patient
                && let Some(again) = calls.join_next().await
            {
                if let Ok(Some(again)) = again {
                    self.schedule.postpone(again);
                }
            }
        }
        while calls.join_next().await.is_some() {}
    }
}

impl Key {
    /// Makes a call. Returns when to retry if it was refused.
    async fn call(self: Arc<Key>) -> Option<Instant> {
        let (fleet, world, sent) = (&self.fleet, &self.world, monotonic());
        let call = self.connection.check(&self.name, &fleet.against, 1);
        let answer = world.calls.make(call).await?;
        fleet.verdicts.add(answer.verdict().as_str_name());
        if answer.crossed {
            fleet.notices.add();
        }
        if answer.allowed {
            let mut window = lock(&self.window);
            // Read under the lock, so that receipts are recorded in order.
            let received = monotonic();
            fleet.most.raise(window.allowed(sent, received));
            fleet.timeline.add(received.saturating_duration_since(world.start));
            return None;
        }
        let wait = time::length(answer.retry_after, "retry_after").ok()?;
        Some(monotonic() + wait)
    }
}
