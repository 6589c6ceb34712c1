//! The clock of HTTP/2's pings, by which peers that are gone without a word are noticed.
//!
//! hyper reads it for every frame that comes. The system's coarse clock, some milliseconds
//! late, is as good for that and costs a tenth.

use std::{
    pin::Pin,
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;

use crate::time::{coarse, monotonic};

/// A peer that is silent this long is asked whether it is there, and has as
/// long again to answer.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(20);

/// tokio's timer with that clock.
#[derive(Debug, Clone)]
pub(super) struct PingTimer {
    timer: TokioTimer,
    /// One instant on both clocks.
    origin: (Instant, Duration),
}

impl PingTimer {
    pub(super) fn new() -> PingTimer {
        PingTimer { timer: TokioTimer::new(), origin: (monotonic(), coarse()) }
    }
}

impl Timer for PingTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.timer.sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.timer.sleep_until(deadline)
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        self.timer.reset(sleep, deadline);
    }

    fn now(&self) -> Instant {
        let (instant, then) = self.origin;
        instant + coarse().saturating_sub(then)
    }
}
