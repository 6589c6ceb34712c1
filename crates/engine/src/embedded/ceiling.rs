//! The limit on memory, `memory_max`: above it, decisions about new names are refused and known
//! names continue.
//!
//! The limit applies to the resident memory of the process as the system reports it, because a
//! container is killed for exceeding that. It is read every 250 ms. Between two readings, any
//! number of names is accepted, so the limit should leave a reserve. No state is dropped to make
//! room.

use std::sync::atomic::{AtomicBool, Ordering};

/// Reads the memory in use, in bytes; `None` if the system does not report it.
pub type Gauge = fn() -> Option<u64>;

/// The limit, and whether it is reached.
#[derive(Debug)]
pub struct Ceiling {
    /// The limit in bytes.
    most: u64,
    gauge: Gauge,
    is_reached: AtomicBool,
}

impl Ceiling {
    /// Creates a limit of `most` bytes on the resident memory of this process.
    pub fn new(most: u64) -> Ceiling {
        Ceiling::by(most, || memory_stats::memory_stats().map(|of| of.physical_mem as u64))
    }

    /// Creates a limit that uses another gauge, for tests.
    pub fn by(most: u64, gauge: Gauge) -> Ceiling {
        Ceiling { most, gauge, is_reached: AtomicBool::new(false) }
    }

    /// Returns the limit in bytes.
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    /// Whether new names are refused.
    pub(super) fn is_reached(&self) -> bool {
        self.is_reached.load(Ordering::Relaxed)
    }

    /// Reads the gauge and updates the state; logs each change of state.
    pub(super) fn look(&self) {
        let Some(used) = (self.gauge)() else { return };
        // Hysteresis of 1/16, without which the state could change with every reading.
        let was_reached = self.is_reached();
        let most = if was_reached { self.most - self.most / 16 } else { self.most };
        let is_reached = used >= most;
        self.is_reached.store(is_reached, Ordering::Relaxed);
        if is_reached == was_reached {
            return;
        }
        if is_reached {
            tracing::warn!(
                used,
                memory_max = self.most,
                "memory in use has reached memory_max: decisions about new names are refused, \
                 known names continue"
            );
        } else {
            tracing::info!(used, "memory in use is below memory_max: new names are accepted again");
        }
    }
}
