//! Time. Only this module reads a clock; all others receive the time as a value.

mod kept;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

pub use kept::{AHEAD, Keeps, KeptClock, Mark, RESERVED_AFTER};

/// Microseconds since the Unix epoch, on the clock of the deciding engine.
///
/// The value stays below 2^53 until the year 2255, so a Lua number holds it exactly.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Returns the instant `duration` after this one.
    pub fn after(self, duration: Millis) -> Timestamp {
        Timestamp(self.0 + duration.micros())
    }

    /// Returns the time until `later`, rounded up to whole milliseconds; 0 if `later` has passed.
    pub fn until(self, later: Timestamp) -> Millis {
        Millis(later.0.saturating_sub(self.0).div_ceil(1000))
    }
}

/// A duration in whole milliseconds, the resolution of the contract.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Millis(pub u64);

impl Millis {
    /// Returns the duration of `seconds` seconds.
    pub const fn from_secs(seconds: u64) -> Millis {
        Millis(seconds * 1000)
    }

    /// Returns the duration in microseconds.
    pub const fn micros(self) -> u64 {
        self.0 * 1000
    }

    /// Returns the duration as a standard type.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

/// The clock of the embedded engine.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The system time at creation, advanced by the monotonic clock. A step of the system clock
    /// while the server runs has no effect.
    System {
        /// The system time at creation.
        origin: Timestamp,
        /// The monotonic instant of creation.
        since: Instant,
    },
    /// A clock, in microseconds, that stands still until a test sets it.
    Stepped(Arc<AtomicU64>),
    /// A clock that continues from its time before a restart.
    Kept(Arc<KeptClock>),
}

impl Clock {
    /// Returns the clock of a running server without a data directory.
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the raw clocks")]
    pub fn system() -> Clock {
        let origin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock::System { origin: Timestamp(origin.as_micros() as u64), since: monotonic() }
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        match self {
            Clock::System { origin, since } => {
                Timestamp(origin.0 + since.elapsed().as_micros() as u64)
            }
            Clock::Stepped(micros) => Timestamp(micros.load(Ordering::SeqCst)),
            Clock::Kept(clock) => clock.now(),
        }
    }
}

/// Returns the current monotonic instant, for deadlines and intervals. Decisions must not use it.
#[allow(clippy::disallowed_methods, reason = "the one place that reads the raw clocks")]
pub fn monotonic() -> Instant {
    Instant::now()
}
