//! The clock of leases: it also advances while the machine sleeps.

use std::{
    ops::{Add, Sub},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// On Linux the monotonic clock stops while the machine sleeps; this clock does not.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Nanoseconds by which [`advance_clock`] has moved the clock.
static AHEAD: AtomicU64 = AtomicU64::new(0);

/// A moment on the clock of leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    /// Reads the clock.
    pub(crate) fn now() -> Moment {
        let time = clock_gettime(CLOCK);
        let read = Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32);
        Moment(read + Duration::from_nanos(AHEAD.load(Ordering::Relaxed)))
    }

    /// Returns the time from now until this moment; 0 if it has passed.
    pub(crate) fn left(self) -> Duration {
        self - Moment::now()
    }

    /// Returns the time since this moment.
    pub(crate) fn elapsed(self) -> Duration {
        Moment::now() - self
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, length: Duration) -> Moment {
        Moment(self.0.saturating_add(length))
    }
}

impl Sub for Moment {
    type Output = Duration;

    /// Returns 0 if the other moment is later.
    fn sub(self, other: Moment) -> Duration {
        self.0.saturating_sub(other.0)
    }
}

/// Moves the clock of leases forward in this process, as if the machine had slept. For tests.
#[doc(hidden)]
pub fn advance_clock(by: Duration) {
    let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
    AHEAD.fetch_add(nanos, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back_and_can_be_moved_forward() {
        let before = Moment::now();
        let after = Moment::now();
        assert!(after >= before);
        assert_eq!(before - (before + Duration::from_secs(1)), Duration::ZERO);
        advance_clock(Duration::from_secs(100));
        assert!(before.elapsed() >= Duration::from_secs(100));
        assert_eq!((before + Duration::from_secs(50)).left(), Duration::ZERO);
    }
}
