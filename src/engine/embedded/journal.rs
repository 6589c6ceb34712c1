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
        atomic::{AtomicBool, Ordering},
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
    is_failing: AtomicBool,
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

    /// Returns once a call can be taken: where the machine has slept the clock stands still
    /// until its mark is down.
    pub(super) async fn admit(&self, deadline: Instant) -> Result<(), Error> {
        self.check()?;
        if !self.clock.is_standing() {
            return Ok(());
        }
        let mut progress = self.shared.progress.subscribe();
        self.ask_for_mark();
        let goes_on = |progress: &Progress| progress.failure.is_some() || !self.clock.is_standing();
        match timeout_at(deadline.into(), progress.wait_for(goes_on)).await {
            // Nothing was decided.
            Err(_) => Err(self.shared.unavailable()),
            Ok(_) => self.check(),
        }
    }

    fn ask_for_mark(&self) {
        let mut queue = lock(&self.shared.queue);
        queue.is_mark_due = true;
        if mem::take(&mut queue.is_idle) {
            self.shared.wake.notify_one();
        }
    }

    /// Whether a call can be taken now.
    pub(in super::super) fn check(&self) -> Result<(), Error> {
        if self.shared.is_failing.load(Ordering::Acquire) {
            return Err(self.shared.unavailable());
        }
        match lock(&self.shared.queue).count < MOST {
            true => Ok(()),
            false => Err(Error::Overloaded),
        }
    }

    /// Whether there is room for what no call waits for.
    pub(super) fn has_room(&self) -> bool {
        let most = match self.shared.durability {
            Durability::Always => SWEPT_ALWAYS_MAX,
            Durability::Interval => SWEPT_INTERVAL_MAX,
        };
        !self.shared.is_failing.load(Ordering::Acquire) && lock(&self.shared.queue).count < most
    }

    /// Puts changes in line; their ticket.
    pub(super) fn push(&self, changes: &Row) -> u64 {
        let mut queue = lock(&self.shared.queue);
        let ticket = queue.push(changes, self.clock.source());
        let is_urgent = self.shared.durability == Durability::Always || queue.count >= MANY;
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
            let is_ahead = self.clock.is_ahead(source);
            let is_early = is_ahead
                && !shared.is_failing.load(Ordering::Acquire)
                && lock(&shared.queue).age(source) < AGE_MAX;
            if is_early {
                return Ok(());
            }
            if !is_ahead {
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
            self.state.send_replace(StoreState::Up);
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
            self.state.send_replace(StoreState::Down);
        }
    }
}

/// A panic while one is held would be a bug that says so itself.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
