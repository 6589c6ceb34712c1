//! One simulated caller.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use tokio::{sync::watch, task::JoinSet, time::sleep_until};

use super::{schedule::Schedule, tally::Tally, witness::Witness};
use crate::{
    decision::time::monotonic,
    grpc::client::{Against, Client},
};

/// A caller of the fleet.
#[derive(Debug)]
pub(super) struct Caller {
    /// The times of its calls.
    pub(super) schedule: Schedule,
    /// Its key on the server.
    pub(super) key: Arc<Key>,
    /// Maximum number of its calls in flight.
    pub(super) in_flight: usize,
    /// Whether it waits for `retry_after` after a refusal.
    pub(super) patient: bool,
    /// Becomes true when no more calls are to be made.
    pub(super) stop: watch::Receiver<bool>,
}

/// A key, with the connection of its calls.
#[derive(Debug)]
pub(super) struct Key {
    /// The connection, shared with other keys.
    pub(super) client: Client,
    /// Name of the key.
    pub(super) name: String,
    /// The rule.
    pub(super) against: Arc<Against>,
    /// Checks the allowed calls.
    pub(super) witness: Mutex<Witness>,
    /// Counts all answers.
    pub(super) tally: Arc<Tally>,
}

impl Caller {
    /// Makes calls until the fleet stops, then waits for the answers.
    pub(super) async fn live(mut self) {
        let mut calls = JoinSet::new();
        while let Some((due, size)) = self.schedule.next() {
            if !self.pause(due).await {
                break;
            }
            for _ in 0..size {
                while calls.len() >= self.in_flight {
                    calls.join_next().await;
                }
                calls.spawn(self.key.clone().call());
            }
            while calls.try_join_next().is_some() {}
            if self.patient {
                self.heed(&mut calls).await;
            }
        }
        while calls.join_next().await.is_some() {}
    }

    /// Waits for all answers, and postpones the next call until all of them allow it.
    async fn heed(&mut self, calls: &mut JoinSet<Option<Instant>>) {
        while let Some(again) = calls.join_next().await {
            if let Ok(Some(again)) = again {
                self.schedule.postpone(again);
            }
        }
    }

    /// Waits until an instant; false as soon as the fleet stops.
    async fn pause(&mut self, until: Instant) -> bool {
        tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => false,
            () = sleep_until(until.into()) => true,
        }
    }
}

impl Key {
    /// Makes a call. Returns when to retry if it was refused.
    async fn call(self: Arc<Key>) -> Option<Instant> {
        let sent = monotonic();
        let answer = self.client.check_rate(&self.name, &self.against, 1).await;
        self.tally.calls.add();
        match answer {
            Ok(answer) => {
                self.tally.latencies.add(sent.elapsed());
                self.tally.answer(&answer);
                if answer.allowed() {
                    self.allowed(sent);
                }
                answer.retry_after.map(|wait| monotonic() + wait.duration())
            }
            Err(error) => {
                tracing::debug!(key = self.name, %error, "call failed");
                self.tally.failed.add(error.code);
                None
            }
        }
    }

    fn allowed(&self, sent: Instant) {
        let mut witness = self.witness.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock, so that receipts are recorded in order.
        let received = monotonic();
        self.tally.seen(witness.allowed(sent, received));
        self.tally.timeline.add(received);
    }
}
