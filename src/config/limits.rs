//! `[limits]` of `tollgate.toml`: limits on the resources that callers can occupy.

use std::{fmt, ops::RangeInclusive, time::Duration};

use bytesize::ByteSize;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, Visitor},
};

use super::value::{length, number};
use tollgate_core::time::Millis;
use tollgate_engine::budget::CallerLimits;
use tollgate_http::TransportLimits;

/// Range of the timeouts.
const TIMES: RangeInclusive<Millis> = Millis(100)..=Millis(600_000);
/// Range of byte limits. The largest message must fit into the part for large messages. The maximum
/// is due to the semaphore, which counts bytes as permits of type `u32`.
const BYTES: RangeInclusive<u64> = 8 << 20..=2 << 30;
/// Range of `unsynced_bytes`. The minimum is enough for a batch of tasks; the maximum fits the
/// address space.
const UNSYNCED: RangeInclusive<u64> = 1 << 20..=4 << 30;

/// Range of `connection_bytes`. The minimum is enough for 1,000 connections.
const CONNECTIONS: RangeInclusive<u64> = 16 << 20..=4 << 30;

/// The values of the section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConfiguredLimits {
    /// Limits on connections and peers.
    pub transport: TransportLimits,
    /// Limits on what callers can make the engine hold.
    pub engine: CallerLimits,
}

/// Deserializes the section; missing keys have their defaults. Fails if a value is out of range, or
/// if the limit of a connection exceeds the limit of the server.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<ConfiguredLimits, D::Error> {
    d.deserialize_map(Section)
}

/// Deserializes a section with these keys, which are fields of a part of [`ConfiguredLimits`]. A row
/// contains the type of the value, the function that parses it, and its range.
macro_rules! section {
    ($($part:ident { $($key:ident: $type:ty = $read:ident($range:expr);)* })*) => {
        #[derive(Deserialize)]
        #[serde(field_identifier)]
        #[allow(non_camel_case_types, reason = "the names of the keys")]
        enum LimitKey { $($($key),*),* }

        struct Section;

        impl<'de> Visitor<'de> for Section {
            type Value = ConfiguredLimits;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the keys of [limits]")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<ConfiguredLimits, M::Error> {
                let mut limits = ConfiguredLimits::default();
                while let Some(key) = map.next_key()? {
                    match key {$($(
                        LimitKey::$key => {
                            struct Value;
                            impl<'de> DeserializeSeed<'de> for Value {
                                type Value = $type;
                                fn deserialize<D>(self, d: D) -> Result<$type, D::Error>
                                where
                                    D: Deserializer<'de>,
                                {
                                    $read(d, concat!("limits.", stringify!($key)), $range)
                                }
                            }
                            limits.$part.$key = map.next_value_seed(Value)?.into();
                        }
                    )*)*}
                }
                check(&limits).map_err(M::Error::custom)?;
                Ok(limits)
            }
        }
    };
}

section! {
    transport {
        handshake_timeout: Duration = time(TIMES);
        preface_timeout: Duration = time(TIMES);
        message_timeout: Duration = time(TIMES);
        answer_timeout: Duration = time(TIMES);
        request_bytes: u32 = size(BYTES);
        connection_request_bytes: u32 = size(BYTES);
        answer_bytes: u32 = size(BYTES);
        connection_answer_bytes: u32 = size(BYTES);
        connection_bytes: usize = size(CONNECTIONS);
        peer_connections: usize = count(1..=1_000_000);
        connection_streams: u32 = count(1..=65_536);
        peer_streams: usize = count(1..=1_000_000_000);
        resets_per_second: u32 = count(1..=1_000_000);
    }
    engine {
        waiters: usize = count(1..=1_000_000);
        sequence_waiters: usize = count(4..=1_000_000);
        watchers: usize = count(1..=1_000_000);
        unsynced_bytes: usize = size(UNSYNCED);
        unsynced_changes: usize = count(1_000..=100_000_000);
    }
}

/// Fails if the limit of a connection exceeds the limit of the server.
fn check(ConfiguredLimits { transport: limits, .. }: &ConfiguredLimits) -> Result<(), String> {
    let pairs = [
        ("request_bytes", limits.connection_request_bytes, limits.request_bytes),
        ("answer_bytes", limits.connection_answer_bytes, limits.answer_bytes),
    ];
    match pairs.into_iter().find(|(_, connection, server)| connection > server) {
        None => Ok(()),
        Some((key, connection, server)) => Err(format!(
            "limits.connection_{key} = {}: expected at most limits.{key}, {}",
            ByteSize(connection.into()),
            ByteSize(server.into())
        )),
    }
}

fn time<'de, D>(d: D, key: &str, range: RangeInclusive<Millis>) -> Result<Duration, D::Error>
where
    D: Deserializer<'de>,
{
    length(d, key, range).map(Millis::duration)
}

fn count<'de, D, T>(d: D, key: &str, range: RangeInclusive<i64>) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64, Error: fmt::Display>,
{
    T::try_from(number(d, key, range)?).map_err(D::Error::custom)
}

/// Deserializes a size in bytes such as `64MiB` and checks its range. The error names `key`.
pub(super) fn size<'de, D, T>(d: D, key: &str, range: RangeInclusive<u64>) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    let text = String::deserialize(d)?;
    let size = text.parse::<ByteSize>().ok().map(|size| size.as_u64());
    let size = size.filter(|size| range.contains(size)).and_then(|size| size.try_into().ok());
    size.ok_or_else(|| {
        let show = |bytes: &u64| format!("{:.0}", ByteSize(*bytes)).replace(' ', "");
        let (least, most) = (show(range.start()), show(range.end()));
        D::Error::custom(format!(
            "{key} = \"{text}\": expected a size of {least} to {most}, such as \"64MiB\""
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(text: &str) -> Result<ConfiguredLimits, String> {
        let section = toml::de::Deserializer::parse(text).map_err(|error| error.to_string())?;
        deserialize(section).map_err(|error| error.to_string())
    }

    #[test]
    fn missing_keys_get_defaults_and_given_keys_their_values() {
        assert_eq!(limits(""), Ok(ConfiguredLimits::default()));
        let text = "peer_connections = 7\nanswer_timeout = \"1s\"\nunsynced_bytes = \"1MiB\"";
        let expected = ConfiguredLimits {
            transport: TransportLimits {
                peer_connections: Some(7),
                answer_timeout: Duration::from_secs(1),
                ..TransportLimits::DEFAULT
            },
            engine: CallerLimits { unsynced_bytes: 1 << 20, ..CallerLimits::DEFAULT },
        };
        assert_eq!(limits(text), Ok(expected));
    }

    #[test]
    fn values_out_of_range_are_refused_and_the_error_names_key_line_and_range() {
        for (key, bad, expected) in [
            ("answer_timeout", &["\"99ms\"", "\"11m\"", "\"soon\""][..], "100ms to 10m"),
            ("answer_bytes", &["\"7MiB\"", "\"3GiB\"", "\"1000\"", "\"much\""], "8MiB to 2GiB"),
            ("unsynced_bytes", &["\"1000\"", "\"5GiB\"", "\"much\""], "1MiB to 4GiB"),
            ("peer_streams", &["0", "-1", "1000000001"], "1 to 1000000000"),
        ] {
            for bad in bad {
                let error = limits(&format!("\n{key} = {bad}")).expect_err(bad);
                let named = format!("limits.{key} = {bad}: expected");
                assert!(error.contains(&named) && error.contains(expected), "{error}");
                assert!(error.contains("line 2"), "{error}");
            }
        }
        for (text, expected) in [
            ("unsynced_bytes = 16", "invalid type"),
            ("peer_streams = \"many\"", "invalid type"),
            ("speed = 1", "unknown field `speed`, expected one of `handshake_timeout`"),
            ("request_bytes = \"8MiB\"\nconnection_request_bytes = \"9MiB\"", "at most limits.req"),
        ] {
            let error = limits(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
    }
}
