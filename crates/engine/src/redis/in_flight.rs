//! The calls in flight to Redis, at most `redis.calls_max`.
//!
//! Once a namespace other than the default one has called, each may have at most three times as
//! many calls in flight as are still free. One namespace therefore gets three quarters of all
//! calls, two get three sevenths each, and some always remain for another namespace.
//!
//! Source: A. K. Choudhury and E. L. Hahne, "Dynamic Queue Length Thresholds for Shared-Memory
//! Packet Switches".

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::budget::{self, ReachedLimit};
use tollgate_core::error::Error;

/// The counters of namespaces. Namespaces with the same counter share one limit.
const COUNTERS: usize = 64;
/// A namespace may have this many times as many calls in flight as are still free.
const FREE_FACTOR: usize = 3;

/// The calls in flight.
#[derive(Debug)]
pub(super) struct CallsInFlight {
    most: usize,
    all: AtomicUsize,
    /// Whether a namespace other than the default one has called.
    is_shared: AtomicBool,
    /// The calls by namespace, counted while `is_shared`.
    own: Box<[AtomicUsize; COUNTERS]>,
}

/// A call that is in flight until it is dropped.
#[derive(Debug)]
pub(super) struct CallInFlight<'a> {
    calls: &'a CallsInFlight,
    own: Option<&'a AtomicUsize>,
}

impl CallsInFlight {
    pub(super) fn new(most: usize) -> CallsInFlight {
        CallsInFlight {
            most,
            all: AtomicUsize::new(0),
            is_shared: AtomicBool::new(false),
            own: Box::new([const { AtomicUsize::new(0) }; COUNTERS]),
        }
    }

    /// Adds a call of a namespace, numbered by [`super::fair::line_of`]. Fails with
    /// [`Error::Overloaded`], and counts the refusal.
    pub(super) fn enter(&self, namespace: u64) -> Result<CallInFlight<'_>, Error> {
        if namespace != 0 && !self.is_shared.load(Ordering::Relaxed) {
            self.is_shared.store(true, Ordering::Relaxed);
        }
        let is_shared = self.is_shared.load(Ordering::Relaxed);
        let own = is_shared.then(|| &self.own[namespace as usize % COUNTERS]);
        let before = self.all.fetch_add(1, Ordering::Relaxed);
        let own_before = own.map(|own| own.fetch_add(1, Ordering::Relaxed));
        // Dropped if the call is refused.
        let call = CallInFlight { calls: self, own };
        let free = self.most.saturating_sub(before);
        if free > 0 && own_before.is_none_or(|own| own < FREE_FACTOR * free) {
            Ok(call)
        } else {
            Err(budget::overloaded(ReachedLimit::CallsInFlight))
        }
    }
}

impl Drop for CallInFlight<'_> {
    fn drop(&mut self) {
        self.calls.all.fetch_sub(1, Ordering::Relaxed);
        if let Some(own) = self.own {
            own.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds calls of a namespace until one is refused.
    fn fill(calls: &CallsInFlight, namespace: u64) -> Vec<CallInFlight<'_>> {
        std::iter::from_fn(|| calls.enter(namespace).ok()).collect()
    }

    #[test]
    fn the_default_namespace_alone_may_use_all_calls() {
        let calls = CallsInFlight::new(100);
        let all = fill(&calls, 0);
        assert_eq!(all.len(), 100);
        drop(all);
        assert_eq!(fill(&calls, 0).len(), 100);
    }

    #[test]
    fn a_namespace_leaves_calls_for_others() {
        let calls = CallsInFlight::new(700);
        drop(calls.enter(1));
        let flood = fill(&calls, 1);
        assert_eq!(flood.len(), 525);
        let second = fill(&calls, 2);
        assert!(!second.is_empty() && calls.enter(3).is_ok());
        // A namespace above its limit gets no call until it is below the limit.
        assert!(calls.enter(1).is_err());
        drop((flood, second));
        assert_eq!(calls.all.load(Ordering::Relaxed), 0);
        assert!(calls.own.iter().all(|own| own.load(Ordering::Relaxed) == 0));
    }
}
