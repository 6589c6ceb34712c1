//! The usage of a limit, for any algorithm. The twin of the tables of `lua/lib/usage.lua`.
//!
//! A decision loads the usage as of its own time and computes how long the call must wait. It
//! spends if no limit refuses. Usage of another algorithm under the same name is not converted: the
//! limit then starts without usage.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    rule::{Algorithm, Limit},
    sliding_window::SlidingWindow,
    token_bucket::TokenBucket,
    window::Window,
};
use crate::time::Timestamp;

/// The usage of a limit at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Usage {
    /// A window from its first call on.
    Fixed(Window),
    /// A window of the clock.
    Calendar(Window),
    /// Counts in sub-buckets.
    // Boxed: most of a million keys need less than its size.
    Sliding(Box<SlidingWindow>),
    Bucket(Box<TokenBucket>),
}

/// The form in an export: the algorithm is a tag.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Usage", tag = "algorithm")]
enum Tagged {
    #[serde(rename = "fixed_window")]
    Fixed(Window),
    #[serde(rename = "calendar_window")]
    Calendar(Window),
    #[serde(rename = "sliding_window")]
    Sliding(Box<SlidingWindow>),
    #[serde(rename = "token_bucket")]
    Bucket(Box<TokenBucket>),
}

/// Serializes a usage: tagged in JSON, plain in a data directory.
pub(super) mod form {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(usage: &Usage, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() { Tagged::serialize(usage, to) } else { usage.serialize(to) }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Usage, D::Error> {
        if from.is_human_readable() { Tagged::deserialize(from) } else { Usage::deserialize(from) }
    }
}

impl Usage {
    /// Returns the algorithm that counted it.
    pub(super) fn algorithm(&self) -> Algorithm {
        match self {
            Usage::Fixed(_) => Algorithm::FixedWindow,
            Usage::Calendar(_) => Algorithm::CalendarWindow,
            Usage::Sliding(_) => Algorithm::SlidingWindow,
            Usage::Bucket(_) => Algorithm::TokenBucket,
        }
    }

    /// Usage of an unused limit.
    fn none(limit: &Limit, now: Timestamp) -> Usage {
        match limit.algorithm {
            Algorithm::FixedWindow => Usage::Fixed(Window::fixed(limit, None, now)),
            Algorithm::CalendarWindow => Usage::Calendar(Window::calendar(limit, None, now)),
            Algorithm::SlidingWindow => Usage::Sliding(Box::new(SlidingWindow::empty(limit))),
            Algorithm::TokenBucket => Usage::Bucket(Box::new(TokenBucket::full(limit, now))),
        }
    }

    /// Returns the usage at `now` under the current numbers of the limit, from stored usage of the
    /// same algorithm.
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

    /// Whether [`Usage::load`] changes the meaning of this usage: the limit's numbers have changed,
    /// or the clock was set back. It must then be stored even if the call is refused; otherwise a
    /// key that is only refused would wait forever, because each call would start the conversion
    /// anew.
    pub(super) fn is_moved(&self, limit: &Limit, now: Timestamp) -> bool {
        match self {
            Usage::Fixed(window) | Usage::Calendar(window) => window.start > now,
            Usage::Sliding(window) => window.is_moved(limit, now),
            Usage::Bucket(bucket) => bucket.is_moved(limit, now),
        }
    }

    /// Returns the time in µs until a call of this cost passes; 0 for now. The length of the window
    /// if waiting does not help, because the cost is above the ceiling.
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

    /// Counts a call, whether it passes or not. The count can rise beyond the ceiling.
    pub(super) fn spend(&mut self, cost: u32, now: Timestamp) {
        match self {
            Usage::Fixed(window) | Usage::Calendar(window) => window.spend(cost),
            Usage::Sliding(window) => window.spend(cost, now),
            Usage::Bucket(bucket) => bucket.spend(cost, now),
        }
    }

    /// Returns the current count.
    pub(super) fn count(&self, now: Timestamp) -> u64 {
        match self {
            Usage::Fixed(window) | Usage::Calendar(window) => window.count,
            Usage::Sliding(window) => window.count(),
            Usage::Bucket(bucket) => bucket.count(now).into(),
        }
    }

    /// Returns the time in µs until the count is 0 again; 0 if it is.
    pub(super) fn reset(&self, limit: &Limit, now: Timestamp) -> u64 {
        match self {
            Usage::Fixed(window) | Usage::Calendar(window) => window.reset(limit, now),
            Usage::Sliding(window) => window.reset(limit, now),
            Usage::Bucket(bucket) => bucket.reset(now),
        }
    }

    /// Returns the start of the current window in µs. Notices from then on belong to it.
    pub(super) fn notices_since(&self, limit: &Limit, now: Timestamp) -> u64 {
        match self {
            Usage::Fixed(window) | Usage::Calendar(window) => window.start.0,
            Usage::Sliding(_) | Usage::Bucket(_) => {
                (now.0 + 1).saturating_sub(limit.window.micros())
            }
        }
    }
}
