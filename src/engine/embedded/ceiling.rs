//! A ceiling on memory: past it new names are refused, and what is known goes on.
//!
//! What counts is what the process takes of the machine's memory, as the system sees it,
//! since that is what it is ended for. It is looked at now and then: until the next look as
//! many names may be taken in as arrive. Nothing is dropped to make room.

use std::sync::atomic::{AtomicBool, Ordering};

/// How much memory is used, in bytes; none where the system does not say.
pub type Gauge = fn() -> Option<u64>;

/// The most memory that new names may find in use.
#[derive(Debug)]
pub struct Ceiling {
    most: u64,
    gauge: Gauge,
    is_reached: AtomicBool,
}

impl Ceiling {
    /// So many bytes, of this process.
    pub fn new(most: u64) -> Ceiling {
        Ceiling::by(most, || memory_stats::memory_stats().map(|of| of.physical_mem as u64))
    }

    /// The same by another gauge.
    pub fn by(most: u64, gauge: Gauge) -> Ceiling {
        Ceiling { most, gauge, is_reached: AtomicBool::new(false) }
    }

    /// Whether new names are refused.
    pub(super) fn is_reached(&self) -> bool {
        self.is_reached.load(Ordering::Relaxed)
    }

    /// Looks how much is used.
    pub(super) fn look(&self) {
        let Some(used) = (self.gauge)() else { return };
        // Once reached it is left a little below: it would come and go.
        let was_reached = self.is_reached();
        let most = if was_reached { self.most - self.most / 16 } else { self.most };
        let is_reached = used >= most;
        self.is_reached.store(is_reached, Ordering::Relaxed);
        match is_reached {
            _ if is_reached == was_reached => {}
            true => tracing::warn!(
                used,
                memory_max = self.most,
                "as much memory is used as memory_max allows: new names are refused, those that \
                 are known go on"
            ),
            false => tracing::info!(used, "there is memory for new names again"),
        }
    }
}
