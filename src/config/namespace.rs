//! `[[namespace]]` of `tollgate.toml`.

use serde::{Deserialize, Deserializer};

use super::{
    limits::size,
    value::{namespace, number},
};
use tollgate_engine::budget::{NamespaceLimits, NamespaceRule};

/// The largest limit.
const MOST: i64 = 1_000_000_000;

/// `[[namespace]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamespaceEntry {
    r#match: String,
    #[serde(default, deserialize_with = "calls_per_second")]
    calls_per_second: Option<u32>,
    #[serde(default, deserialize_with = "in_flight_max")]
    in_flight_max: Option<u32>,
    #[serde(default, deserialize_with = "connections_max")]
    connections_max: Option<u32>,
    #[serde(default, deserialize_with = "waiting_max")]
    waiting_max: Option<u32>,
    #[serde(default, deserialize_with = "watchers_max")]
    watchers_max: Option<u32>,
    #[serde(default, deserialize_with = "names_max")]
    names_max: Option<u32>,
    #[serde(default, deserialize_with = "leases_max")]
    leases_max: Option<u32>,
    #[serde(default, deserialize_with = "queued_max")]
    queued_max: Option<u32>,
    #[serde(default, deserialize_with = "bytes_max")]
    bytes_max: Option<u64>,
}

/// Checks and builds all entries. The error names the key and the expected value.
pub(super) fn rules(entries: &[NamespaceEntry]) -> Result<Vec<NamespaceRule>, String> {
    let rules = entries.iter().enumerate().map(|(index, entry)| {
        namespace(&format!("namespace[{index}].match"), Some(&entry.r#match))?;
        Ok(NamespaceRule {
            pattern: entry.r#match.clone(),
            limits: NamespaceLimits {
                calls_per_second: entry.calls_per_second,
                in_flight_max: entry.in_flight_max,
                connections_max: entry.connections_max,
                waiting_max: entry.waiting_max,
                watchers_max: entry.watchers_max,
                names_max: entry.names_max,
                leases_max: entry.leases_max,
                queued_max: entry.queued_max,
                bytes_max: entry.bytes_max,
            },
        })
    });
    rules.collect()
}

macro_rules! limits {
    ($($key:ident),*) => {
        $(fn $key<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
            number(d, stringify!($key), 1..=MOST).map(|number| u32::try_from(number).ok())
        })*
    };
}

limits!(calls_per_second, in_flight_max, connections_max, waiting_max, watchers_max);
limits!(names_max, leases_max, queued_max);

fn bytes_max<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    size(d, "bytes_max", 1 << 20..=1 << 40).map(Some)
}
