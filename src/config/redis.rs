//! `[redis]` of `tollgate.toml`.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer};

use super::{
    ConfigError,
    value::{length, number, text},
};
use crate::server::input_file;
use tollgate_core::time::Millis;
use tollgate_engine::redis::{
    Eviction, OnStoreLoss, RedisOptions,
    address::{Certificates, SentinelUser},
    is_store_id,
};

/// `[redis]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RedisSection {
    #[serde(default, deserialize_with = "connections")]
    connections: Option<u32>,
    #[serde(default, deserialize_with = "calls_max")]
    calls_max: Option<usize>,
    #[serde(default, deserialize_with = "queued_max")]
    queued_max: Option<usize>,
    #[serde(default, deserialize_with = "batch_max")]
    batch_max: Option<usize>,
    #[serde(default, deserialize_with = "answer_timeout")]
    answer_timeout: Option<Millis>,
    #[serde(default, deserialize_with = "key_prefix")]
    key_prefix: Option<String>,
    eviction: Option<Eviction>,
    on_store_loss: Option<OnStoreLoss>,
    #[serde(default, deserialize_with = "store_id")]
    store_id: Option<String>,
    tls_ca: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    sentinel_user: Option<String>,
    sentinel_password: Option<String>,
}

impl RedisSection {
    /// Builds the options of the Redis at `url`. Reads the certificate files.
    pub(super) fn options(self, url: &str, workers: usize) -> Result<RedisOptions, ConfigError> {
        let certificates = self.certificates()?;
        let defaults = RedisOptions::new(url);
        let options = RedisOptions {
            certificates,
            sentinel: SentinelUser { name: self.sentinel_user, password: self.sentinel_password },
            connections: self.connections.unwrap_or(defaults.connections),
            calls_max: self.calls_max.unwrap_or(defaults.calls_max),
            queued_max: self.queued_max.unwrap_or(defaults.queued_max),
            batch_max: self.batch_max.unwrap_or(defaults.batch_max),
            answer_timeout: self.answer_timeout.map_or(defaults.answer_timeout, Millis::duration),
            key_prefix: self.key_prefix.unwrap_or(defaults.key_prefix.clone()),
            eviction: self.eviction.unwrap_or(defaults.eviction),
            on_store_loss: self.on_store_loss.unwrap_or_default(),
            store_id: self.store_id,
            workers,
            ..defaults
        };
        options.check().map_err(|error| ConfigError::new(format!("engine: {error}")))?;
        Ok(options)
    }

    /// Reads the certificate files. Fails if only one of `tls_cert` and `tls_key` is set.
    fn certificates(&self) -> Result<Certificates, ConfigError> {
        let read = |key: &str, path: &PathBuf| {
            let failed = |error| format!("redis.{key} = \"{}\": {error}", path.display());
            input_file::read(path).map_err(|error| ConfigError::new(failed(error)))
        };
        let own = match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => Some((read("tls_cert", cert)?, read("tls_key", key)?)),
            (None, None) => None,
            _ => {
                let expected = "redis.tls_cert, redis.tls_key: expected both or none";
                return Err(ConfigError::new(expected.to_owned()));
            }
        };
        let authority = self.tls_ca.as_ref().map(|path| read("tls_ca", path)).transpose()?;
        Ok(Certificates { authority, own })
    }
}

fn connections<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    number(d, "redis.connections", 1..=1024).map(|number| Some(number as u32))
}

fn calls_max<'de, D: Deserializer<'de>>(d: D) -> Result<Option<usize>, D::Error> {
    number(d, "redis.calls_max", 1..=1_000_000).map(|number| Some(number as usize))
}

/// Parses `queued_max`. The minimum is enough for the decisions of one call.
fn queued_max<'de, D: Deserializer<'de>>(d: D) -> Result<Option<usize>, D::Error> {
    number(d, "redis.queued_max", 1_000..=1_000_000).map(|number| Some(number as usize))
}

fn batch_max<'de, D: Deserializer<'de>>(d: D) -> Result<Option<usize>, D::Error> {
    number(d, "redis.batch_max", 1..=256).map(|number| Some(number as usize))
}

fn answer_timeout<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Millis>, D::Error> {
    length(d, "redis.answer_timeout", Millis(100)..=Millis::from_secs(600)).map(Some)
}

fn key_prefix<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    fn check(text: &str) -> Result<String, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        if !text.is_empty() && text.len() <= 64 && text.chars().all(plain) {
            Ok(text.to_owned())
        } else {
            Err("expected 1 to 64 letters, digits, or - _ . :".to_owned())
        }
    }
    text(d, "redis.key_prefix", check).map(Some)
}

fn store_id<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    fn check(text: &str) -> Result<String, String> {
        if is_store_id(text) {
            Ok(text.to_owned())
        } else {
            Err("expected 1 to 64 hexadecimal digits".to_owned())
        }
    }
    text(d, "redis.store_id", check).map(Some)
}
