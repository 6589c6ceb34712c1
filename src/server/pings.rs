//! The clock of HTTP/2 pings, which detect dead peers.
//!
//! hyper reads it for each frame that arrives. The coarse system clock lags by a few milliseconds,
//! which does not matter here, and a reading costs a tenth.

use std::{
    pin::Pin,
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;

use tollgate_core::time::monotonic;
use tollgate_telemetry::coarse;

/// A peer that is silent for this time gets a ping, and has the same time to answer.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(20);

/// The timer of tokio with the coarse clock.
#[derive(Debug, Clone)]
pub(super) struct PingTimer {
    timer: TokioTimer,
    /// The same instant on both clocks.
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
