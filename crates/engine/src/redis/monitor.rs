//! The health of one node: its state, primary id and clock.
//!
//! The routing asks [`Monitor::check`] before it sends a job, so that a call to an unreachable node
//! fails immediately. A probe runs every 250 ms, even while calls are answered, since a restart of
//! Redis can go unnoticed if calls use only connections that were opened afterwards. Pipelines
//! report answers, lost connections and failed connects.
//!
//! # What it derives
//! - The state: up, refusing writes, or down with the reason.
//! - The epoch of connections: a lost connection increments it, and older connections are not used
//!   again.
//! - Failovers: a different primary id than before, or a restarted primary (`primary_id`).
//! - The token lead over the node's clock (`skew`). It is measured on every new connection before a
//!   decision uses it.

mod inspect;
mod loss;
mod refusing;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use redis::RedisError;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    StoreState, evaluate,
    marker::Marker,
    preflight::Eviction,
    primary_id::{PrimaryId, SeenPrimary},
    servers::NodeServers,
    shared::Shared,
    skew::Reading,
    source::NodeSource,
};
use inspect::{Inspection, Probe};
use tollgate_core::{Sighting, error::Error};

/// The interval of probes.
const PROBE_EVERY: Duration = Duration::from_millis(250);
/// A node counts as down if a probe gets no answer for this long, unless calls are answered.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// The interval at which Sentinels are asked whether there is a new primary.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// The interval of the warning about a Redis that is used although it can evict keys.
const WARN_EVERY: Duration = Duration::from_secs(300);

/// Maximum lead of fencing tokens over a clock, in µs: one hour.
const AHEAD_MAX: u64 = 3_600_000_000;

/// For a primary that does not report its id, because INFO is not permitted: a clock that is
/// further behind than this is assumed to belong to another primary, in µs.
const UNSEEN_MAX: u64 = 100_000;

/// The health of one node.
pub(super) struct Monitor {
    /// The address of the node.
    source: NodeSource,
    /// The reaction to a Redis that can evict keys.
    eviction: Eviction,
    /// The state of the node.
    state: watch::Sender<StoreState>,
    /// Incremented by each lost connection; connections of an older epoch are not used again.
    epoch: AtomicU64,
    /// Whether a call was answered since the last probe.
    answered: AtomicBool,
    /// Whether the node, while down, has answered and refused all calls.
    has_answered: AtomicBool,
    /// The time of the last refused write, and the epoch of its connection.
    refused: Mutex<Option<(Instant, u64)>>,
    /// The reason why calls fail while the node is unusable.
    reason: Mutex<String>,
    /// The time of the last warning about eviction.
    warned: Mutex<Option<Instant>>,
    /// The keys of the write probe and of the marker, if known; in a Cluster, they must be in a
    /// slot of this node.
    probe_key: Mutex<Option<(String, String)>>,
    /// The lead of fencing tokens over the node's clock, in µs.
    ahead: AtomicU64,
    /// Whether the lead was measured for the current primary.
    is_measured: Mutex<bool>,
    /// The last primary id seen, if INFO is permitted.
    seen: Mutex<Option<SeenPrimary>>,
    /// The marker of the store on the node, as it was read last.
    marker: Mutex<Option<Arc<Marker>>>,
    /// The servers on the node; `None` if they could not be counted.
    servers: Mutex<Option<NodeServers>>,
    /// Counts lost connections and failovers.
    shared: Arc<Shared>,
}

impl Monitor {
    /// Creates a monitor whose node is in `state` until the first probe.
    pub(super) fn new(
        source: NodeSource,
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
            has_answered: AtomicBool::new(false),
            refused: Mutex::default(),
            warned: Mutex::default(),
            probe_key: Mutex::default(),
            ahead: AtomicU64::new(0),
            is_measured: Mutex::default(),
            reason: Mutex::new("not connected yet".to_owned()),
            seen: Mutex::default(),
            servers: Mutex::default(),
            marker: Mutex::default(),
            shared,
        }
    }

    /// Returns the address of the node.
    pub(super) fn source(&self) -> &NodeSource {
        &self.source
    }

    /// Subscribes to the state of the node.
    pub(super) fn state(&self) -> watch::Receiver<StoreState> {
        self.state.subscribe()
    }

    /// Returns the current epoch of connections.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Whether the node answers; it may refuse writes.
    pub(super) fn is_up(&self) -> bool {
        *self.state.borrow() != StoreState::Down
    }

    /// Whether the node accepts writes.
    pub(super) fn takes_writes(&self) -> bool {
        *self.state.borrow() == StoreState::Up
    }

    /// Whether an unusable node is nevertheless reachable.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Acquire)
    }

    /// Fails while the node is unusable.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.is_up() { Ok(()) } else { Err(self.down()) }
    }

    /// Returns the error of calls while the node is unusable: [`Error::Refused`] if it is
    /// reachable, otherwise [`Error::Unavailable`].
    pub(super) fn down(&self) -> Error {
        let why = self.reason().clone();
        if self.has_answered() { Error::Refused(why) } else { Error::Unavailable(why) }
    }

    /// Records that a call was answered, so that a slow probe does not mean that the node is down.
    pub(super) fn record_answer(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    /// Retires the connections made in `epoch` and before.
    pub(super) fn record_loss(&self, epoch: u64) {
        if self.epoch.fetch_max(epoch + 1, Ordering::AcqRel) <= epoch {
            self.shared.losses.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Records a failed connection attempt. It does not mean that the node is down, because the
    /// node may have reached its maximum number of clients while existing connections work. While
    /// the node is unusable, the reason comes from the probe.
    pub(super) fn record_failed_connect(&self, error: &RedisError) {
        let mut reason = self.reason();
        if self.is_up() {
            *reason = format!("cannot connect: {error}");
        }
        self.answered.store(false, Ordering::Relaxed);
    }

    fn reason(&self) -> MutexGuard<'_, String> {
        lock(&self.reason)
    }

    /// Sets the state to down. `answers` says whether the node is reachable but refuses all calls.
    fn set_down(&self, reason: &str, answers: bool, is_first: bool) {
        self.has_answered.store(answers, Ordering::Release);
        if self.fall(reason) != StoreState::Down || is_first {
            tracing::warn!(
                reason,
                "Redis is unusable; calls fail with UNAVAILABLE until it recovers"
            );
        }
    }

    /// Sets the state to down because the node left the Cluster, which ends its waiting jobs.
    pub(super) fn leave(&self) {
        self.fall("the node has left the Cluster");
    }

    /// Sets the state to down. Returns the previous state.
    fn fall(&self, why: &str) -> StoreState {
        let mut reason = self.reason();
        why.clone_into(&mut reason);
        self.record_loss(self.epoch());
        self.state.send_replace(StoreState::Down)
    }

    /// Probes forever, even while calls are answered, because they may use connections that are
    /// younger than an unnoticed restart.
    pub(super) async fn probe(&self) {
        let mut probe = Probe { socket: None, epoch: 0, is_first: true, count: 0 };
        loop {
            self.probe_once(&mut probe).await;
            sleep(PROBE_EVERY).await;
        }
    }

    /// Asks the Sentinels every second whether there is a new primary. Returns immediately if there
    /// are no Sentinels.
    pub(super) async fn follow(&self) {
        while self.source.can_move() {
            sleep(ASK_EVERY).await;
            if self.is_up() && self.source.has_moved().await {
                tracing::info!("the Sentinels name another primary");
                self.record_loss(self.epoch());
            }
        }
    }

    /// Runs one probe and sets the state according to its result.
    async fn probe_once(&self, probe: &mut Probe) {
        let is_first = std::mem::take(&mut probe.is_first);
        let is_busy = self.answered.swap(false, Ordering::Relaxed) && self.is_up();
        // This is outside the time limit below, because asking the Sentinels has a longer one.
        let named = self.source.endpoint(self.epoch()).await.map(drop);
        let asked = async {
            named?;
            self.ask(probe).await
        };
        match timeout(PROBE_TIMEOUT, asked).await {
            Ok(Ok(Inspection::Fit)) => {
                self.set_up();
                return self.count_servers(probe).await;
            }
            Ok(Ok(Inspection::Refuses(why))) => {
                self.set_refusing(&why);
                return self.count_servers(probe).await;
            }
            Ok(Ok(Inspection::Unfit(why))) => self.set_down(&why, true, is_first),
            Ok(Err(error)) => {
                let answers = error
                    .code()
                    .is_some_and(|code| matches!(evaluate::refused(code, ""), Error::Refused(_)));
                self.set_down(&error.to_string(), answers, is_first);
            }
            // Calls are answered, so the node is up although the probe was slow.
            Err(_) if is_busy || self.answered.load(Ordering::Relaxed) => return,
            Err(_) => self.set_down("no answer to PING", false, is_first),
        }
        probe.socket = None;
    }

    /// Records the primary id. A new id is a failover: the clock must be measured again, and older
    /// connections are retired.
    fn record_primary(&self, leader: PrimaryId) {
        if leader.history.is_empty() {
            return; // The answer does not contain it.
        }
        // This stays locked until a failover is decided, so that no other connection is measured
        // before.
        let mut is_measured = lock(&self.is_measured);
        let mut seen = lock(&self.seen);
        let has_changed = match &mut *seen {
            Some(seen) => seen.record(leader),
            none => {
                // It may be the successor of a node that failed.
                let is_successor = self.shared.failovers() > 0;
                *none = Some(SeenPrimary::first(leader, is_successor));
                false
            }
        };
        drop(seen);
        if has_changed {
            *is_measured = false;
            self.shared.record_failover();
            self.record_loss(self.epoch());
        }
    }

    /// Records a reading of the clock. `told` is the lead that other servers have recorded. Returns
    /// the lead in effect, in µs.
    fn record_clock(&self, reading: &Reading, told: u64) -> u64 {
        let mut is_measured = lock(&self.is_measured);
        let is_new = !std::mem::replace(&mut *is_measured, true);
        let behind = self.shared.skew.ahead(reading);
        let is_known = lock(&self.seen).is_some();
        let is_other = if is_known {
            is_new && self.is_successor()
        } else {
            behind > self.ahead() + UNSEEN_MAX
        };
        // The lead is at least the one that other servers know. A successor needs the lead that the
        // measured offsets require; a primary that is not a successor needs none.
        let ahead = told.max(if is_other {
            behind
        } else if is_new {
            0
        } else {
            self.ahead()
        });
        let ahead = ahead.min(AHEAD_MAX);
        if ahead > self.ahead.swap(ahead, Ordering::AcqRel) + 1_000_000 {
            tracing::warn!(
                seconds = ahead / 1_000_000,
                "the clock of this primary is behind that of an earlier one: fencing tokens are \
                 ahead of it by `seconds`"
            );
        }
        self.shared.skew.record(reading, ahead);
        ahead
    }

    /// Whether there may have been another primary before this one.
    fn is_successor(&self) -> bool {
        let has_moved = self.shared.router().is_some_and(|router| router.has_changed());
        has_moved || self.shared.failovers() > 0
    }

    /// Returns the lead as measured for the current primary; 0 before that.
    fn known_ahead(&self) -> u64 {
        if *lock(&self.is_measured) { self.ahead() } else { 0 }
    }

    /// Returns the lead of fencing tokens over the node's clock, in µs.
    pub(super) fn ahead(&self) -> u64 {
        self.ahead.load(Ordering::Acquire)
    }

    /// Returns the servers on the node; `None` while it is down, and if they could not be counted.
    pub(super) fn servers(&self) -> Option<NodeServers> {
        (*lock(&self.servers)).filter(|_| self.is_up())
    }

    /// Returns the last primary id seen, and since when it is known.
    pub(super) fn sighting(&self) -> Option<Sighting> {
        lock(&self.seen).as_ref().map(SeenPrimary::sighting)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor").field("state", &*self.state.borrow()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
