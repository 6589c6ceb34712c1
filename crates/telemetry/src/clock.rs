//! The clocks of observations. Decisions have a clock of their own, in `crates/core/src/time.rs`.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Reads the coarse monotonic clock, which is a few milliseconds late but costs a tenth. Only
/// differences between two readings are meaningful.
#[cfg(target_os = "linux")]
pub fn coarse() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Returns the time since the first call, on systems without a coarse clock.
#[cfg(not(target_os = "linux"))]
pub fn coarse() -> Duration {
    use std::sync::OnceLock;
    static FIRST: OnceLock<Instant> = OnceLock::new();
    monotonic().duration_since(*FIRST.get_or_init(monotonic))
}

/// Returns the current monotonic instant.
#[allow(clippy::disallowed_methods, reason = "the one place that reads the clocks of observations")]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// Returns the system time, in microseconds since the Unix epoch.
#[allow(clippy::disallowed_methods, reason = "the one place that reads the clocks of observations")]
pub fn unix_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}
