//! Converts durations and instants to their wire types.

use prost_types::{Duration, Timestamp};

use tollgate_core::{
    AsOf,
    time::{self, Millis},
};

pub(super) fn duration(length: Millis) -> Duration {
    let (seconds, millis) = (length.0 / 1000, length.0 % 1000);
    Duration { seconds: seconds as i64, nanos: millis as i32 * 1_000_000 }
}

/// Returns the time left until `end`.
pub(super) fn left<T>(value: &AsOf<T>, end: time::Timestamp) -> Duration {
    let left = value.until(end);
    Duration { seconds: left.as_secs() as i64, nanos: left.subsec_nanos() as i32 }
}

pub(super) fn timestamp(instant: time::Timestamp) -> Timestamp {
    let (seconds, micros) = (instant.0 / 1_000_000, instant.0 % 1_000_000);
    Timestamp { seconds: seconds as i64, nanos: micros as i32 * 1000 }
}
