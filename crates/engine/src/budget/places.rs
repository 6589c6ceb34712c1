//! Places that are counted up to a maximum, which can change.
//!
//! A higher maximum applies immediately. A lower one revokes nothing that is in use, and nobody
//! gets a place until the usage is below it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Places that are counted up to a maximum, which can change. Nobody waits for a place.
#[derive(Debug)]
pub struct Places {
    taken: AtomicUsize,
    max: AtomicUsize,
}

/// One of the places, which becomes free when dropped.
#[derive(Debug)]
pub struct Place(Arc<Places>);

impl Places {
    /// Creates this number of places.
    pub fn new(max: usize) -> Places {
        Places { taken: AtomicUsize::new(0), max: AtomicUsize::new(max) }
    }

    /// Changes the number of places.
    pub fn set(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Returns the number of places.
    pub fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Returns the number of taken places. It can exceed a lowered maximum.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes a place; `None` if all are taken.
    pub fn take(self: &Arc<Self>) -> Option<Place> {
        let max = self.max();
        let take = |taken: usize| Some(taken + 1).filter(|taken| *taken <= max);
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.is_ok().then(|| Place(self.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn places_above_a_lower_maximum_stay_until_they_are_free_again() {
        let places = Arc::new(Places::new(3));
        let mut taken: Vec<Place> = (0..3).map_while(|_| places.take()).collect();
        assert!(taken.len() == 3 && places.take().is_none());
        places.set(1);
        for left in [2, 1] {
            taken.pop();
            assert_eq!(places.taken(), left);
            assert!(places.take().is_none());
        }
        taken.pop();
        taken.extend(places.take());
        assert!(taken.len() == 1 && places.take().is_none());
        assert_eq!((places.taken(), places.max()), (1, 1));
    }

    #[test]
    fn concurrent_changes_and_callers_leave_the_right_count() {
        let places = Arc::new(Places::new(20));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..20_000).for_each(|_| drop(places.take())));
            }
            (0..20_000).for_each(|round| places.set(round % 20));
        });
        assert_eq!(places.taken(), 0);
    }
}
