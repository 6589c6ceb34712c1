//! The state that calls and the threads of the journal share.

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
};

use tokio::sync::watch;

use super::{super::super::StoreState, ChangeQueue, Durability, lock, waiting::Waiters};
use crate::budget::CallerLimits;
use tollgate_core::error::Error;

/// A write to redb starts immediately if this fraction of the maximum bytes or changes is queued.
const MUCH: usize = 4;
/// A write to redb starts immediately if a batch contains this number of changes.
const MANY: usize = 50_000;
/// The thread of redb adds changes to its batch when this number is queued. They are then still in
/// the processor's cache, and later changes replace earlier ones.
const GATHERED: usize = 4_096;

#[derive(Debug)]
pub(super) struct JournalState {
    pub(super) durability: Durability,
    pub(super) queue: Mutex<ChangeQueue>,
    /// Wakes the thread of redb for an urgent write.
    pub(super) wake: Condvar,
    /// Wakes the thread of the log.
    pub(super) wake_log: Condvar,
    /// The number of the last logged change.
    pub(super) logged: AtomicU64,
    /// The number of the last synced change.
    pub(super) written: AtomicU64,
    /// The calls that wait for one of these numbers.
    pub(super) waiters: Waiters,
    /// The error of the last write that failed.
    pub(super) failure: Mutex<Option<Arc<str>>>,
    /// The state of the store, for health.
    pub(super) state: watch::Sender<StoreState>,
    /// Whether writes to redb fail.
    pub(super) is_sync_failing: AtomicBool,
    /// Whether writes to the log fail.
    pub(super) is_log_failing: AtomicBool,
    /// Whether a write hangs.
    pub(super) is_stalled: AtomicBool,
    /// Maximum bytes of unsynced changes.
    pub(super) bytes_max: AtomicUsize,
    /// Maximum number of queued changes.
    pub(super) changes_max: AtomicUsize,
}

impl JournalState {
    /// Creates a state in which redb has all changes up to `last`.
    pub(super) fn new(durability: Durability, queue: ChangeQueue, last: u64) -> JournalState {
        JournalState {
            durability,
            queue: Mutex::new(queue),
            wake: Condvar::new(),
            wake_log: Condvar::new(),
            logged: AtomicU64::new(last),
            written: AtomicU64::new(last),
            waiters: Waiters::default(),
            failure: Mutex::default(),
            state: watch::Sender::new(StoreState::Up),
            is_sync_failing: AtomicBool::new(false),
            is_log_failing: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            bytes_max: AtomicUsize::new(CallerLimits::DEFAULT.unsynced_bytes),
            changes_max: AtomicUsize::new(CallerLimits::DEFAULT.unsynced_changes),
        }
    }

    /// Whether writes fail.
    pub(super) fn is_failing(&self) -> bool {
        self.is_sync_failing.load(Ordering::Acquire) || self.is_log_failing.load(Ordering::Acquire)
    }

    /// Returns the error of calls while writes fail.
    pub(super) fn unavailable(&self) -> Error {
        let failure = lock(&self.failure).clone();
        let why = failure.as_deref().unwrap_or("a write takes too long");
        Error::Unavailable(format!("cannot write to the data directory: {why}"))
    }

    /// Records that a write succeeded, to redb or to the log.
    pub(super) fn record_success(&self, is_failing: &AtomicBool) {
        if is_failing.swap(false, Ordering::AcqRel) && !self.is_failing() {
            tracing::info!("writes to the data directory succeed again: calls are accepted");
            self.publish();
        }
    }

    /// Records that a write failed, to redb or to the log. From now on calls are refused.
    pub(super) fn record_failure(&self, is_failing: &AtomicBool, why: &str) {
        *lock(&self.failure) = Some(why.into());
        let was_failing = self.is_failing();
        is_failing.store(true, Ordering::Release);
        if !was_failing {
            tracing::error!(
                why,
                "cannot write to the data directory: calls fail with UNAVAILABLE until a write \
                 succeeds"
            );
            self.publish();
        }
    }

    /// Publishes the state of the store. The flags are read inside the update, so the last
    /// publication reflects both.
    pub(super) fn publish(&self) {
        self.state.send_modify(|state| {
            let is_down = self.is_failing() || self.is_stalled.load(Ordering::Acquire);
            *state = if is_down { StoreState::Down } else { StoreState::Up };
        });
    }

    /// Whether the thread of redb has something to do now.
    pub(super) fn is_urgent(&self, queue: &ChangeQueue) -> bool {
        let [count, bytes] = queue.ready();
        self.is_write_due(queue) || count >= GATHERED || self.is_much(count, bytes)
    }

    /// Whether redb must write now, whatever its batch contains.
    pub(super) fn is_write_due(&self, queue: &ChangeQueue) -> bool {
        let is_awaited = self.durability == Durability::Always && queue.ready()[0] > 0;
        queue.is_write_due() || is_awaited
    }

    /// Whether these changes are enough for a write now.
    pub(super) fn is_much(&self, count: usize, bytes: usize) -> bool {
        bytes >= self.bytes_max.load(Ordering::Relaxed) / MUCH
            || count >= MANY.min(self.changes_max.load(Ordering::Relaxed) / MUCH)
    }
}

/// Guard that reports a failure if a thread of the journal panics.
pub(super) struct FailureGuard(pub(super) Arc<JournalState>);

impl Drop for FailureGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            let why = "a thread of the journal has failed; restart the server";
            self.0.record_failure(&self.0.is_log_failing, why);
            self.0.record_failure(&self.0.is_sync_failing, why);
        }
    }
}
