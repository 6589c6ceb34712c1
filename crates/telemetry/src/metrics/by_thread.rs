//! Counts that each thread keeps for itself, so that threads share no lock.

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of shards. Further threads share them.
const SHARDS: usize = 8;

thread_local! {
    /// The shard of this thread.
    static OWN: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS
    };
}

/// A value for each thread; readers add them up.
#[derive(Debug)]
pub struct ByThread<T>([Shard<T>; SHARDS]);

/// Aligned as [`Cells`](super::Cells): threads do not write to the same cache line.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<T>(Mutex<Option<T>>);

impl<T> ByThread<T> {
    /// Creates an instance without values.
    pub const fn new() -> ByThread<T> {
        ByThread([const { Shard(Mutex::new(None)) }; SHARDS])
    }

    /// Returns the value of this thread.
    pub fn own(&self) -> MappedMutexGuard<'_, T>
    where
        T: Default,
    {
        let shard = OWN.with(|own| self.0[*own].0.lock());
        MutexGuard::map(shard, Option::get_or_insert_default)
    }

    /// Passes the value of each thread to `see`.
    pub fn each(&self, mut see: impl FnMut(&mut T)) {
        self.0.iter().for_each(|shard| {
            shard.0.lock().as_mut().into_iter().for_each(&mut see);
        });
    }
}

impl<T> Default for ByThread<T> {
    fn default() -> ByThread<T> {
        ByThread::new()
    }
}
