//! A counter of one thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct ThreadCounter(AtomicU64);

impl ThreadCounter {
    /// Creates a counter at 0.
    pub const fn new() -> ThreadCounter {
        ThreadCounter(AtomicU64::new(0))
    }

    /// Adds a number. Only the thread that owns the cells may call it.
    #[inline]
    pub fn add(&self, number: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
    }

    /// Returns the value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
