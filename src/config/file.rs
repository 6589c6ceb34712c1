//! The form of `tollgate.toml`. Unknown keys are refused.

use std::{net::SocketAddr, ops::RangeInclusive, time::Duration};

use serde::{Deserialize, Deserializer, de::Error};

use super::{
    flags::{self, LogFormat},
    policy::PolicyEntry,
    redis::RedisSection,
    sequence::SequenceEntry,
};
use crate::{
    admission::{
        ATTEMPTS_MAX, CAPACITY_MAX, GRACE_MAX, HISTORY_MAX, HISTORY_MIN, LEASE_MAX, LEASE_MIN,
        PoolRule, QUEUED_MAX, RETENTION_MAX, RETENTION_MIN, Settings,
    },
    degradation::{OnStoreFailure, REPLICAS_MAX},
    denial::DENIAL_CACHE_MAX,
    time::Millis,
};

/// A configuration file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) listen: Option<SocketAddr>,
    #[serde(default, deserialize_with = "engine")]
    pub(super) engine: Option<String>,
    pub(super) log_format: Option<LogFormat>,
    #[serde(default, deserialize_with = "log_level")]
    pub(super) log_level: Option<String>,
    #[serde(default, deserialize_with = "connections")]
    pub(super) connections_max: Option<usize>,
    #[serde(default, deserialize_with = "drain")]
    pub(super) drain_timeout: Option<Duration>,
    #[serde(default, deserialize_with = "workers")]
    pub(super) workers: Option<usize>,
    #[serde(default, deserialize_with = "replicas")]
    pub(super) replicas: Option<u32>,
    #[serde(default)]
    pub(super) redis: RedisSection,
    #[serde(default)]
    pub(super) pool: Vec<PoolEntry>,
    #[serde(default)]
    pub(super) policy: Vec<PolicyEntry>,
    #[serde(default)]
    pub(super) sequence: Vec<SequenceEntry>,
}

/// `[[pool]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolEntry {
    r#match: String,
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
    on_store_failure: Option<OnStoreFailureName>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnStoreFailureName {
    Fail,
    Deny,
    Allow,
}

/// The default where nothing is said.
pub(super) fn on_store_failure(name: Option<OnStoreFailureName>) -> OnStoreFailure {
    match name {
        None | Some(OnStoreFailureName::Fail) => OnStoreFailure::Fail,
        Some(OnStoreFailureName::Deny) => OnStoreFailure::Deny,
        Some(OnStoreFailureName::Allow) => OnStoreFailure::Allow,
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
            on_store_failure: on_store_failure(entry.on_store_failure),
        };
        PoolRule { pattern: entry.r#match, settings }
    }
}

fn workers<'de, D: Deserializer<'de>>(d: D) -> Result<Option<usize>, D::Error> {
    number(d, "workers", 1..=256).map(|number| Some(number as usize))
}

pub(super) fn number<'de, D>(d: D, key: &str, bounds: RangeInclusive<i64>) -> Result<i64, D::Error>
where
    D: Deserializer<'de>,
{
    let number = i64::deserialize(d)?;
    match bounds.contains(&number) {
        true => Ok(number),
        false => Err(D::Error::custom(format!(
            "{key} = {number}: expected {} to {}",
            bounds.start(),
            bounds.end()
        ))),
    }
}

pub(super) fn length<'de, D>(
    d: D,
    key: &str,
    bounds: RangeInclusive<Millis>,
) -> Result<Millis, D::Error>
where
    D: Deserializer<'de>,
{
    let text = String::deserialize(d)?;
    parse_length(&text).filter(|millis| bounds.contains(millis)).ok_or_else(|| {
        let show = |bound: &Millis| humantime::format_duration(bound.duration()).to_string();
        let (least, most) = (show(bounds.start()), show(bounds.end()));
        D::Error::custom(format!(
            "{key} = \"{text}\": expected a duration of {least} to {most}, such as \"90s\""
        ))
    })
}

/// Whole milliseconds, rounded up.
pub(super) fn parse_length(text: &str) -> Option<Millis> {
    let length = humantime::parse_duration(text).ok()?;
    Some(Millis(u64::try_from(length.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)))
}

/// `+hh:mm` or `-hh:mm`, in minutes; the bound is the rule's to check.
pub(super) fn utc_offset<'de, D: Deserializer<'de>>(d: D) -> Result<i32, D::Error> {
    let text = String::deserialize(d)?;
    let read = || {
        let (sign, rest) = text.split_at_checked(1)?;
        let (hours, minutes) = rest.split_once(':')?;
        let two = |digits: &str| {
            let plain = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse::<i32>().ok()).flatten()
        };
        let minutes = two(hours)? * 60 + two(minutes).filter(|minutes| *minutes < 60)?;
        match sign {
            "+" => Some(minutes),
            "-" => Some(-minutes),
            _ => None,
        }
    };
    read().ok_or_else(|| {
        D::Error::custom(format!("utc_offset = \"{text}\": expected an offset such as \"+08:00\""))
    })
}

pub(super) fn text<'de, D>(
    d: D,
    key: &str,
    check: fn(&str) -> Result<String, String>,
) -> Result<String, D::Error>
where
    D: Deserializer<'de>,
{
    let text = String::deserialize(d)?;
    check(&text).map_err(|expected| D::Error::custom(format!("{key} = \"{text}\": {expected}")))
}

fn engine<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    // Not shown in the error: it may hold a password.
    let engine = flags::engine(&String::deserialize(d)?);
    engine.map(Some).map_err(|expected| D::Error::custom(format!("engine: {expected}")))
}

fn log_level<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    text(d, "log_level", flags::log_level).map(Some)
}

fn connections<'de, D: Deserializer<'de>>(d: D) -> Result<Option<usize>, D::Error> {
    number(d, "connections_max", 1..=1_000_000).map(|number| Some(number as usize))
}

fn drain<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
    let bounds = Millis(0)..=Millis::from_secs(3600);
    length(d, "drain_timeout", bounds).map(|length| Some(length.duration()))
}

fn replicas<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    number(d, "replicas", 1..=REPLICAS_MAX.into()).map(|number| Some(number as u32))
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

pub(super) fn denial_cache<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Millis>, D::Error> {
    length(d, "denial_cache", Millis(0)..=DENIAL_CACHE_MAX).map(Some)
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
