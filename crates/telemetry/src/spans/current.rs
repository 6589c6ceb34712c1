//! The sampled calls for which this thread works, and random identities.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

use super::{Calls, TraceId};

thread_local! {
    static CURRENT: Cell<Option<Calls>> = const { Cell::new(None) };
    /// The state of the generator; 0 before the first number.
    static DRAWN: Cell<u64> = const { Cell::new(0) };
}

/// Returns the sampled calls for which this thread works now; `None` if the call is not sampled.
pub fn current() -> Option<Calls> {
    CURRENT.with(|current| {
        let calls = current.take()?;
        current.set(Some(calls.clone()));
        Some(calls)
    })
}

/// Returns the trace of the current call, for a log line.
pub fn trace_id() -> Option<TraceId> {
    current()?.first().map(|call| call.context.trace)
}

/// Makes calls current until the result is dropped.
pub fn enter(calls: Option<Calls>) -> Entered {
    Entered { before: CURRENT.replace(calls) }
}

/// Makes the previous calls current again when it is dropped.
#[derive(Debug)]
pub struct Entered {
    before: Option<Calls>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(mem::take(&mut self.before));
    }
}

pin_project! {
    /// A future whose calls are current while it runs.
    #[derive(Debug)]
    pub struct Within<F> {
        calls: Option<Calls>,
        #[pin]
        future: F,
    }
}

impl<F> Within<F> {
    /// Wraps a future.
    pub fn new(calls: Option<Calls>, future: F) -> Within<F> {
        Within { calls, future }
    }
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entered = enter(this.calls.clone());
        this.future.poll(cx)
    }
}

/// Returns a random number other than 0, from SplitMix64 with a separate seed in each thread.
/// Identities of spans must be unique, not secret.
pub(super) fn drawn() -> u64 {
    DRAWN.with(|state| {
        loop {
            let seed = match state.get() {
                0 => RandomState::new().hash_one(0_u8),
                state => state,
            };
            let next = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            state.set(next);
            let mixed = (next ^ next >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            let mixed = mixed ^ mixed >> 31;
            if mixed != 0 {
                return mixed;
            }
        }
    })
}
