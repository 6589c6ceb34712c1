//! Limits that change while callers use them: permits, and counted places.
//!
//! A higher limit applies at once. A lower one drains: nothing in use is taken away, and nothing
//! further is given out until the use is below the new limit. Only callers that waited for permits
//! before the change come first.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Waker},
};

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// An entry in the semaphore's queue that takes permits out of circulation.
type Withdrawal = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// A semaphore whose number of permits can change. Callers use the semaphore itself, so a change
/// costs them nothing.
pub struct AdjustablePermits {
    semaphore: Arc<Semaphore>,
    /// Locked only by changes.
    state: Mutex<AdjustedState>,
}

struct AdjustedState {
    max: usize,
    /// Withdrawals that wait for permits in use. The semaphore gives returned permits to its queue
    /// first, also while nobody polls these futures.
    waiting: Vec<Withdrawal>,
}

impl AdjustablePermits {
    /// Creates a semaphore with this number of permits, at most `u32::MAX`.
    pub fn new(max: usize) -> AdjustablePermits {
        let state = Mutex::new(AdjustedState { max, waiting: Vec::new() });
        AdjustablePermits { semaphore: Arc::new(Semaphore::new(max)), state }
    }

    /// The semaphore.
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.semaphore
    }

    /// Changes the number of permits, at most `u32::MAX`. Permits in use above it are withdrawn when
    /// they are returned.
    pub fn set(&self, max: usize) {
        let mut state = self.state.lock();
        let fewer = u32::try_from(state.max.saturating_sub(max)).unwrap_or(u32::MAX);
        if fewer > 0 {
            state.waiting.push(Box::pin(self.semaphore.clone().acquire_many_owned(fewer)));
        }
        self.semaphore.add_permits(max.saturating_sub(state.max));
        state.max = max;
        let mut cx = Context::from_waker(Waker::noop());
        state.waiting.retain_mut(|withdrawal| {
            let withdrawn = withdrawal.as_mut().poll(&mut cx);
            withdrawn.map(|permits| permits.map(OwnedSemaphorePermit::forget)).is_pending()
        });
    }
}

impl fmt::Debug for AdjustablePermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdjustablePermits").field("semaphore", &self.semaphore).finish()
    }
}

/// Places that are counted up to a maximum, which can change. Nobody waits for a place.
#[derive(Debug)]
pub struct Places {
    taken: AtomicUsize,
    max: AtomicUsize,
}

/// One of the places; free again when dropped.
#[derive(Debug)]
pub struct Place(Arc<Places>);

impl Places {
    /// Creates this number of places.
    pub fn new(max: usize) -> Places {
        Places { taken: AtomicUsize::new(0), max: AtomicUsize::new(max) }
    }

    /// Changes the number of places.
    pub fn set(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// The number of places.
    pub fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// The number of taken places. It can exceed a lowered maximum.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes a place; `None` if all are taken.
    pub fn take(self: &Arc<Self>) -> Option<Place> {
        self.try_take(1).then(|| Place(self.clone()))
    }

    /// Takes this number of places until [`Places::give_back`]. False if fewer are free.
    pub fn try_take(&self, number: usize) -> bool {
        let max = self.max();
        let take = |taken: usize| Some(taken + number).filter(|taken| *taken <= max);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Returns taken places.
    pub fn give_back(&self, number: usize) {
        self.taken.fetch_sub(number, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.give_back(1);
    }
}

#[cfg(test)]
mod tests;
