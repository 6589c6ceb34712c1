//! The only clock: every other module is handed its time.

mod kept;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

pub use kept::{AHEAD, Keeps, KeptClock, Mark};

/// Microseconds since the Unix epoch, on the clock of the engine that decides.
///
/// Stays below 2^53 (the year 2255), so a Lua number holds it exactly.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This instant and `duration` more.
    pub fn after(self, duration: Millis) -> Timestamp {
        Timestamp(self.0 + duration.micros())
    }

    /// How long it is until `later`, rounded up.
    pub fn until(self, later: Timestamp) -> Millis {
        Millis(later.0.saturating_sub(self.0).div_ceil(1000))
    }
}

/// A length of time in whole milliseconds, the finest that the contract has.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Millis(pub u64);

impl Millis {
    /// `seconds` as milliseconds.
    pub const fn from_secs(seconds: u64) -> Millis {
        Millis(seconds * 1000)
    }

    /// The same length in microseconds.
    pub const fn micros(self) -> u64 {
        self.0 * 1000
    }

    /// The same length as a standard duration.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

/// The embedded engine's clock.
#[derive(Debug, Clone)]
pub enum Clock {
    /// Wall-clock time at its creation, advanced by the monotonic clock: a
    /// system clock that is stepped while the server runs moves nothing.
    System {
        /// Wall-clock time when the clock was made.
        origin: Timestamp,
        /// The monotonic instant of the same moment.
        since: Instant,
    },
    /// A clock that stands still until it is set, in microseconds.
    Stepped(Arc<AtomicU64>),
    /// One that goes on from where it was before a restart.
    Kept(Arc<KeptClock>),
}

impl Clock {
    /// The clock of a running server.
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the raw clocks")]
    pub fn system() -> Clock {
        let origin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock::System { origin: Timestamp(origin.as_micros() as u64), since: monotonic() }
    }

    /// The time now.
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

/// The monotonic clock's time of its last tick: some milliseconds late, for a tenth of the
/// cost. Only differences mean something.
#[cfg(target_os = "linux")]
pub fn coarse() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Other systems have no such clock: since the process first asked.
#[cfg(not(target_os = "linux"))]
pub fn coarse() -> Duration {
    use std::sync::OnceLock;
    static FIRST: OnceLock<Instant> = OnceLock::new();
    monotonic().duration_since(*FIRST.get_or_init(monotonic))
}

/// The monotonic instant now, for deadlines and intervals; decides nothing.
#[allow(clippy::disallowed_methods, reason = "the one place that reads the raw clocks")]
pub fn monotonic() -> Instant {
    Instant::now()
}
