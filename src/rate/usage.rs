//! What has been used of a limit, whatever its algorithm.

use serde::{Deserialize, Serialize};

use super::{
    rule::{Algorithm, Limit},
    sliding_window::SlidingWindow,
    token_bucket::TokenBucket,
    window::Window,
};
use crate::time::Timestamp;

/// What has been used of a limit at an instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Usage {
    Fixed(Window),
    Calendar(Window),
    // Boxed: a million of the others must not pay for its size.
    Sliding(Box<SlidingWindow>),
    Bucket(Box<TokenBucket>),
}

impl Usage {
    pub(super) fn algorithm(&self) -> Algorithm {
        match self {
            Usage::Fixed(_) => Algorithm::FixedWindow,
            Usage::Calendar(_) => Algorithm::CalendarWindow,
            Usage::Sliding(_) => Algorithm::SlidingWindow,
            Usage::Bucket(_) => Algorithm::TokenBucket,
        }
    }

    /// Nothing used.
    fn none(limit: &Limit, now: Timestamp) -> Usage {
        match limit.algorithm {
            Algorithm::FixedWindow => Usage::Fixed(Window::fixed(limit, None, now)),
            Algorithm::CalendarWindow => Usage::Calendar(Window::calendar(limit, None, now)),
            Algorithm::SlidingWindow => Usage::Sliding(Box::new(SlidingWindow::empty(limit))),
            Algorithm::TokenBucket => Usage::Bucket(Box::new(TokenBucket::full(limit, now))),
        }
    }

    /// Brings what is stored of this kind up to this instant, under the limit
    /// as it is now.
    pub(super) fn load(limit: &Limit, stored: Option<&Usage>, now: Timestamp) -> Usage {
        match stored {
            None => Usage::none(limit, now),
            Some(Usage::Fixed(window)) => Usage::Fixed(Window::fixed(limit, Some(*window), now)),
            Some(Usage::Calendar(window)) => {
                Usage::Calendar(Window::calendar(limit, Some(*window), now))
            }
            Some(Usage::Sliding(window)) => Usage::Sliding(Box::new(window.roll(limit, now))),
            Some(Usage::Bucket(bucket)) => Usage::Bucket(Box::new(bucket.drain(limit, now))),
        }
    }

    /// Whether `load` makes something else of this: the limit's numbers have
    /// changed, or the clock has been set back. It then has to be put down even
    /// if the call is refused, or a key that is only ever refused would be held
    /// up for ever by what is made anew of it each time.
    pub(super) fn is_moved(&self, limit: &Limit, now: Timestamp) -> bool {
        match self {
            Usage::Fixed(window) | Usage::Calendar(window) => window.start > now,
            Usage::Sliding(window) => window.is_moved(limit, now),
            Usage::Bucket(bucket) => bucket.is_moved(limit, now),
        }
    }

    /// How long until a call of this cost has room: 0 for now, in µs. The
    /// window's length where waiting does not help.
    pub(super) fn wait(&self, limit: &Limit, cost: u32, now: Timestamp) -> u64 {
        if cost > limit.ceiling {
            return limit.window.micros();
        }
        match self {
            Usage::Fixed(window) | Usage::Calendar(window) => window.wait(limit, cost, now),
            Usage::Sliding(window) => window.wait(limit, cost, now),
            Usage::Bucket(bucket) => bucket.wait(cost, now),
        }
    }

    /// Counts a call.
    pub(super) fn spend(&mut self, cost: u32, now: Timestamp) {
        match self {
            Usage::Fixed(window) | Usage::Calendar(window) => window.spend(cost),
            Usage::Sliding(window) => window.spend(cost, now),
            Usage::Bucket(bucket) => bucket.spend(cost, now),
        }
    }

    /// How much is used.
    pub(super) fn count(&self, now: Timestamp) -> u32 {
        match self {
            Usage::Fixed(window) | Usage::Calendar(window) => window.count,
            Usage::Sliding(window) => window.count(),
            Usage::Bucket(bucket) => bucket.count(now),
        }
    }

    /// How long until nothing of it is used, in µs; 0 if nothing is.
    pub(super) fn reset(&self, limit: &Limit, now: Timestamp) -> u64 {
        match self {
            Usage::Fixed(window) | Usage::Calendar(window) => window.reset(limit, now),
            Usage::Sliding(window) => window.reset(limit, now),
            Usage::Bucket(bucket) => bucket.reset(now),
        }
    }

    /// Since when notices of this limit's levels belong to the present window:
    /// those from then on do.
    pub(super) fn notices_since(&self, limit: &Limit, now: Timestamp) -> u64 {
        match self {
            Usage::Fixed(window) | Usage::Calendar(window) => window.start.0,
            Usage::Sliding(_) | Usage::Bucket(_) => {
                (now.0 + 1).saturating_sub(limit.window.micros())
            }
        }
    }
}
