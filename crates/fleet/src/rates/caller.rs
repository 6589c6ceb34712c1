//! One simulated caller.

use std::{sync::Arc, time::Instant};

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tollgate_client::{Connection, time};

use super::{RateCallers, window::WatchedWindow};
use crate::{run::World, schedule::Arrivals};
use tollgate_core::time::monotonic;

/// A caller of the fleet, with its own key.
#[derive(Debug)]
pub(super) struct RateCaller {
    pub(super) connection: Connection,
    pub(super) key: String,
    /// Checks the allowed calls.
    pub(super) window: Mutex<WatchedWindow>,
    pub(super) world: Arc<World>,
    pub(super) fleet: Arc<RateCallers>,
}

impl RateCaller {
    /// Makes calls until the fleet stops, then waits for the answers.
    pub(super) async fn live(self: Arc<RateCaller>, mut schedule: Arrivals) {
        let (options, mut calls) = (&self.world.options.callers, JoinSet::new());
        while let Some((due, size)) = schedule.next() {
            if !self.world.stop.pause(due).await {
                break;
            }
            for _ in 0..size {
                while calls.len() >= options.in_flight() {
                    calls.join_next().await;
                }
                calls.spawn(self.clone().call());
            }
            while calls.try_join_next().is_some() {}
            // A patient caller waits for all answers and postpones the next call until all of them
            // permit it.
            while options.patient
                && let Some(again) = calls.join_next().await
            {
                if let Ok(Some(again)) = again {
                    schedule.postpone(again);
                }
            }
        }
        while calls.join_next().await.is_some() {}
    }

    /// Makes a call. Returns when to retry if it was refused.
    async fn call(self: Arc<RateCaller>) -> Option<Instant> {
        let (fleet, world, sent) = (&self.fleet, &self.world, monotonic());
        let call = self.connection.check(&self.key, &fleet.against, 1);
        let answer = world.calls.make(call).await?;
        fleet.verdicts.add(answer.verdict().as_str_name());
        if answer.crossed {
            fleet.notices.add();
        }
        if answer.allowed {
            let mut window = self.window.lock();
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
