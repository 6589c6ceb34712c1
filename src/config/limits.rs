//! `[limits]` of `tollgate.toml`: limits on what callers can make the server hold.

use std::ops::RangeInclusive;

use bytesize::ByteSize;
use serde::{Deserialize, Deserializer, de::Error};

use super::{
    ConfigError,
    value::{length, number},
};
use crate::{
    decision::{budget::CallerLimits, time::Millis},
    engine::embedded::UNSYNCED_BYTES,
};

/// Smallest byte limit: the largest message must fit into the share for large messages.
const BYTES_MIN: u64 = 8 << 20;
/// Largest byte limit: bytes are permits of a semaphore, and one acquire takes a `u32`.
const BYTES_MAX: u64 = 2 << 30;
/// Range of `unsynced_bytes`. The minimum holds a batch of tasks; the maximum fits the address
/// space.
const UNSYNCED: RangeInclusive<u64> = 1 << 20..=4 << 30;

/// `[limits]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsSection {
    #[serde(default, deserialize_with = "message_timeout")]
    message_timeout: Option<Millis>,
    #[serde(default, deserialize_with = "answer_timeout")]
    answer_timeout: Option<Millis>,
    #[serde(default, deserialize_with = "request_bytes")]
    request_bytes: Option<u32>,
    #[serde(default, deserialize_with = "connection_request_bytes")]
    connection_request_bytes: Option<u32>,
    #[serde(default, deserialize_with = "answer_bytes")]
    answer_bytes: Option<u32>,
    #[serde(default, deserialize_with = "connection_answer_bytes")]
    connection_answer_bytes: Option<u32>,
    #[serde(default, deserialize_with = "peer_connections")]
    peer_connections: Option<usize>,
    #[serde(default, deserialize_with = "connection_streams")]
    connection_streams: Option<u32>,
    #[serde(default, deserialize_with = "peer_streams")]
    peer_streams: Option<usize>,
    #[serde(default, deserialize_with = "resets_per_second")]
    resets_per_second: Option<u32>,
    #[serde(default, deserialize_with = "unsynced_bytes")]
    unsynced_bytes: Option<usize>,
}

impl LimitsSection {
    /// Returns the limits, with defaults for missing keys. Fails if a connection may hold more than
    /// the server.
    pub(super) fn limits(&self) -> Result<CallerLimits, ConfigError> {
        let default = CallerLimits::DEFAULT;
        let limits = CallerLimits {
            message_timeout: self.message_timeout.map_or(default.message_timeout, Millis::duration),
            answer_timeout: self.answer_timeout.map_or(default.answer_timeout, Millis::duration),
            request_bytes: self.request_bytes.unwrap_or(default.request_bytes),
            connection_request_bytes: self
                .connection_request_bytes
                .unwrap_or(default.connection_request_bytes),
            answer_bytes: self.answer_bytes.unwrap_or(default.answer_bytes),
            connection_answer_bytes: self
                .connection_answer_bytes
                .unwrap_or(default.connection_answer_bytes),
            peer_connections: self.peer_connections,
            connection_streams: self.connection_streams.unwrap_or(default.connection_streams),
            peer_streams: self.peer_streams.unwrap_or(default.peer_streams),
            resets_per_second: self.resets_per_second.unwrap_or(default.resets_per_second),
        };
        let pairs = [
            ("request_bytes", limits.connection_request_bytes, limits.request_bytes),
            ("answer_bytes", limits.connection_answer_bytes, limits.answer_bytes),
        ];
        for (key, connection, server) in pairs {
            if connection > server {
                return Err(ConfigError(format!(
                    "limits.connection_{key} = {}: expected at most limits.{key}, {}",
                    ByteSize(connection.into()),
                    ByteSize(server.into())
                )));
            }
        }
        Ok(limits)
    }

    /// Maximum number of bytes of changes that may wait for the disk.
    pub(super) fn unsynced_bytes(&self) -> usize {
        self.unsynced_bytes.unwrap_or(UNSYNCED_BYTES)
    }
}

fn message_timeout<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Millis>, D::Error> {
    length(d, "limits.message_timeout", times()).map(Some)
}

fn answer_timeout<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Millis>, D::Error> {
    length(d, "limits.answer_timeout", times()).map(Some)
}

/// Range of both timeouts.
fn times() -> RangeInclusive<Millis> {
    Millis(100)..=Millis::from_secs(600)
}

fn request_bytes<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    size(d, "limits.request_bytes").map(Some)
}

fn connection_request_bytes<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    size(d, "limits.connection_request_bytes").map(Some)
}

fn answer_bytes<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    size(d, "limits.answer_bytes").map(Some)
}

fn connection_answer_bytes<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    size(d, "limits.connection_answer_bytes").map(Some)
}

fn peer_connections<'de, D: Deserializer<'de>>(d: D) -> Result<Option<usize>, D::Error> {
    number(d, "limits.peer_connections", 1..=1_000_000).map(|number| Some(number as usize))
}

fn connection_streams<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    number(d, "limits.connection_streams", 1..=65_536).map(|number| Some(number as u32))
}

fn peer_streams<'de, D: Deserializer<'de>>(d: D) -> Result<Option<usize>, D::Error> {
    number(d, "limits.peer_streams", 1..=1_000_000_000).map(|number| Some(number as usize))
}

fn resets_per_second<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    number(d, "limits.resets_per_second", 1..=1_000_000).map(|number| Some(number as u32))
}

/// Reads a size in bytes, in the range that holds a whole message.
fn size<'de, D: Deserializer<'de>>(d: D, key: &str) -> Result<u32, D::Error> {
    let text = String::deserialize(d)?;
    let size = text.parse::<ByteSize>().ok().map(|size| size.as_u64());
    size.filter(|size| (BYTES_MIN..=BYTES_MAX).contains(size)).map(|size| size as u32).ok_or_else(
        || {
            D::Error::custom(format!(
                "{key} = \"{text}\": expected a size of 8MiB to 2GiB, such as \"64MiB\""
            ))
        },
    )
}

fn unsynced_bytes<'de, D: Deserializer<'de>>(d: D) -> Result<Option<usize>, D::Error> {
    let text = String::deserialize(d)?;
    let size = text.parse::<ByteSize>().ok().map(|size| size.as_u64());
    let size = size.filter(|size| UNSYNCED.contains(size)).and_then(|size| size.try_into().ok());
    size.map(Some).ok_or_else(|| {
        D::Error::custom(format!(
            "limits.unsynced_bytes = \"{text}\": expected a size of 1MiB to 4GiB, such as \"16MiB\""
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bounded_and_have_defaults() {
        let read = |text: &str| toml::from_str::<LimitsSection>(text);
        assert_eq!(read("").map(|limits| limits.unsynced_bytes()), Ok(UNSYNCED_BYTES));
        let small = read("unsynced_bytes = \"1MiB\"").map(|limits| limits.unsynced_bytes());
        assert_eq!(small, Ok(1 << 20));
        for bad in ["\"1000\"", "\"5GiB\"", "\"much\"", "16"] {
            assert!(read(&format!("unsynced_bytes = {bad}")).is_err(), "{bad}");
        }
    }
}
