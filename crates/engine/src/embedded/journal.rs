//! The journal persists the changes of decisions, in batches, on its own threads.
//!
//! Decisions push their changes under the mutex of their shard ([`Journal::push`]). A call waits in
//! [`Journal::synced`] for the durability that it needs.
//!
//! - [`Durability::Always`]: a thread writes all queued changes to redb as one batch, synced once for
//!   all waiting calls. The next batch starts immediately; there is no timer.
//! - [`Durability::Interval`]: another thread appends all queued changes to the log
//!   ([`LogWriter`]), in one write for all waiting calls, which are then answered. The changes of
//!   the log are written to redb and synced every half second, or when enough of them are queued.
//!   Callers never write themselves, because a file system that hangs would block their thread.
//! - [`Durability::None`]: the same, but without the log. Calls are answered without waiting.
//!
//! # If writes fail
//! A full or failing disk loses no acknowledged change. From the first failure on, calls are
//! refused before they are decided ([`Error::Unavailable`], certainly not executed), and so are
//! reads, because they could see unsynced changes. Queued changes are written again every
//! [`RETRY_EVERY`]. Their calls wait, and end at their deadline with an unknown outcome. After the
//! first successful write the engine recovers without a restart.
//!
//! # If a write hangs
//! When the oldest unsynced change is [`STALLED_AFTER`] old, the store counts as down and health
//! reports NOT_SERVING. Calls wait as they would for a slow disk. Once `unsynced_bytes` of changes
//! are waiting, further calls are refused before they are decided ([`Error::UnsyncedFull`]). They
//! are also refused once `unsynced_changes` are queued ([`Error::Overloaded`]).
//!
//! # What a kill loses
//! - [`Durability::Always`]: no acknowledged change.
//! - [`Durability::Interval`]: no acknowledged change. A power loss loses at most one second of
//!   them: while a change older than [`AGE_MAX`] is unsynced, no call is acknowledged before its
//!   changes are synced. The lost second is therefore the last one before the power loss, or before
//!   the disk stalled.
//! - [`Durability::None`]: a kill and a power loss both lose up to that second.
//!
//! Numbers that must not repeat are always reserved ahead: fencing tokens by the mark of the clock,
//! and the values of a sequence by its own mark. An answer waits until the reservation is synced
//! ([`Seen`]).
//!
//! The age of changes is measured on the engine's clock. A simulation can step that clock and call
//! [`JournalWriter::write`], so it needs neither a thread nor real time.

mod log_writer;
mod queue;
mod state;
mod waiting;
mod writer;

use std::{
    fs, mem,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tokio::{sync::watch, time::timeout_at};

use super::{
    super::StoreState,
    store::{FileStore, WriteBatch},
};
use crate::budget::{CallerLimits, ReachedLimit};
use log_writer::LogWriter;
use queue::ChangeQueue;
use state::{FailureGuard, JournalState};
use tollgate_core::{
    error::Error,
    record::Row,
    time::{Keeps, KeptClock},
};
use waiting::SyncWait;
pub use writer::JournalWriter;

/// Maximum time between two writes of changes or of the clock's mark.
const WRITE_EVERY: Duration = Duration::from_millis(500);
/// Calls wait while an unsynced change is older than this, so that a slow disk never risks more
/// than one second.
const AGE_MAX: Duration = Duration::from_millis(950);
/// The pause after a failed write.
const RETRY_EVERY: Duration = Duration::from_millis(250);
/// The age of an unsynced change at which the disk counts as hanging.
const STALLED_AFTER: Duration = Duration::from_secs(2);
/// The sweeper pauses at this number of queued changes, so that calls need not wait for its
/// changes. Under `interval`, calls rarely wait, so the number may be higher.
const SWEPT_ALWAYS_MAX: usize = 5000;
const SWEPT_INTERVAL_MAX: usize = 20_000;

/// The durability that an answer promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// The decision is synced to the disk.
    Always,
    /// The decision has been passed to the operating system, and is synced within a second. If the
    /// disk is slower, the answer waits for it.
    #[default]
    Interval,
    /// The decision is synced within a second, as with `Interval`; a kill before that loses it.
    None,
}

/// The changes that an answer depends on, by their numbers in the journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// The last change of the shard. It must be as durable as [`Durability`] promises.
    pub(super) change: u64,
    /// The change that reserves a number of the answer; 0 for none. It must be synced.
    pub(super) reservation: u64,
}

impl Seen {
    /// Combines the changes that two answers depend on.
    pub(in super::super) fn and(self, other: Seen) -> Seen {
        let change = self.change.max(other.change);
        Seen { change, reservation: self.reservation.max(other.reservation) }
    }
}

impl Durability {
    /// Returns which acknowledged changes survive a kill.
    pub(super) fn keeps(self) -> Keeps {
        match self {
            Durability::Always => Keeps::All,
            Durability::Interval | Durability::None => Keeps::Most,
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
    /// The thread of the log, if there is one, and the thread of redb. Empty in simulations and
    /// after `close`.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Journal {
    /// Creates a journal and its writer.
    pub(super) fn new(
        mut store: FileStore,
        clock: Arc<KeptClock>,
        durability: Durability,
    ) -> (Journal, JournalWriter) {
        let (last, is_logged) = (store.last(), durability == Durability::Interval);
        let queue = ChangeQueue::after(last, is_logged);
        let shared = Arc::new(JournalState::new(durability, queue, last));
        let file = store.path().to_owned();
        let log = is_logged.then(|| LogWriter::new(&shared, store.take_log(), &clock));
        let writer = JournalWriter {
            shared: shared.clone(),
            log,
            store,
            clock: clock.clone(),
            batch: WriteBatch::default(),
        };
        (Journal { shared, clock, file, threads: Mutex::default() }, writer)
    }

    /// Returns the size of the file, in bytes, and the number of changes that wait for the disk.
    pub(in super::super) fn usage(&self) -> (u64, u64) {
        let bytes = fs::metadata(&self.file).map_or(0, |file| file.len());
        (bytes, lock(&self.shared.queue).count as u64)
    }

    /// Starts the threads of the journal.
    pub(super) fn spawn(&self, mut writer: JournalWriter) -> std::io::Result<()> {
        let mut threads = lock(&self.threads);
        if let Some(log) = writer.log.take() {
            threads.push(thread::Builder::new().name("log".into()).spawn(move || log.run())?);
        }
        threads.push(thread::Builder::new().name("journal".into()).spawn(move || writer.run())?);
        Ok(())
    }

    /// Whether acknowledged changes can be lost, so that numbers are reserved ahead of them.
    pub(super) fn reserves(&self) -> bool {
        self.shared.durability != Durability::Always
    }

    /// Makes redb write the queued changes as soon as they are logged, together with the mark of
    /// the clock.
    fn ask_for_write(&self, queue: &mut ChangeQueue) {
        queue.ask_for_write();
        if self.shared.is_urgent(queue) && mem::take(&mut queue.is_idle) {
            self.shared.wake.notify_one();
        }
    }

    /// Admits a call, or refuses it and counts the refusal.
    pub(in super::super) fn admit(&self) -> Result<(), Error> {
        self.check().inspect_err(|error| match error {
            Error::UnsyncedFull { .. } => ReachedLimit::UnsyncedBytes.record(),
            Error::Overloaded => ReachedLimit::Overload.record(),
            _ => {}
        })
    }

    /// Whether a call can be accepted now; see the module documentation for the errors.
    pub(in super::super) fn check(&self) -> Result<(), Error> {
        if self.shared.is_failing() {
            return Err(self.shared.unavailable());
        }
        let queue = lock(&self.shared.queue);
        let max = self.shared.bytes_max.load(Ordering::Relaxed);
        if queue.unsynced_bytes() >= max {
            return Err(Error::UnsyncedFull { max });
        }
        if queue.count < self.shared.changes_max.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(Error::Overloaded)
        }
    }

    /// Sets the maximum bytes of unsynced changes and the maximum number of queued changes.
    pub(super) fn set_limits(&self, limits: &CallerLimits) {
        self.shared.bytes_max.store(limits.unsynced_bytes, Ordering::Relaxed);
        self.shared.changes_max.store(limits.unsynced_changes, Ordering::Relaxed);
    }

    /// Checks whether the disk hangs, and reports if that has changed. Called every 250 ms.
    pub(super) fn look(&self) {
        let shared = &self.shared;
        // A failing disk already counts as down.
        let is_stalled =
            lock(&shared.queue).age(self.clock.source()) >= STALLED_AFTER && !shared.is_failing();
        if shared.is_stalled.swap(is_stalled, Ordering::AcqRel) == is_stalled {
            return;
        }
        if is_stalled {
            tracing::error!(
                "the disk of the data directory hangs: a change has been unsynced for \
                 {STALLED_AFTER:?}; calls wait, and health is NOT_SERVING until it recovers"
            )
        } else {
            tracing::info!(
                "the disk of the data directory has recovered: changes are synced in time"
            )
        }
        shared.publish();
    }

    /// Whether there is room for changes that no call waits for. If not, a write that makes room
    /// starts immediately.
    pub(super) fn has_room(&self) -> bool {
        let most = match self.shared.durability {
            Durability::Always => SWEPT_ALWAYS_MAX,
            Durability::Interval | Durability::None => SWEPT_INTERVAL_MAX,
        };
        let mut queue = lock(&self.shared.queue);
        let has_room = queue.count < most && !self.shared.is_much(queue.count, queue.bytes());
        if !has_room {
            self.ask_for_write(&mut queue);
        }
        has_room && !self.shared.is_failing()
    }

    /// Queues the changes of a decision. Returns their number in the journal, from 1.
    pub(super) fn push(&self, changes: &Row) -> u64 {
        let mut queue = lock(&self.shared.queue);
        let ticket = queue.push(changes, self.clock.source());
        let (is_idle, wake) = match self.shared.durability {
            Durability::Interval => {
                let is_due = queue.is_log_due();
                (is_due && mem::take(&mut queue.is_log_idle), &self.shared.wake_log)
            }
            _ => {
                (self.shared.is_urgent(&queue) && mem::take(&mut queue.is_idle), &self.shared.wake)
            }
        };
        drop(queue);
        if is_idle {
            wake.notify_one();
        }
        ticket
    }

    /// Whether a call may be answered that has seen these changes.
    pub(super) fn is_synced(&self, Seen { change, reservation }: Seen) -> bool {
        let shared = &self.shared;
        let written = shared.written.load(Ordering::Acquire);
        if written >= change.max(reservation) {
            return true;
        }
        let is_logged = match shared.durability {
            Durability::Always => false,
            Durability::Interval => shared.logged.load(Ordering::Acquire) >= change,
            Durability::None => true,
        };
        if !is_logged || written < reservation {
            return false;
        }
        // An early answer needs three conditions: its tokens are within the synced reservation,
        // writes succeed, and no change is too old.
        let source = self.clock.source();
        self.clock.is_reserved(source)
            && !shared.is_failing()
            && lock(&shared.queue).age(source) < AGE_MAX
    }

    /// Waits until [`Journal::is_synced`]. Fails with [`Error::DeadlineExceeded`].
    pub(super) async fn synced(&self, seen: Seen, deadline: Instant) -> Result<(), Error> {
        let shared = &self.shared;
        let is_reserved = shared.written.load(Ordering::Acquire) >= seen.reservation
            && self.clock.is_reserved(self.clock.source());
        if self.reserves() && !is_reserved {
            self.ask_for_write(&mut lock(&shared.queue));
        }
        let waiting = SyncWait::new(&shared.waiters, || self.is_synced(seen));
        timeout_at(deadline.into(), waiting).await.map_err(|_| Error::DeadlineExceeded)
    }

    /// Subscribes to the state of the store: whether writes succeed in time.
    pub(in super::super) fn state(&self) -> watch::Receiver<StoreState> {
        self.shared.state.subscribe()
    }

    /// Writes all queued changes and ends the threads.
    pub(super) fn close(&self) {
        lock(&self.shared.queue).is_log_closing = true;
        self.shared.wake_log.notify_one();
        let mut threads = mem::take(&mut *lock(&self.threads));
        let last = threads.pop();
        // redb then receives the last changes of the log.
        let mut has_failed = threads.into_iter().any(|log| log.join().is_err());
        lock(&self.shared.queue).is_closing = true;
        self.shared.wake.notify_one();
        has_failed |= last.is_some_and(|thread| thread.join().is_err());
        if has_failed {
            tracing::error!("a thread of the journal has failed: queued changes may be lost");
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close();
    }
}

/// Ignores poisoning, since a panic in a critical section is reported as such.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
