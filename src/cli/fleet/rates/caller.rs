//! One simulated caller.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use tokio::task::JoinSet;
use tollgate_client::{Connection, time};

use super::Shared;
use crate::{
    cli::fleet::{
        counters::lock,
        schedule::{Arrivals, Stop},
        witness::Window,
    },
    decision::time::monotonic,
};

/// A caller of the fleet.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) schedule: Arrivals,
    pub(super) key: Arc<Key>,
    /// Maximum number of its calls in flight.
    pub(super) in_flight: usize,
    /// Whether it waits for `retry_after` after a refusal.
    pub(super) patient: bool,
    pub(super) stop: Stop,
}

/// A key, with the connection of its calls.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) connection: Connection,
    pub(super) name: String,
    /// Start of the run.
    pub(super) start: Instant,
    /// Checks the allowed calls.
    pub(super) window: Mutex<Window>,
    pub(super) shared: Arc<Shared>,
}

impl Caller {
    /// Makes calls until the fleet stops, then waits for the answers.
    pub(super) async fn live(mut self) {
        let mut calls = JoinSet::new();
        while let Some((due, size)) = self.schedule.next() {
            if !self.stop.pause(due).await {
                break;
            }
            for _ in 0..size {
                while calls.len() >= self.in_flight {
                    calls.join_next().await;
                }
                calls.spawn(self.key.clone().call());
            }
            while calls.try_join_next().is_some() {}
            // A patient caller waits for all answers, and postpones the next call until all of
            // them allow it.
            while self.patient
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
        let (shared, sent) = (&self.shared, monotonic());
        let call = self.connection.check(&self.name, &shared.against, 1);
        let answer = shared.calls.make(call).await?;
        shared.verdicts.add(answer.verdict().as_str_name());
        if answer.crossed {
            shared.notices.add();
        }
        if answer.allowed {
            let mut window = lock(&self.window);
            // Read under the lock, so that receipts are recorded in order.
            let received = monotonic();
            shared.most.raise(window.allowed(sent, received));
            shared.timeline.add(received.saturating_duration_since(self.start));
            return None;
        }
        let wait = time::length(answer.retry_after, "retry_after").ok()?;
        Some(monotonic() + wait)
    }
}
