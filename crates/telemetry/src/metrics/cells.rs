//! The cells of a thread, and their sums.
//!
//! A thread acquires its cells at its first count and returns them when it ends; the next thread
//! continues them. The number of cells is therefore the largest number of threads that counted at
//! the same time: the worker threads, and a few for maintenance and for the disk.

use std::cell::Cell;

use parking_lot::Mutex;

use super::{CODES, Durations, Sizes, ThreadCounter};

/// Maximum number of RPCs that are counted separately.
pub const METHODS_MAX: usize = 64;
/// Maximum number of scripts.
pub const SCRIPTS_MAX: usize = 96;
/// Maximum number of outcomes of a verb.
pub const OUTCOMES_MAX: usize = 8;

/// The calls of an RPC.
#[derive(Debug)]
pub struct CallCells {
    /// Calls whose headers were read.
    pub started: ThreadCounter,
    /// Finished calls, by status code.
    pub handled: [ThreadCounter; CODES],
    /// Times from the headers to the status.
    pub durations: Durations,
}

impl CallCells {
    const fn new() -> CallCells {
        CallCells {
            started: ThreadCounter::new(),
            handled: [const { ThreadCounter::new() }; CODES],
            durations: Durations::new(),
        }
    }
}

/// Why the store did not execute a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFailure {
    /// It was unreachable.
    Unavailable,
    /// It refused the write.
    Refused,
    /// It gave no answer in time: the fate of the decision is unknown.
    DeadlineExceeded,
    /// A stored value cannot be read.
    Corrupt,
}

impl StoreFailure {
    /// All kinds, with their labels.
    pub const ALL: [(StoreFailure, &'static str); 4] = [
        (StoreFailure::Unavailable, "unavailable"),
        (StoreFailure::Refused, "refused"),
        (StoreFailure::DeadlineExceeded, "deadline_exceeded"),
        (StoreFailure::Corrupt, "corrupt"),
    ];
}

/// The cells of a thread. Aligned to 128 bytes, because processors fetch two lines of 64 bytes
/// together.
#[derive(Debug)]
#[repr(align(128))]
pub struct Cells {
    /// The calls of each RPC.
    pub calls: [CallCells; METHODS_MAX],
    /// The outcomes of each verb, by the position of its script.
    pub decisions: [[ThreadCounter; OUTCOMES_MAX]; SCRIPTS_MAX],
    /// Answers of the denial cache.
    pub cached: ThreadCounter,
    /// Refusals of the fallback.
    pub fallback_refusals: ThreadCounter,
    /// Decisions of the fallback within this server's share.
    pub fallback_shares: ThreadCounter,
    /// The time that calls have waited in queues.
    pub waits: Durations,
    /// Leases of pools that expired.
    pub expired_leases: ThreadCounter,
    /// The round trips of script calls.
    pub round_trips: Durations,
    /// The number of decisions of each round trip.
    pub batches: Sizes,
    /// Decisions that the store did not execute, by [`StoreFailure`].
    pub store_failures: [ThreadCounter; StoreFailure::ALL.len()],
    /// Changes of the primary.
    pub failovers: ThreadCounter,
    /// Writes to the disk of the data directory.
    pub syncs: Durations,
}

impl Cells {
    const fn new() -> Cells {
        Cells {
            calls: [const { CallCells::new() }; METHODS_MAX],
            decisions: [const { [const { ThreadCounter::new() }; OUTCOMES_MAX] }; SCRIPTS_MAX],
            cached: ThreadCounter::new(),
            fallback_refusals: ThreadCounter::new(),
            fallback_shares: ThreadCounter::new(),
            waits: Durations::new(),
            expired_leases: ThreadCounter::new(),
            round_trips: Durations::new(),
            batches: Sizes::new(),
            store_failures: [const { ThreadCounter::new() }; StoreFailure::ALL.len()],
            failovers: ThreadCounter::new(),
            syncs: Durations::new(),
        }
    }
}

/// All cells, and the cells that no thread uses.
static ALL: Mutex<(Vec<&'static Cells>, Vec<&'static Cells>)> =
    Mutex::new((Vec::new(), Vec::new()));

/// The cells, which return to the unused ones when the thread ends.
struct Lent(&'static Cells);

impl Drop for Lent {
    fn drop(&mut self) {
        OWN.set(None);
        ALL.lock().1.push(self.0);
    }
}

thread_local! {
    /// Has no destructor, so that counting only checks the option.
    static OWN: Cell<Option<&'static Cells>> = const { Cell::new(None) };
    static LENT: Cell<Option<Lent>> = const { Cell::new(None) };
}

/// Returns the cells of this thread.
#[inline]
pub(super) fn own() -> &'static Cells {
    match OWN.get() {
        Some(cells) => cells,
        None => acquire(),
    }
}

/// Acquires cells for this thread.
#[cold]
fn acquire() -> &'static Cells {
    let (all, free) = &mut *ALL.lock();
    let cells = free.pop().unwrap_or_else(|| {
        let cells: &'static Cells = Box::leak(Box::new(Cells::new()));
        all.push(cells);
        cells
    });
    // A thread that first counts in a destructor never returns its cells. No thread of a server
    // does that.
    if LENT.try_with(|lent| lent.set(Some(Lent(cells)))).is_ok() {
        OWN.set(Some(cells));
    }
    cells
}

/// The cells of all threads, for sums.
#[derive(Debug)]
pub struct CellTotals(Vec<&'static Cells>);

impl CellTotals {
    /// Collects the current cells. They continue to count.
    pub fn now() -> CellTotals {
        CellTotals(ALL.lock().0.clone())
    }

    /// Returns the sum of a counter.
    pub fn sum(&self, counter: impl Fn(&Cells) -> &ThreadCounter) -> u64 {
        self.0.iter().map(|cells| counter(cells).get()).fold(0, u64::wrapping_add)
    }

    /// Returns the cells of each thread.
    pub fn each(&self) -> impl Iterator<Item = &'static Cells> + Clone {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::{super::count, *};

    #[test]
    fn counts_of_threads_are_summed() {
        let script = SCRIPTS_MAX - 1;
        let counted = || CellTotals::now().sum(|cells| &cells.decisions[script][0]);
        let before = counted();
        let threads = (0..4).map(|_| {
            thread::spawn(move || {
                for _ in 0..10_000 {
                    count(|cells| cells.decisions[script][0].add(1));
                }
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            thread.join().unwrap();
        }
        assert_eq!(counted() - before, 40_000);
    }

    #[test]
    fn cells_of_ended_threads_are_reused() {
        for _ in 0..1000 {
            thread::spawn(|| count(|cells| cells.decisions[SCRIPTS_MAX - 2][0].add(1)))
                .join()
                .unwrap();
        }
        // Other tests run at the same time on threads of their own.
        assert!(CellTotals::now().0.len() < 500, "{}", CellTotals::now().0.len());
    }
}
