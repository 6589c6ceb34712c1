//! Knows whether a node answers, so that a call to a dead one fails at once.

mod inspect;

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
    Eviction, StoreState, evaluate,
    lane::Shared,
    leader::{Leader, Seen},
    skew::Reading,
    source::Source,
};
use crate::{decision::Sighting, error::Error};
use inspect::{Probe, Verdict};

const PROBE_EVERY: Duration = Duration::from_millis(250);
/// A probe unanswered for this long means down.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the Sentinels are asked whether another primary leads.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How often it is said that a Redis may forget which is used all the same.
const WARN_EVERY: Duration = Duration::from_secs(300);

/// The most that fencing tokens run ahead of a clock, in µs: an hour.
const AHEAD_MAX: u64 = 3_600_000_000;

/// By how much the clock of a primary that does not say who it is (INFO) has to be behind
/// to be taken for another one's, in µs.
const UNSEEN_MAX: u64 = 100_000;

/// Follows the state of a node.
pub(super) struct Monitor {
    source: Source,
    eviction: Eviction,
    state: watch::Sender<StoreState>,
    /// Grows when a connection is lost; older connections are not lent again.
    epoch: AtomicU64,
    /// Whether a call was answered since the last probe.
    answered: AtomicBool,
    /// Whether it has answered what is the reason that it is down.
    has_answered: AtomicBool,
    reason: Mutex<String>,
    /// When it was last warned of.
    warned: Mutex<Option<Instant>>,
    /// The key that it is probed with, as far as that is known.
    probe_key: Mutex<Option<String>>,
    /// How far fencing tokens run ahead of its clock, in µs.
    ahead: AtomicU64,
    /// Whether that is known, of the primary that leads now.
    is_measured: Mutex<bool>,
    /// Who it is, where that was seen.
    seen: Mutex<Option<Seen>>,
    /// Where losses and failovers are counted.
    shared: Arc<Shared>,
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
            has_answered: AtomicBool::new(false),
            warned: Mutex::default(),
            probe_key: Mutex::default(),
            ahead: AtomicU64::new(0),
            is_measured: Mutex::default(),
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
        *self.state.borrow() != StoreState::Down
    }

    /// Whether it takes writes, too.
    pub(super) fn takes_writes(&self) -> bool {
        *self.state.borrow() == StoreState::Up
    }

    /// Whether it is reached all the same while it is down.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Acquire)
    }

    /// Fails while the node is down.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.is_up() { Ok(()) } else { Err(self.down()) }
    }

    /// Why calls fail while the node is down.
    pub(super) fn down(&self) -> Error {
        let why = self.reason().clone();
        if self.has_answered() { Error::Refused(why) } else { Error::Unavailable(why) }
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
        lock(&self.reason)
    }

    /// It is down; `answers` says whether it is reached, but refuses all calls.
    fn set_down(&self, reason: &str, answers: bool, is_first: bool) {
        self.has_answered.store(answers, Ordering::Release);
        if self.fall(reason) != StoreState::Down || is_first {
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
        if self.state.send_replace(StoreState::Up) != StoreState::Up {
            tracing::info!("the store is up");
        }
    }

    fn set_refusing(&self, why: &str) {
        if self.state.send_replace(StoreState::Refusing) != StoreState::Refusing {
            tracing::warn!(
                why,
                "the store refuses writes; calls that write fail with UNAVAILABLE until it takes them"
            );
        }
    }

    /// Probes for ever, also while calls are answered: those may go over connections that
    /// are younger than a restart which nobody noticed.
    pub(super) async fn probe(&self) {
        let mut probe = Probe { socket: None, epoch: 0, is_first: true, count: 0 };
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
        let asked = async {
            named?;
            self.ask(probe).await
        };
        match timeout(PROBE_TIMEOUT, asked).await {
            Ok(Ok(Verdict::Fit)) => return self.set_up(),
            Ok(Ok(Verdict::Refuses(why))) => return self.set_refusing(&why),
            Ok(Ok(Verdict::Unfit(why))) => self.set_down(&why, true, is_first),
            Ok(Err(error)) => {
                let answers = error.code().is_some_and(|code| {
                    matches!(evaluate::refused(code, String::new()), Error::Refused(_))
                });
                self.set_down(&error.to_string(), answers, is_first);
            }
            // Calls were answered, or have been since.
            Err(_) if is_busy || self.answered.load(Ordering::Relaxed) => return,
            Err(_) => self.set_down("no answer to PING", false, is_first),
        }
        probe.socket = None;
    }

    fn note_leader(&self, leader: Leader) {
        if leader.history.is_empty() {
            return; // It does not say.
        }
        // Until this is decided no other connection is measured.
        let mut is_measured = lock(&self.is_measured);
        let mut seen = lock(&self.seen);
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
            *is_measured = false;
            self.shared.note_failover();
            self.note_loss(self.epoch());
        }
    }

    /// Notes its clock, and how far tokens run ahead of it as other servers know; how far
    /// they do.
    fn note_clock(&self, reading: &Reading, told: u64) -> u64 {
        let mut is_measured = lock(&self.is_measured);
        let is_new = !std::mem::replace(&mut *is_measured, true);
        let behind = self.shared.skew.ahead(reading);
        let is_known = lock(&self.seen).is_some();
        let is_other = match is_known {
            true => is_new && self.is_successor(),
            false => behind > self.ahead() + UNSEEN_MAX,
        };
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
                "this primary's clock is behind: fencing tokens run ahead of it"
            );
        }
        self.shared.skew.note(reading, ahead);
        ahead
    }

    /// Whether another primary may have led before it.
    fn is_successor(&self) -> bool {
        let has_moved = self.shared.topology().is_some_and(|topology| topology.has_changed());
        has_moved || self.shared.failovers() > 0
    }

    /// How far they run ahead of its clock as far as that is known of this primary.
    fn known_ahead(&self) -> u64 {
        if *lock(&self.is_measured) { self.ahead() } else { 0 }
    }

    /// How far fencing tokens run ahead of its clock, in µs.
    pub(super) fn ahead(&self) -> u64 {
        self.ahead.load(Ordering::Acquire)
    }

    fn probe_key(&self) -> Option<String> {
        let mut key = lock(&self.probe_key);
        if key.is_none() {
            let topology = self.shared.topology()?;
            *key = topology.probe_key(self, &self.shared.probe_key);
        }
        key.clone()
    }

    fn forget_probe_key(&self) {
        *lock(&self.probe_key) = None;
    }

    /// Whom it was seen to lead as, and for how long.
    pub(super) fn sighting(&self) -> Option<Sighting> {
        lock(&self.seen).as_ref().map(Seen::sighting)
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
