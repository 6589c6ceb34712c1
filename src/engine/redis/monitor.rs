//! Knows whether Redis answers, so that a call to a dead one fails at once.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::{Client, RedisError, aio::MultiplexedConnection};
use tokio::{sync::watch, time::timeout};

use super::{StoreState, socket::connect};
use crate::error::Error;

const PROBE_EVERY: Duration = Duration::from_millis(250);
/// A probe unanswered for this long means down.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Follows the state of the store.
#[derive(Debug)]
pub(super) struct Monitor {
    client: Client,
    state: watch::Sender<StoreState>,
    /// Grows when a connection is lost; older connections are not lent again.
    epoch: AtomicU64,
    /// Whether a call was answered since the last probe.
    answered: AtomicBool,
    /// Counts connections that could not be made, for those that wait for one.
    failed_connects: watch::Sender<u64>,
    reason: Mutex<String>,
}

impl Monitor {
    pub(super) fn new(client: Client) -> Monitor {
        Monitor {
            client,
            state: watch::Sender::new(StoreState::Down),
            epoch: AtomicU64::new(0),
            answered: AtomicBool::new(false),
            failed_connects: watch::Sender::new(0),
            reason: Mutex::new("not connected yet".to_owned()),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn state(&self) -> watch::Receiver<StoreState> {
        self.state.subscribe()
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Fails while the store is down.
    pub(super) fn check(&self) -> Result<(), Error> {
        match *self.state.borrow() {
            StoreState::Up => Ok(()),
            StoreState::Down => Err(self.down()),
        }
    }

    /// Why calls fail while the store is down.
    pub(super) fn down(&self) -> Error {
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        Error::Unavailable(reason.clone())
    }

    pub(super) fn note_answer(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    /// Retires the connections made in `epoch` and before.
    pub(super) fn note_loss(&self, epoch: u64) {
        let next = epoch + 1;
        self.epoch.fetch_max(next, Ordering::AcqRel);
    }

    /// Notes that a connection could not be made. That alone does not mean
    /// down: the store may be full, and the connections that there are good.
    pub(super) fn note_failed_connect(&self, error: &RedisError) {
        self.set_reason(&error.to_string());
        self.answered.store(false, Ordering::Relaxed);
        self.failed_connects.send_modify(|count| *count += 1);
    }

    /// Changes whenever a connection could not be made.
    pub(super) fn failed_connects(&self) -> watch::Receiver<u64> {
        self.failed_connects.subscribe()
    }

    fn set_reason(&self, reason: &str) {
        reason.clone_into(&mut self.reason.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn set_down(&self, reason: &str, first: bool) {
        self.set_reason(reason);
        self.note_loss(self.epoch());
        let was_up = self.state.send_replace(StoreState::Down) == StoreState::Up;
        if was_up || first {
            tracing::warn!(reason, "the store is down; calls fail with UNAVAILABLE until it is up");
        }
    }

    fn set_up(&self) {
        if self.state.send_replace(StoreState::Up) == StoreState::Down {
            tracing::info!("the store is up");
        }
    }

    /// Probes for ever; silent while calls show that the store answers.
    pub(super) async fn probe(&self) {
        let (mut socket, mut first) = (None, true);
        loop {
            let busy = self.answered.swap(false, Ordering::Relaxed);
            if !(busy && self.check().is_ok()) {
                match timeout(PROBE_TIMEOUT, self.ping(&mut socket)).await {
                    Ok(Ok(())) => self.set_up(),
                    Ok(Err(error)) => {
                        socket = None;
                        self.set_down(&error.to_string(), first);
                    }
                    Err(_) => {
                        socket = None;
                        self.set_down("no answer to PING", first);
                    }
                }
            }
            first = false;
            tokio::time::sleep(PROBE_EVERY).await;
        }
    }

    async fn ping(&self, socket: &mut Option<MultiplexedConnection>) -> redis::RedisResult<()> {
        let connection = match socket {
            Some(connection) => connection,
            None => socket.insert(connect(&self.client).await?),
        };
        redis::cmd("PING").query_async(connection).await
    }
}
