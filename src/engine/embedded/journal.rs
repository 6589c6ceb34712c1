//! Writes changes down, on a thread of its own.
//!
//! What has arrived while one batch was written is the next one: a write serves all that
//! wait for it, and there is no timer in between.
//!
//! # When it cannot be written
//! A full disk, or one that fails, loses nothing that was acknowledged, and under
//! [`Durability::Always`] nothing is acknowledged that is not down. From the first failure
//! on the engine takes no calls, neither those that would change something nor those that
//! would read what is not down: they are refused at once, with the reason
//! ([`Error::Unavailable`]: certainly not executed). What was decided before and is not down
//! stays in line and is tried again every [`RETRY_EVERY`] until it is, and its calls wait
//! for it: at their deadline nobody knows its fate. Then the engine goes on by itself.
//!
//! # When it does not end
//! A disk that hangs fails nothing. While the oldest change that is not synced is
//! [`STALLED_AFTER`] old the store counts as down, so that health says NOT_SERVING. Calls
//! wait for the disk as they do for a slow one, until so many bytes wait as `unsynced_bytes`
//! allows: further calls are refused at once ([`Error::UnsyncedFull`]), nothing is decided.
//!
//! # What a kill takes
//! Under [`Durability::Always`] nothing that was acknowledged. Under [`Durability::Interval`]
//! what was acknowledged within one second, at most: nothing is acknowledged ahead of the disk
//! while a change is in line that is [`AGE_MAX`] old, calls wait instead. Where the disk keeps
//! up that is the last second before the kill. Where it stalls, it is the second in which the
//! stall began, however long ago that is: what was acknowledged since waited, and is there.
//!
//! How old changes are is told by the engine's own clock, not by the thread's: whoever steps
//! that clock and calls [`Writer::write`] by hand has a journal without threads or real time.

mod queue;
mod writer;

use std::{
    mem,
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
    store::{Batch, Store},
};
use crate::{
    budget::{self, Limit},
    error::Error,
    record::Row,
    time::{Keeps, KeptClock},
};
use queue::Queue;
pub use writer::Writer;

/// What no call waits for is written so often, and the clock's mark looked at.
const WRITE_EVERY: Duration = Duration::from_millis(500);
/// Calls wait where a change is older than this and not down: a disk that is slower than
/// the load must not make more than a second of it.
const AGE_MAX: Duration = Duration::from_millis(950);
const RETRY_EVERY: Duration = Duration::from_millis(250);
/// The disk hangs where a change has waited so long to be synced.
const STALLED_AFTER: Duration = Duration::from_secs(2);
/// So many bytes of changes may wait to be synced unless something else is said.
pub const UNSYNCED_BYTES: usize = 16 << 20;
/// A write begins at once where more than this part of them is in line.
const MUCH: usize = 4;
/// More changes are not left in line for longer.
const MANY: usize = 50_000;
/// With so many in line no further call is taken.
const MOST: usize = 1_000_000;
/// With so many in line nothing is added that no call waits for: those that do would wait
/// for all of it. Where they do not wait for the disk it may be more.
const SWEPT_ALWAYS_MAX: usize = 5000;
const SWEPT_INTERVAL_MAX: usize = 20_000;

/// What an acknowledgement means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// What was decided is synced to the disk.
    Always,
    /// It is within a second; where the disk is slower than that, an answer waits for it.
    #[default]
    Interval,
}

impl Durability {
    /// What is left of what was answered when the process is killed.
    pub(super) fn keeps(self) -> Keeps {
        match self {
            Durability::Always => Keeps::All,
            Durability::Interval => Keeps::Most,
        }
    }
}

/// Takes changes, and tells when they are down.
#[derive(Debug)]
pub(in super::super) struct Journal {
    shared: Arc<Shared>,
    clock: Arc<KeptClock>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    durability: Durability,
    queue: Mutex<Queue>,
    wake: Condvar,
    progress: watch::Sender<Progress>,
    state: watch::Sender<StoreState>,
    /// Writes fail.
    is_failing: AtomicBool,
    /// Writes do not end.
    is_stalled: AtomicBool,
    /// So many bytes may wait to be synced.
    unsynced_max: AtomicUsize,
}

#[derive(Debug, Default)]
struct Progress {
    /// All changes up to this ticket are down.
    written: u64,
    /// Why later ones are not.
    failure: Option<Arc<str>>,
}

impl Journal {
    /// A journal, and what writes it.
    pub(super) fn new(
        store: Store,
        clock: Arc<KeptClock>,
        durability: Durability,
    ) -> (Journal, Writer) {
        let shared = Arc::new(Shared {
            durability,
            queue: Mutex::default(),
            wake: Condvar::new(),
            progress: watch::Sender::default(),
            state: watch::Sender::new(StoreState::Up),
            is_failing: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            unsynced_max: AtomicUsize::new(UNSYNCED_BYTES),
        });
        let writer =
            Writer { shared: shared.clone(), store, clock: clock.clone(), batch: Batch::default() };
        (Journal { shared, clock, thread: Mutex::default() }, writer)
    }

    /// Has it written by a thread of its own.
    pub(super) fn spawn(&self, writer: Writer) -> std::io::Result<()> {
        let thread = thread::Builder::new().name("journal".into()).spawn(move || writer.run())?;
        *lock(&self.thread) = Some(thread);
        Ok(())
    }

    fn ask_for_mark(&self) {
        let mut queue = lock(&self.shared.queue);
        queue.is_mark_due = true;
        if mem::take(&mut queue.is_idle) {
            self.shared.wake.notify_one();
        }
    }

    /// Takes a call in, or refuses it.
    pub(super) fn admit(&self) -> Result<(), Error> {
        self.check().inspect_err(|error| {
            if matches!(error, Error::UnsyncedFull { .. }) {
                budget::note(Limit::UnsyncedBytes);
            }
        })
    }

    /// Whether a call can be taken now.
    pub(in super::super) fn check(&self) -> Result<(), Error> {
        if self.shared.is_failing.load(Ordering::Acquire) {
            return Err(self.shared.unavailable());
        }
        let queue = lock(&self.shared.queue);
        let unsynced_max = self.shared.unsynced_max.load(Ordering::Relaxed);
        if queue.unsynced_bytes() >= unsynced_max {
            return Err(Error::UnsyncedFull { max: unsynced_max });
        }
        match queue.count < MOST {
            true => Ok(()),
            false => Err(Error::Overloaded),
        }
    }

    /// Says how many bytes of changes may wait to be synced.
    pub(super) fn set_unsynced_max(&self, bytes: usize) {
        self.shared.unsynced_max.store(bytes, Ordering::Relaxed);
    }

    /// Looks whether the disk hangs.
    pub(super) fn look(&self) {
        let shared = &self.shared;
        // One that fails does not hang: it is down for another reason.
        let is_stalled = lock(&shared.queue).age(self.clock.source()) >= STALLED_AFTER
            && !shared.is_failing.load(Ordering::Acquire);
        if shared.is_stalled.swap(is_stalled, Ordering::AcqRel) == is_stalled {
            return;
        }
        match is_stalled {
            true => tracing::error!(
                "the data directory hangs: changes have waited {STALLED_AFTER:?} to be synced; \
                 calls wait for it, health is NOT_SERVING until it goes on"
            ),
            false => tracing::info!("the data directory goes on: changes are synced in time"),
        }
        shared.publish();
    }

    /// Whether there is room for what no call waits for.
    pub(super) fn has_room(&self) -> bool {
        let most = match self.shared.durability {
            Durability::Always => SWEPT_ALWAYS_MAX,
            Durability::Interval => SWEPT_INTERVAL_MAX,
        };
        let queue = lock(&self.shared.queue);
        !self.shared.is_failing.load(Ordering::Acquire)
            && queue.count < most
            && !self.shared.is_much(&queue)
    }

    /// Puts changes in line; their ticket.
    pub(super) fn push(&self, changes: &Row) -> u64 {
        let mut queue = lock(&self.shared.queue);
        let ticket = queue.push(changes, self.clock.source());
        let is_urgent = self.shared.durability == Durability::Always
            || queue.count >= MANY
            || self.shared.is_much(&queue);
        if is_urgent && mem::take(&mut queue.is_idle) {
            self.shared.wake.notify_one();
        }
        ticket
    }

    /// Returns once a call may be answered that has seen changes up to this ticket.
    pub(super) async fn settle(&self, ticket: u64, deadline: Instant) -> Result<(), Error> {
        let shared = &self.shared;
        if shared.progress.borrow().written >= ticket {
            return Ok(());
        }
        if shared.durability == Durability::Interval {
            let source = self.clock.source();
            let is_reserved = self.clock.is_reserved(source);
            let is_early = is_reserved
                && !shared.is_failing.load(Ordering::Acquire)
                && lock(&shared.queue).age(source) < AGE_MAX;
            if is_early {
                return Ok(());
            }
            if !is_reserved {
                self.ask_for_mark();
            }
        }
        let mut progress = shared.progress.subscribe();
        let is_down = |progress: &Progress| progress.written >= ticket;
        match timeout_at(deadline.into(), progress.wait_for(is_down)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Error::DeadlineExceeded),
        }
    }

    pub(in super::super) fn state(&self) -> watch::Receiver<StoreState> {
        self.shared.state.subscribe()
    }

    /// Writes what is in line, and ends.
    pub(super) fn close(&self) {
        lock(&self.shared.queue).is_closing = true;
        self.shared.wake.notify_one();
        let thread = lock(&self.thread).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the journal has failed: what it had in line may be lost");
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn unavailable(&self) -> Error {
        let progress = self.progress.borrow();
        let why = progress.failure.as_deref().unwrap_or("it takes too long");
        Error::Unavailable(format!("the data directory cannot be written: {why}"))
    }

    fn note_written(&self, ticket: u64) {
        if self.is_failing.swap(false, Ordering::AcqRel) {
            tracing::info!("the data directory is written again: calls are taken");
            self.publish();
        }
        self.progress.send_modify(|progress| {
            *progress = Progress { written: ticket, failure: None };
        });
    }

    fn note_failure(&self, why: &str) {
        self.progress.send_modify(|progress| progress.failure = Some(why.into()));
        if !self.is_failing.swap(true, Ordering::AcqRel) {
            tracing::error!(
                why,
                "the data directory cannot be written: no calls are taken until it can"
            );
            self.publish();
        }
    }

    /// Tells health whether the store takes calls. The flags are read while nobody else tells:
    /// the last word is about both.
    fn publish(&self) {
        self.state.send_modify(|state| {
            let is_down =
                self.is_failing.load(Ordering::Acquire) || self.is_stalled.load(Ordering::Acquire);
            *state = if is_down { StoreState::Down } else { StoreState::Up };
        });
    }

    /// Whether so many bytes are in line that they are not left there.
    fn is_much(&self, queue: &Queue) -> bool {
        queue.bytes() >= self.unsynced_max.load(Ordering::Relaxed) / MUCH
    }
}

/// A panic while one is held would be a bug that says so itself.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
