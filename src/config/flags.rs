//! The flags of `tollgate serve`.

use std::{net::SocketAddr, path::PathBuf};

use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::{
    admin::{self, AdminChoice},
    tls::TlsFlags,
};
use crate::server::telemetry;
use tollgate_engine::{embedded::Durability, redis::RedisOptions};

/// Smallest `memory_max`, bytes: enough for an idle server and some work.
const MEMORY_MAX_MIN: u64 = 32 << 20;

/// Flags and `TOLLGATE_*` variables. They override the configuration file.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeFlags {
    /// Address and port to listen on [default: 127.0.0.1:50051]
    #[arg(long, value_name = "ADDR:PORT", env = "TOLLGATE_LISTEN")]
    pub listen: Option<SocketAddr>,

    /// Address and port of the admin pages (/metrics, /livez, /readyz, /status), or `off`; an
    /// address other than loopback requires callers with tokens [default: 127.0.0.1:50052]
    #[arg(long, value_name = "ADDR:PORT", env = "TOLLGATE_ADMIN", value_parser = admin::choice)]
    pub admin: Option<AdminChoice>,

    /// TLS.
    #[command(flatten)]
    pub tls: TlsFlags,

    /// Engine that makes the decisions: `embedded` (in this process) or the URL of a Redis 6.2 or
    /// newer: redis://[user:password@]host:port[/db], redis+unix:///path,
    /// redis+sentinel://host:port[,host:port]/name[/db], redis+cluster://host:port[,host:port];
    /// rediss for TLS. Every user of the machine can read arguments, so pass a URL with a password
    /// in TOLLGATE_ENGINE or the configuration file, or the password in --engine-password-file
    /// [default: embedded]
    #[arg(long, value_name = "ENGINE", env = "TOLLGATE_ENGINE", value_parser = engine)]
    // The value may contain a password.
    #[arg(hide_env_values = true)]
    pub engine: Option<String>,

    /// File with the Redis password, which must then not be in the URL
    #[arg(long, value_name = "FILE", env = "TOLLGATE_ENGINE_PASSWORD_FILE")]
    pub engine_password_file: Option<PathBuf>,

    /// Whether `engine` comes from the arguments and contains a password.
    #[arg(skip)]
    pub shows_password: bool,

    /// Directory in which the state of the embedded engine survives restarts; used by one server at
    /// a time [default: none, all state is lost when the process ends]
    #[arg(long, value_name = "DIR", env = "TOLLGATE_DATA_DIR")]
    pub data_dir: Option<PathBuf>,

    /// What answered changes in the data directory survive: `always`, everything, because they are
    /// synced before the answer is sent; `interval`, a kill of the process, while a power failure
    /// loses at most the last second; `none`, neither: a kill also loses the last second [default:
    /// interval]
    #[arg(long, value_name = "DURABILITY", env = "TOLLGATE_DURABILITY")]
    pub durability: Option<DurabilityName>,

    /// Memory of the process above which the embedded engine refuses new names, such as 512MiB;
    /// existing names keep working [default: no limit]
    #[arg(long, value_name = "SIZE", env = "TOLLGATE_MEMORY_MAX", value_parser = memory_max)]
    pub memory_max: Option<u64>,

    /// Folder with rules for Envoy's rate limit service, as YAML files of envoyproxy/ratelimit; the
    /// server then answers Envoy's calls too [default: none]
    #[arg(long, value_name = "DIR", env = "TOLLGATE_ENVOY_CONFIG")]
    pub envoy_config: Option<PathBuf>,

    /// Configuration file; deploy/tollgate.toml documents every key
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CONFIG")]
    pub config: Option<PathBuf>,

    /// Format of the log on standard error [default: text]
    #[arg(long, value_name = "FORMAT", env = "TOLLGATE_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,

    /// Least severe level to log, or a filter such as `tollgate=debug`; refusals and invalid
    /// requests are logged at debug [default: info]
    #[arg(long, value_name = "LEVEL", env = "TOLLGATE_LOG_LEVEL", value_parser = log_level)]
    pub log_level: Option<String>,
}

impl ServeFlags {
    /// Returns the keys of the file that a flag or variable overrides.
    pub(super) fn overridden(&self) -> Vec<&'static str> {
        let tls = &self.tls;
        let given = [
            ("listen", self.listen.is_some()),
            ("admin", self.admin.is_some()),
            ("engine", self.engine.is_some()),
            ("engine_password_file", self.engine_password_file.is_some()),
            ("data_dir", self.data_dir.is_some()),
            ("durability", self.durability.is_some()),
            ("memory_max", self.memory_max.is_some()),
            ("envoy.config", self.envoy_config.is_some()),
            ("log_format", self.log_format.is_some()),
            ("log_level", self.log_level.is_some()),
            ("tls.cert", tls.tls_cert.is_some()),
            ("tls.key", tls.tls_key.is_some()),
            ("tls.client_ca", tls.tls_client_ca.is_some()),
            ("tls.client_auth", tls.tls_client_auth.is_some()),
            ("tls.crl", tls.tls_crl.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key).collect()
    }
}

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// One line of text per event.
    Text,
}

impl LogFormat {
    /// Whether the format is JSON.
    pub fn is_json(self) -> bool {
        self == LogFormat::Json
    }
}

/// What answered changes in the data directory survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DurabilityName {
    /// Everything: changes are synced before the answer is sent.
    Always,
    /// A kill: changes are written before the answer is sent, and synced within a second. If the
    /// disk is slower than that, answers wait for it.
    Interval,
    /// Nothing until changes are synced, which is within a second.
    None,
}

impl From<DurabilityName> for Durability {
    fn from(name: DurabilityName) -> Durability {
        match name {
            DurabilityName::Always => Durability::Always,
            DurabilityName::Interval => Durability::Interval,
            DurabilityName::None => Durability::None,
        }
    }
}

/// Checks the value of `--engine`: `embedded` or the URL of a Redis.
pub(super) fn engine(text: &str) -> Result<String, String> {
    if text == "embedded" {
        return Ok(text.to_owned());
    }
    match RedisOptions::new(text).check() {
        Ok(()) => Ok(text.to_owned()),
        Err(error) => Err(format!("not a Redis URL: {error}")),
    }
}

/// Parses a size in bytes, at least [`MEMORY_MAX_MIN`].
pub(super) fn memory_max(text: &str) -> Result<u64, String> {
    let size = text.parse::<ByteSize>().ok().map(|size| size.as_u64());
    size.filter(|size| *size >= MEMORY_MAX_MIN)
        .ok_or_else(|| "expected a size of 32MiB or more, such as 512MiB or 4GiB".to_owned())
}

/// Checks a level or filter.
pub(super) fn log_level(text: &str) -> Result<String, String> {
    match telemetry::filter(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("expected error, warn, info, debug, trace or a filter such as \
                     `tollgate=debug`"
            .to_owned()),
    }
}
