//! How many calls were answered FULL, in which pool, by this server.

use std::{
    collections::HashMap,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::names::Name;

/// Pools of a generation: at most twice as many are counted.
const GENERATION: usize = 5_000;

/// A count for each of the pools that refused somebody last.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Counts>);

/// When the young ones are many they become the old ones, and those that were it go.
#[derive(Debug, Default)]
struct Counts {
    young: HashMap<Box<[u8]>, u64>,
    old: HashMap<Box<[u8]>, u64>,
}

impl Refusals {
    /// One more.
    pub(super) fn add(&self, pool: &Name) {
        self.lock().add(pool.as_bytes());
    }

    /// How many there were.
    pub(super) fn of(&self, pool: &Name) -> u64 {
        let counts = self.lock();
        let count = counts.young.get(pool.as_bytes()).or(counts.old.get(pool.as_bytes()));
        count.copied().unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn add(&mut self, pool: &[u8]) {
        if let Some(count) = self.young.get_mut(pool) {
            *count += 1;
            return;
        }
        let before = self.old.remove(pool).unwrap_or(0);
        if self.young.len() >= GENERATION {
            self.old = mem::take(&mut self.young);
        }
        // A copy: the name is a slice of a message, which need not stay for it.
        self.young.insert(pool.into(), before + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_that_go_on_refusing_keep_their_count() {
        let mut counts = Counts::default();
        for number in 0..100_000u64 {
            counts.add(&number.to_le_bytes());
            if number % 1000 == 0 {
                counts.add(b"busy");
            }
        }
        assert_eq!(counts.young.get(&b"busy"[..]).or(counts.old.get(&b"busy"[..])), Some(&100));
        assert!(counts.young.len() + counts.old.len() <= 2 * GENERATION);
        assert_eq!(counts.old.get(&0u64.to_le_bytes()[..]), None);
    }
}
