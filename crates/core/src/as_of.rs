//! Values that expire, with the time at which a decision read them.

use std::{ops::Deref, time::Duration};

use super::time::Timestamp;

/// A value as a decision saw it, with the time of the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsOf<T> {
    /// The value.
    pub value: T,
    /// The time of the decision.
    pub now: Timestamp,
}

impl<T> AsOf<T> {
    /// Returns the time from the decision to `end`; 0 if it has passed. Not rounded, because a
    /// client that adds it to its own clock must not consider an expired lease valid.
    pub fn until(&self, end: Timestamp) -> Duration {
        Duration::from_micros(end.0.saturating_sub(self.now.0))
    }
}

impl<T> Deref for AsOf<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
