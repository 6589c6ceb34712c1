//! Limits that change while callers use them: permits, and quotas.
//!
//! A higher limit applies immediately. A lower one drains: nothing in use is revoked, and nothing
//! more is granted until the usage is below the new limit. The only exception is callers that were
//! already waiting for permits before the change: they are served first.

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
pub(crate) struct AdjustablePermits {
    semaphore: Arc<Semaphore>,
    /// Locked only by changes.
    state: Mutex<AdjustedState>,
}

struct AdjustedState {
    max: usize,
    /// Withdrawals that wait for permits in use. The semaphore gives returned permits to its queue
    /// first, even while nobody polls these futures.
    waiting: Vec<Withdrawal>,
}

impl AdjustablePermits {
    /// Creates a semaphore with this number of permits, at most `u32::MAX`.
    pub(crate) fn new(max: usize) -> AdjustablePermits {
        let state = Mutex::new(AdjustedState { max, waiting: Vec::new() });
        AdjustablePermits { semaphore: Arc::new(Semaphore::new(max)), state }
    }

    /// Returns the semaphore.
    pub(crate) fn semaphore(&self) -> &Arc<Semaphore> {
        &self.semaphore
    }

    /// Changes the number of permits, at most `u32::MAX`. Permits in use beyond that number are
    /// withdrawn when they are returned.
    pub(crate) fn set(&self, max: usize) {
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

/// A quantity in use, up to a maximum that can change. Nobody waits for it.
#[derive(Debug)]
pub(crate) struct AdjustableQuota {
    used: AtomicUsize,
    max: AtomicUsize,
}

impl AdjustableQuota {
    /// Creates an unused quota with this maximum.
    pub(crate) fn new(max: usize) -> AdjustableQuota {
        AdjustableQuota { used: AtomicUsize::new(0), max: AtomicUsize::new(max) }
    }

    /// Changes the maximum.
    pub(crate) fn set(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Returns the quantity in use. It can exceed a lowered maximum.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Uses a quantity until [`AdjustableQuota::release`]. Returns false if less than that is free.
    pub(crate) fn try_use(&self, quantity: usize) -> bool {
        let max = self.max.load(Ordering::Relaxed);
        let more = |used: usize| Some(used + quantity).filter(|used| *used <= max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Releases a quantity in use.
    pub(crate) fn release(&self, quantity: usize) {
        self.used.fetch_sub(quantity, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
