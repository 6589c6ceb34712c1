//! Counters of a server's own work, which a scrape of the admin listener reads.
//!
//! Each thread counts in its own cells ([`Cells`]): a load and a store, without a lock, a lookup or
//! an atomic addition. A scrape sums the cells of all threads ([`CellTotals`]). The position of a
//! cell, which is known at compile time, determines its labels.
//!
//! The cells belong to the process: several servers in one process, as in tests, share them.
//!
//! Counters that are not per call, such as failovers, are cells as well: each is a field, and a
//! line of the page. A family of prometheus-client would instead need a type for its labels and a
//! registration, and would not bound its label values.

mod by_thread;
mod calls;
mod cells;
pub mod configuration;
mod counter;
mod exemplar;
mod histogram;
pub mod refusals;

use std::sync::atomic::{AtomicBool, Ordering};

pub use by_thread::ByThread;
pub use calls::{CODE_NAMES, CODES, CountedCall, RpcLabels};
pub use cells::{
    CallCells, CellTotals, Cells, METHODS_MAX, OUTCOMES_MAX, SCRIPTS_MAX, StoreFailure,
};
pub use counter::ThreadCounter;
pub use exemplar::Exemplar;
pub use histogram::{Durations, Histogram, Sizes};

/// Whether anything is counted.
static ON: AtomicBool = AtomicBool::new(true);

/// Stops counting, for a process whose metrics nobody reads.
pub fn turn_off() {
    ON.store(false, Ordering::Relaxed);
}

/// Whether anything is counted.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Counts in the cells of this thread.
#[inline]
pub fn count(note: impl FnOnce(&Cells)) {
    if is_on() {
        note(cells::own());
    }
}
