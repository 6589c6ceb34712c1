//! Knows whether a node answers, so that a call to a dead one fails at once.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::{RedisError, RedisResult, aio::MultiplexedConnection};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    Eviction, StoreState,
    fitness::Fitness,
    lane::Shared,
    leader::{Leader, Seen},
    source::Source,
};
use crate::{decision::Sighting, error::Error};

const PROBE_EVERY: Duration = Duration::from_millis(250);
/// A probe unanswered for this long means down.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the Sentinels are asked whether another primary leads.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Follows the state of a node.
pub(super) struct Monitor {
    source: Source,
    eviction: Eviction,
    state: watch::Sender<StoreState>,
    /// Grows when a connection is lost; older connections are not lent again.
    epoch: AtomicU64,
    /// Whether a call was answered since the last probe.
    answered: AtomicBool,
    reason: Mutex<String>,
    /// Who it is, where that was seen.
    seen: Mutex<Option<Seen>>,
    /// Where losses and failovers are counted.
    shared: Arc<Shared>,
}

/// The connection that probes go over.
struct Probe {
    socket: Option<MultiplexedConnection>,
    epoch: u64,
    /// The first state is told even if it is down.
    is_first: bool,
}

impl Monitor {
    pub(super) fn new(
        source: Source,
        state: StoreState,
        eviction: Eviction,
        shared: Arc<Shared>,
    ) -> Monitor {
        Monitor {
            source,
            eviction,
            state: watch::Sender::new(state),
            epoch: AtomicU64::new(0),
            answered: AtomicBool::new(false),
            reason: Mutex::new("not connected yet".to_owned()),
            seen: Mutex::default(),
            shared,
        }
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    pub(super) fn state(&self) -> watch::Receiver<StoreState> {
        self.state.subscribe()
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Whether the node answers.
    pub(super) fn is_up(&self) -> bool {
        *self.state.borrow() == StoreState::Up
    }

    /// Fails while the node is down.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.is_up() { Ok(()) } else { Err(self.down()) }
    }

    /// Why calls fail while the node is down.
    pub(super) fn down(&self) -> Error {
        Error::Unavailable(self.reason().clone())
    }

    pub(super) fn note_answer(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    /// Retires the connections made in `epoch` and before.
    pub(super) fn note_loss(&self, epoch: u64) {
        if self.epoch.fetch_max(epoch + 1, Ordering::AcqRel) <= epoch {
            self.shared.losses.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Notes that a connection could not be made. That alone does not mean
    /// down: the node may be full, and the connections that there are good; and of a node
    /// that is down the probe says why.
    pub(super) fn note_failed_connect(&self, error: &RedisError) {
        let mut reason = self.reason();
        if self.is_up() {
            *reason = format!("cannot connect: {error}");
        }
        self.answered.store(false, Ordering::Relaxed);
    }

    fn reason(&self) -> MutexGuard<'_, String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_down(&self, reason: &str, is_first: bool) {
        if self.fall(reason) == StoreState::Up || is_first {
            tracing::warn!(reason, "the store is down; calls fail with UNAVAILABLE until it is up");
        }
    }

    /// It is no node of the store any more: what waits for it is let go.
    pub(super) fn leave(&self) {
        self.fall("it is no node of the Cluster any more");
    }

    /// Is down from now on; what it was before.
    fn fall(&self, why: &str) -> StoreState {
        let mut reason = self.reason();
        why.clone_into(&mut reason);
        self.note_loss(self.epoch());
        self.state.send_replace(StoreState::Down)
    }

    fn set_up(&self) {
        if self.state.send_replace(StoreState::Up) == StoreState::Down {
            tracing::info!("the store is up");
        }
    }

    /// Probes for ever, also while calls are answered: those may go over connections that
    /// are younger than a restart which nobody noticed.
    pub(super) async fn probe(&self) {
        let mut probe = Probe { socket: None, epoch: 0, is_first: true };
        loop {
            self.probe_once(&mut probe).await;
            sleep(PROBE_EVERY).await;
        }
    }

    /// Asks the Sentinels now and then whether another primary leads; ends where there
    /// are none.
    pub(super) async fn follow(&self) {
        while self.source.can_move() {
            sleep(ASK_EVERY).await;
            if self.is_up() && self.source.has_moved().await {
                tracing::info!("the Sentinels name another primary");
                self.note_loss(self.epoch());
            }
        }
    }

    async fn probe_once(&self, probe: &mut Probe) {
        let is_first = std::mem::take(&mut probe.is_first);
        let is_busy = self.answered.swap(false, Ordering::Relaxed) && self.is_up();
        // To ask the Sentinels takes a time of its own.
        let named = self.source.client(self.epoch()).await.map(drop);
        let ping = async {
            named?;
            self.ping(probe).await
        };
        let failed = match timeout(PROBE_TIMEOUT, ping).await {
            Ok(Ok(None)) => return self.set_up(),
            Ok(Ok(Some(refusal))) => refusal,
            Ok(Err(error)) => error.to_string(),
            // Calls were answered, or have been since.
            Err(_) if is_busy || self.answered.load(Ordering::Relaxed) => return,
            Err(_) => "no answer to PING".to_owned(),
        };
        probe.socket = None;
        self.set_down(&failed, is_first);
    }

    /// Asks whether it is there; of a new connection also what it leads to, and why
    /// that must not be used.
    async fn ping(&self, probe: &mut Probe) -> RedisResult<Option<String>> {
        if probe.epoch != self.epoch() {
            probe.socket = None;
        }
        if let Some(socket) = &mut probe.socket {
            match still_there(socket).await {
                Ok(fitness) => return Ok(self.note(fitness)),
                Err(error) if error.code().is_some() => return Err(error),
                // Broken: what is there now?
                Err(_) => self.note_loss(probe.epoch),
            }
        }
        let epoch = self.epoch();
        probe.epoch = epoch;
        let (socket, fitness) = self.inspect(epoch).await?;
        if let Some(eviction) = fitness.eviction() {
            tracing::warn!("{eviction}");
        }
        let refusal = self.note(fitness);
        if refusal.is_none() {
            probe.socket = Some(socket);
        }
        Ok(refusal)
    }

    /// Notes what a node says of itself; why it must not be used, if so.
    fn note(&self, fitness: Fitness) -> Option<String> {
        let refusal = fitness.refusal(self.eviction);
        if refusal.is_none() {
            self.note_leader(fitness.leader);
        }
        refusal
    }

    /// Connects, and asks what it is connected to.
    async fn inspect(&self, epoch: u64) -> RedisResult<(MultiplexedConnection, Fitness)> {
        let mut socket = self.source.connect(epoch).await?;
        match redis::cmd("INFO").query_async::<String>(&mut socket).await {
            Ok(info) => Ok((socket, Fitness::parse(&info))),
            // Our user may not ask.
            Err(error) if error.code() == Some("NOPERM") => {
                tracing::warn!(%error, "cannot see whether this Redis is fit: allow INFO");
                Ok((socket, Fitness::default()))
            }
            Err(error) => Err(error),
        }
    }

    /// Why the node must not be used as it is set up; none where it does not answer soon.
    pub(super) async fn unfit(&self) -> Option<String> {
        let inspected = timeout(PROBE_TIMEOUT, self.inspect(self.epoch())).await;
        inspected.ok()?.ok()?.1.unfit(self.eviction)
    }

    fn note_leader(&self, leader: Leader) {
        if leader.history.is_empty() {
            return; // It does not say.
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = match &mut *seen {
            Some(seen) => seen.note(leader),
            none => {
                // It may lead in place of one that failed elsewhere.
                let is_successor = self.shared.failovers() > 0;
                *none = Some(Seen::first(leader, is_successor));
                false
            }
        };
        drop(seen);
        if has_changed {
            self.shared.note_failover();
            self.note_loss(self.epoch());
        }
    }

    /// Whom it was seen to lead as, and for how long.
    pub(super) fn sighting(&self) -> Option<Sighting> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Seen::sighting)
    }
}

/// Asks a node that was asked before who it is: it may follow another one now, or have done
/// so since.
async fn still_there(socket: &mut MultiplexedConnection) -> RedisResult<Fitness> {
    match redis::cmd("INFO").arg("replication").query_async::<String>(socket).await {
        Ok(info) => Ok(Fitness::parse(&info)),
        Err(error) if error.code() == Some("NOPERM") => {
            redis::cmd("PING").query_async::<()>(socket).await?;
            Ok(Fitness::default())
        }
        Err(error) => Err(error),
    }
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor").field("state", &*self.state.borrow()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
