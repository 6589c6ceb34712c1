//! The journal: persists the changes of decisions, in batches, on its own thread.
//!
//! Decisions push their changes under the mutex of their shard ([`Journal::push`]). The thread
//! writes all queued changes as one batch, synced once for all waiting calls. Under `always` the
//! next batch starts at once; there is no timer. Under `interval` it starts after half a second, or
//! when enough is queued. A call waits in [`Journal::synced`] for the durability that it needs.
//!
//! # If writes fail
//! A full or failing disk loses no acknowledged change. From the first failure on, calls are
//! refused before they are decided ([`Error::Unavailable`], certainly not executed), reads too:
//! they could see unsynced changes. Queued changes are written again every [`RETRY_EVERY`]. Their
//! calls wait, and end with an unknown fate at their deadline. After the first successful write the
//! engine recovers without a restart.
//!
//! # If a write hangs
//! When the oldest unsynced change is [`STALLED_AFTER`] old, the store counts as down and health
//! reports NOT_SERVING. Calls wait as for a slow disk. Once `unsynced_bytes` of changes wait,
//! further calls are refused before they are decided ([`Error::UnsyncedFull`]). With
//! `unsynced_changes` in line they are refused as well ([`Error::Overloaded`]).
//!
//! # What a kill loses
//! - [`Durability::Always`]: no acknowledged change.
//! - [`Durability::Interval`]: at most one second of acknowledged changes. While a change older
//!   than [`AGE_MAX`] is unsynced, no call is acknowledged before its changes are synced. So the
//!   lost second is the last one before the kill, or before the disk stalled.
//!
//! The age of changes is measured on the engine's clock. A simulation can step that clock and call
//! [`JournalWriter::write`], and needs neither a thread nor real time.

mod queue;
mod writer;

use std::{
    fs, mem,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tokio::{sync::watch, time::timeout_at};

use super::{
    super::StoreState,
    store::{FileStore, WriteBatch},
};
use crate::decision::{
    budget::{self, CallerLimits, ReachedLimit},
    error::Error,
    persistence::Row,
    time::{Keeps, KeptClock},
};
use queue::ChangeQueue;
pub use writer::JournalWriter;

/// The longest time between two writes, of changes or of the clock's mark.
const WRITE_EVERY: Duration = Duration::from_millis(500);
/// Calls wait while an unsynced change is older than this, so that a slow disk never risks more
/// than one second.
const AGE_MAX: Duration = Duration::from_millis(950);
/// The pause after a failed write.
const RETRY_EVERY: Duration = Duration::from_millis(250);
/// The age of an unsynced change at which the disk counts as hanging.
const STALLED_AFTER: Duration = Duration::from_secs(2);
/// A write starts at once if this fraction of the bytes, or of the changes, is queued.
const MUCH: usize = 4;
/// A write starts at once if this number of changes is queued.
const MANY: usize = 50_000;
/// With this number of queued changes, the sweeper pauses, so that calls need not wait for its
/// changes. Under `interval` calls rarely wait, so it may be more.
const SWEPT_ALWAYS_MAX: usize = 5000;
const SWEPT_INTERVAL_MAX: usize = 20_000;

/// The durability that an answer promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// The decision is synced to the disk.
    Always,
    /// The decision is synced within a second. If the disk is slower, the answer waits for it.
    #[default]
    Interval,
}

impl Durability {
    /// The acknowledged changes that survive a kill.
    pub(super) fn keeps(self) -> Keeps {
        match self {
            Durability::Always => Keeps::All,
            Durability::Interval => Keeps::Most,
        }
    }
}

/// Queues changes, and waits until they are synced.
#[derive(Debug)]
pub(in super::super) struct Journal {
    shared: Arc<JournalState>,
    clock: Arc<KeptClock>,
    /// The file of the store.
    file: PathBuf,
    /// The journal thread; `None` in simulations and after `close`.
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct JournalState {
    durability: Durability,
    queue: Mutex<ChangeQueue>,
    /// Wakes the thread for an urgent write.
    wake: Condvar,
    /// Wakes the calls whose changes are synced.
    progress: watch::Sender<SyncProgress>,
    /// The condition of the store, for health.
    state: watch::Sender<StoreState>,
    /// Whether writes fail.
    is_failing: AtomicBool,
    /// Whether a write hangs.
    is_stalled: AtomicBool,
    /// The most bytes of unsynced changes.
    bytes_max: AtomicUsize,
    /// The most queued changes.
    changes_max: AtomicUsize,
}

#[derive(Debug, Default)]
struct SyncProgress {
    /// The number of the last synced change.
    written: u64,
    /// The error of the last write, if it failed.
    failure: Option<Arc<str>>,
}

impl Journal {
    /// Creates a journal and its writer.
    pub(super) fn new(
        store: FileStore,
        clock: Arc<KeptClock>,
        durability: Durability,
    ) -> (Journal, JournalWriter) {
        let shared = Arc::new(JournalState {
            durability,
            queue: Mutex::default(),
            wake: Condvar::new(),
            progress: watch::Sender::default(),
            state: watch::Sender::new(StoreState::Up),
            is_failing: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            bytes_max: AtomicUsize::new(CallerLimits::DEFAULT.unsynced_bytes),
            changes_max: AtomicUsize::new(CallerLimits::DEFAULT.unsynced_changes),
        });
        let file = store.path().to_owned();
        let writer = JournalWriter {
            shared: shared.clone(),
            store,
            clock: clock.clone(),
            batch: WriteBatch::default(),
        };
        (Journal { shared, clock, file, thread: Mutex::default() }, writer)
    }

    /// The size of the file, in bytes, and the number of changes that wait for the disk.
    pub(in super::super) fn usage(&self) -> (u64, u64) {
        let bytes = fs::metadata(&self.file).map_or(0, |file| file.len());
        (bytes, lock(&self.shared.queue).count as u64)
    }

    /// Starts the journal thread.
    pub(super) fn spawn(&self, writer: JournalWriter) -> std::io::Result<()> {
        let thread = thread::Builder::new().name("journal".into()).spawn(move || writer.run())?;
        *lock(&self.thread) = Some(thread);
        Ok(())
    }

    /// Makes the thread write at once.
    fn ask_for_write(&self, queue: &mut ChangeQueue) {
        queue.is_write_due = true;
        if mem::take(&mut queue.is_idle) {
            self.shared.wake.notify_one();
        }
    }

    /// Takes a call in, or refuses it and counts the refusal.
    pub(in super::super) fn admit(&self) -> Result<(), Error> {
        self.check().inspect_err(|error| match error {
            Error::UnsyncedFull { .. } => budget::note(ReachedLimit::UnsyncedBytes),
            Error::Overloaded => budget::note(ReachedLimit::Overload),
            _ => {}
        })
    }

    /// Whether a call can be accepted now; see the module documentation for the errors.
    pub(in super::super) fn check(&self) -> Result<(), Error> {
        if self.shared.is_failing.load(Ordering::Acquire) {
            return Err(self.shared.unavailable());
        }
        let queue = lock(&self.shared.queue);
        let max = self.shared.bytes_max.load(Ordering::Relaxed);
        if queue.unsynced_bytes() >= max {
            return Err(Error::UnsyncedFull { max });
        }
        match queue.count < self.shared.changes_max.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(Error::Overloaded),
        }
    }

    /// Sets the most bytes of unsynced changes, and the most queued changes.
    pub(super) fn set_limits(&self, limits: &CallerLimits) {
        self.shared.bytes_max.store(limits.unsynced_bytes, Ordering::Relaxed);
        self.shared.changes_max.store(limits.unsynced_changes, Ordering::Relaxed);
    }

    /// Checks whether the disk hangs, and reports a change of that. Called every 250 ms.
    pub(super) fn look(&self) {
        let shared = &self.shared;
        // A failing disk already counts as down for another reason.
        let is_stalled = lock(&shared.queue).age(self.clock.source()) >= STALLED_AFTER
            && !shared.is_failing.load(Ordering::Acquire);
        if shared.is_stalled.swap(is_stalled, Ordering::AcqRel) == is_stalled {
            return;
        }
        match is_stalled {
            true => tracing::error!(
                "the disk of the data directory hangs: a change has been unsynced for \
                 {STALLED_AFTER:?}; calls wait, and health is NOT_SERVING until it recovers"
            ),
            false => tracing::info!(
                "the disk of the data directory has recovered: changes are synced in time"
            ),
        }
        shared.publish();
    }

    /// Whether there is room for changes that no call waits for. If not, a write that makes room
    /// starts at once.
    pub(super) fn has_room(&self) -> bool {
        let most = match self.shared.durability {
            Durability::Always => SWEPT_ALWAYS_MAX,
            Durability::Interval => SWEPT_INTERVAL_MAX,
        };
        let mut queue = lock(&self.shared.queue);
        let has_room = queue.count < most && !self.shared.is_much(&queue);
        if !has_room {
            self.ask_for_write(&mut queue);
        }
        has_room && !self.shared.is_failing.load(Ordering::Acquire)
    }

    /// Queues the changes of a decision. Returns their number in the journal, from 1.
    pub(super) fn push(&self, changes: &Row) -> u64 {
        let mut queue = lock(&self.shared.queue);
        let ticket = queue.push(changes, self.clock.source());
        let is_urgent = self.shared.durability == Durability::Always || self.shared.is_much(&queue);
        if is_urgent && mem::take(&mut queue.is_idle) {
            self.shared.wake.notify_one();
        }
        ticket
    }

    /// Whether a call may be answered that has seen changes up to this number. Under `interval`
    /// that is usually so at once.
    pub(super) fn is_synced(&self, change: u64) -> bool {
        let shared = &self.shared;
        if shared.progress.borrow().written >= change {
            return true;
        }
        // An early answer needs three conditions: its tokens are within the synced reservation,
        // writes succeed, and no change is too old.
        let source = self.clock.source();
        shared.durability == Durability::Interval
            && self.clock.is_reserved(source)
            && !shared.is_failing.load(Ordering::Acquire)
            && lock(&shared.queue).age(source) < AGE_MAX
    }

    /// Returns once all changes up to this number are synced. Fails with
    /// [`Error::DeadlineExceeded`].
    pub(super) async fn synced(&self, change: u64, deadline: Instant) -> Result<(), Error> {
        let shared = &self.shared;
        if shared.durability == Durability::Interval && !self.clock.is_reserved(self.clock.source())
        {
            self.ask_for_write(&mut lock(&shared.queue));
        }
        let mut progress = shared.progress.subscribe();
        let is_synced = |progress: &SyncProgress| progress.written >= change;
        match timeout_at(deadline.into(), progress.wait_for(is_synced)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Error::DeadlineExceeded),
        }
    }

    /// Follows whether writes succeed in time.
    pub(in super::super) fn state(&self) -> watch::Receiver<StoreState> {
        self.shared.state.subscribe()
    }

    /// Writes all queued changes and ends the thread.
    pub(super) fn close(&self) {
        lock(&self.shared.queue).is_closing = true;
        self.shared.wake.notify_one();
        let thread = lock(&self.thread).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the journal thread has failed: queued changes may be lost");
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close();
    }
}

impl JournalState {
    /// The error of calls while writes fail.
    fn unavailable(&self) -> Error {
        let progress = self.progress.borrow();
        let why = progress.failure.as_deref().unwrap_or("a write takes too long");
        Error::Unavailable(format!("cannot write to the data directory: {why}"))
    }

    /// Records a successful write, and answers the calls that waited for it.
    fn note_written(&self, ticket: u64) {
        if self.is_failing.swap(false, Ordering::AcqRel) {
            tracing::info!("writes to the data directory succeed again: calls are accepted");
            self.publish();
        }
        self.progress.send_modify(|progress| {
            *progress = SyncProgress { written: ticket, failure: None };
        });
    }

    /// Records a failed write. From now on calls are refused.
    fn note_failure(&self, why: &str) {
        self.progress.send_modify(|progress| progress.failure = Some(why.into()));
        if !self.is_failing.swap(true, Ordering::AcqRel) {
            tracing::error!(
                why,
                "cannot write to the data directory: calls fail with UNAVAILABLE until a write \
                 succeeds"
            );
            self.publish();
        }
    }

    /// Publishes the condition of the store. The flags are read inside the update, so the last
    /// publication reflects both.
    fn publish(&self) {
        self.state.send_modify(|state| {
            let is_down =
                self.is_failing.load(Ordering::Acquire) || self.is_stalled.load(Ordering::Acquire);
            *state = if is_down { StoreState::Down } else { StoreState::Up };
        });
    }

    /// Whether enough bytes or changes are queued for a write at once.
    fn is_much(&self, queue: &ChangeQueue) -> bool {
        queue.bytes() >= self.bytes_max.load(Ordering::Relaxed) / MUCH
            || queue.count >= MANY.min(self.changes_max.load(Ordering::Relaxed) / MUCH)
    }
}

/// A poisoned lock is still usable: a panic while it is held would be reported as such.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
