//! The format of `tollgate.toml`. Unknown keys are errors. `deploy/tollgate.toml` documents every
//! key with its range and default.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Deserializer, de::Error};

use super::{
    admin::{self, AdminChoice, ConsoleSection, MetricsSection},
    caller::{CallerEntry, ReflectionName},
    envoy::EnvoySection,
    flags::{self, DurabilityName, LogFormat},
    jwt::JwtSection,
    limits::{self, ConfiguredLimits},
    namespace::NamespaceEntry,
    otlp::OtlpSection,
    policy::PolicyEntry,
    pool::PoolEntry,
    redis::RedisSection,
    sequence::SequenceEntry,
    tls::TlsSection,
    value::{length, number, text},
};
use tollgate_core::{fallback::REPLICAS_MAX, time::Millis};

/// A parsed configuration file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) listen: Option<SocketAddr>,
    #[serde(default, deserialize_with = "admin::key")]
    pub(super) admin: Option<AdminChoice>,
    #[serde(default)]
    pub(super) ready_when_degraded: bool,
    #[serde(default)]
    pub(super) metrics: MetricsSection,
    #[serde(default)]
    pub(super) console: ConsoleSection,
    #[serde(default, deserialize_with = "engine")]
    pub(super) engine: Option<String>,
    pub(super) engine_password_file: Option<PathBuf>,
    pub(super) data_dir: Option<PathBuf>,
    pub(super) durability: Option<DurabilityName>,
    #[serde(default, deserialize_with = "memory_max")]
    pub(super) memory_max: Option<u64>,
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
    pub(super) tls: TlsSection,
    #[serde(default)]
    pub(super) otlp: OtlpSection,
    #[serde(default)]
    pub(super) redis: RedisSection,
    #[serde(default, deserialize_with = "limits::deserialize")]
    pub(super) limits: ConfiguredLimits,
    #[serde(default)]
    pub(super) envoy: EnvoySection,
    pub(super) reflection: Option<ReflectionName>,
    pub(super) jwt: Option<JwtSection>,
    #[serde(default)]
    pub(super) caller: Vec<CallerEntry>,
    #[serde(default)]
    pub(super) namespace: Vec<NamespaceEntry>,
    #[serde(default)]
    pub(super) pool: Vec<PoolEntry>,
    #[serde(default)]
    pub(super) policy: Vec<PolicyEntry>,
    #[serde(default)]
    pub(super) sequence: Vec<SequenceEntry>,
}

fn workers<'de, D: Deserializer<'de>>(d: D) -> Result<Option<usize>, D::Error> {
    number(d, "workers", 1..=256).map(|number| Some(number as usize))
}

fn engine<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    // The error does not quote the value: it may contain a password.
    let engine = flags::engine(&String::deserialize(d)?);
    engine.map(Some).map_err(|expected| D::Error::custom(format!("engine: {expected}")))
}

fn memory_max<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(d)?;
    let size = flags::memory_max(&text);
    let named = |expected| D::Error::custom(format!("memory_max = \"{text}\": {expected}"));
    size.map(Some).map_err(named)
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
