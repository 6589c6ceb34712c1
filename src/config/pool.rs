//! `[[pool]]` of `tollgate.toml`.

use serde::{Deserialize, Deserializer};

use super::value::{denial_cache, length, number, wait_replicas, wait_timeout};
use tollgate_core::{
    acknowledgement::Acknowledgement,
    admission::{
        ATTEMPTS_MAX, AfterFailover, CAPACITY_MAX, GRACE_MAX, HISTORY_MAX, HISTORY_MIN, LEASE_MAX,
        LEASE_MIN, PoolRule, QUEUED_MAX, RETENTION_MAX, RETENTION_MIN, Settings,
    },
    fallback::OnStoreFailure,
    time::Millis,
};

/// `[[pool]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolEntry {
    r#match: String,
    pub(super) namespace: Option<String>,
    #[serde(default, deserialize_with = "capacity")]
    capacity: Option<u32>,
    #[serde(default, deserialize_with = "lease")]
    lease_duration: Option<Millis>,
    #[serde(default, deserialize_with = "grace")]
    expiry_grace: Option<Millis>,
    paused: Option<bool>,
    #[serde(default, deserialize_with = "retention")]
    retention: Option<Millis>,
    barging: Option<bool>,
    #[serde(default, deserialize_with = "max_attempts")]
    max_attempts: Option<u32>,
    #[serde(default, deserialize_with = "queued_max")]
    queued_max: Option<u32>,
    #[serde(default, deserialize_with = "history")]
    history: Option<u32>,
    #[serde(default, deserialize_with = "denial_cache")]
    denial_cache: Option<Millis>,
    #[serde(default)]
    on_store_failure: OnStoreFailure,
    #[serde(default, deserialize_with = "wait_replicas")]
    wait_replicas: Option<u32>,
    #[serde(default, deserialize_with = "wait_timeout")]
    wait_timeout: Option<Millis>,
    after_failover: Option<AfterFailover>,
}

impl PoolEntry {
    /// Fails if two settings exclude each other. The error names both.
    pub(super) fn check(&self) -> Result<(), String> {
        match (self.on_store_failure, self.after_failover) {
            (OnStoreFailure::Allow, Some(AfterFailover::Hold)) => {
                let why = "after_failover: \"hold\" contradicts on_store_failure = \"allow\", \
                           which admits during a failover";
                Err(why.to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl From<PoolEntry> for PoolRule {
    fn from(entry: PoolEntry) -> PoolRule {
        let defaults = Settings::default();
        let settings = Settings {
            capacity: entry.capacity.unwrap_or(defaults.capacity),
            lease_duration: entry.lease_duration.unwrap_or(defaults.lease_duration),
            expiry_grace: entry.expiry_grace.unwrap_or(defaults.expiry_grace),
            paused: entry.paused.unwrap_or(defaults.paused),
            retention: entry.retention.unwrap_or(defaults.retention),
            barging: entry.barging.unwrap_or(defaults.barging),
            max_attempts: entry.max_attempts.unwrap_or(defaults.max_attempts),
            queued_max: entry.queued_max.unwrap_or(defaults.queued_max),
            history: entry.history.unwrap_or(defaults.history),
            denial_cache: entry.denial_cache.unwrap_or(defaults.denial_cache),
            on_store_failure: entry.on_store_failure,
            acknowledgement: Acknowledgement {
                replicas: entry.wait_replicas.unwrap_or(defaults.acknowledgement.replicas),
                timeout: entry.wait_timeout.unwrap_or(defaults.acknowledgement.timeout),
            },
            after_failover: entry.after_failover.unwrap_or(defaults.after_failover),
        };
        PoolRule { namespace: entry.namespace, pattern: entry.r#match, settings }
    }
}

fn capacity<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    number(d, "capacity", 0..=CAPACITY_MAX.into()).map(|number| Some(number as u32))
}

fn lease<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Millis>, D::Error> {
    length(d, "lease_duration", LEASE_MIN..=LEASE_MAX).map(Some)
}

fn grace<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Millis>, D::Error> {
    length(d, "expiry_grace", Millis(0)..=GRACE_MAX).map(Some)
}

fn retention<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Millis>, D::Error> {
    length(d, "retention", RETENTION_MIN..=RETENTION_MAX).map(Some)
}

fn max_attempts<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    number(d, "max_attempts", 1..=ATTEMPTS_MAX.into()).map(|number| Some(number as u32))
}

fn queued_max<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    number(d, "queued_max", 0..=QUEUED_MAX.into()).map(|number| Some(number as u32))
}

fn history<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    number(d, "history", HISTORY_MIN.into()..=HISTORY_MAX.into()).map(|number| Some(number as u32))
}
