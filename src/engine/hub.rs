//! The calls of this server that last: those that wait, to which hints come here, and
//! those that watch.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use crate::{
    budget::{self, Limit},
    error::Error,
};

/// Calls that wait on one server at most: each holds memory, no connection to the
/// store and no thread.
const SEATS_MAX: usize = 65_536;
/// Calls that watch on one server at most.
const WATCHERS_MAX: usize = 10_000;

/// The calls of this server that wait, by number, and room for those that watch.
pub struct Hub {
    channel: Arc<str>,
    next: AtomicU64,
    closed: watch::Sender<bool>,
    watchers: Arc<Semaphore>,
    calls: Mutex<HashMap<u64, Arc<Notify>>>,
}

/// A call's right to be told; ends when dropped.
#[derive(Debug)]
pub struct Seat {
    hub: Arc<Hub>,
    number: u64,
    told: Arc<Notify>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl Hub {
    /// A hub whose channel starts with `prefix` and is nobody else's.
    pub fn new(prefix: &str) -> Arc<Hub> {
        let random = || RandomState::new().build_hasher().finish();
        Arc::new(Hub {
            channel: format!("{prefix}:hints:{:016x}{:016x}", random(), random()).into(),
            next: AtomicU64::new(1),
            closed: watch::Sender::new(false),
            watchers: Arc::new(Semaphore::new(WATCHERS_MAX)),
            calls: Mutex::default(),
        })
    }

    /// Where the server listens for hints.
    pub fn channel(&self) -> &Arc<str> {
        &self.channel
    }

    /// A seat for a call that is about to wait.
    pub fn seat(self: &Arc<Hub>) -> Result<Seat, Error> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let told = Arc::new(Notify::new());
        let mut calls = self.lock();
        if calls.len() >= SEATS_MAX {
            budget::note(Limit::Waiters);
            return Err(Error::Overloaded);
        }
        calls.insert(number, told.clone());
        Ok(Seat { hub: self.clone(), number, told })
    }

    /// A place for a call that is about to watch; free again when dropped.
    pub fn place(&self) -> Result<OwnedSemaphorePermit, Error> {
        if self.is_closed() {
            return Err(Error::Ending);
        }
        self.watchers.clone().try_acquire_owned().map_err(|_| {
            budget::note(Limit::Watchers);
            Error::TooManyWatchers
        })
    }

    /// How many calls wait.
    pub fn seats(&self) -> usize {
        self.lock().len()
    }

    /// Tells a call that it may be its turn; whether it is there.
    pub fn tell(&self, number: u64) -> bool {
        let told = self.lock().get(&number).cloned();
        told.inspect(|told| told.notify_one()).is_some()
    }

    /// Makes every call that waits ask a last time and leave its queue, and ends those that
    /// watch: the server is about to end.
    pub fn close(&self) {
        self.closed.send_replace(true);
        self.lock().values().for_each(|told| told.notify_one());
    }

    /// Whether nobody may wait or watch any more.
    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Returns once nobody may wait or watch any more.
    pub async fn closed(&self) {
        // The sender is there as long as we are.
        let _ = self.closed.subscribe().wait_for(|is_closed| *is_closed).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Notify>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// The call's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns once the call is told; at once if it was since the last time.
    pub async fn told(&self) {
        self.told.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.hub.lock().remove(&self.number);
    }
}
