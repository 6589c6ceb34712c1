//! The flags of `tollgate serve`.

use std::{net::SocketAddr, path::PathBuf};

use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::{
    engine::{embedded::Durability, redis::RedisOptions},
    telemetry,
};

/// What an idle server takes, with room to work.
const MEMORY_MAX_MIN: u64 = 32 << 20;

/// Flags and `TOLLGATE_*` variables; they win over the configuration file.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeFlags {
    /// Address and port to listen on [default: 127.0.0.1:50051]
    #[arg(long, value_name = "ADDR:PORT", env = "TOLLGATE_LISTEN")]
    pub listen: Option<SocketAddr>,

    /// Where decisions are taken: `embedded` (in this process, in memory) or the URL of a
    /// Redis (6.2 or newer): redis://[user:password@]host:port[/db],
    /// redis+unix:///path, redis+sentinel://host:port[,host:port]/name[/db],
    /// redis+cluster://host:port[,host:port]; rediss for TLS. A URL with a password belongs
    /// in TOLLGATE_ENGINE or in the configuration file: every user of the machine can read
    /// arguments [default: embedded]
    #[arg(long, value_name = "ENGINE", env = "TOLLGATE_ENGINE", value_parser = engine)]
    // It may hold a password.
    #[arg(hide_env_values = true)]
    pub engine: Option<String>,

    /// Whether `engine` is in the arguments, and holds a password.
    #[arg(skip)]
    pub shows_password: bool,

    /// Directory in which the embedded engine keeps its state over restarts, for one server
    /// alone [default: none, state ends with the process]
    #[arg(long, value_name = "DIR", env = "TOLLGATE_DATA_DIR")]
    pub data_dir: Option<PathBuf>,

    /// What an answer promises with a data directory: `always`, that what it says is synced
    /// to the disk; `interval`, that it is within a second, so that a kill takes what was
    /// answered within one second, at most [default: interval]
    #[arg(long, value_name = "DURABILITY", env = "TOLLGATE_DURABILITY")]
    pub durability: Option<DurabilityName>,

    /// Memory that the server may take before the embedded engine refuses names that it does
    /// not know, such as 512MiB; those that it knows go on [default: no bound]
    #[arg(long, value_name = "SIZE", env = "TOLLGATE_MEMORY_MAX", value_parser = memory_max)]
    pub memory_max: Option<u64>,

    /// Configuration file; deploy/tollgate.toml documents every key
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CONFIG")]
    pub config: Option<PathBuf>,

    /// Form of the log on standard error [default: text]
    #[arg(long, value_name = "FORMAT", env = "TOLLGATE_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,

    /// Least severe level logged, or a filter such as `tollgate=debug`;
    /// refusals and failed calls show at debug [default: info]
    #[arg(long, value_name = "LEVEL", env = "TOLLGATE_LOG_LEVEL", value_parser = log_level)]
    pub log_level: Option<String>,
}

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// A line for people.
    Text,
}

impl LogFormat {
    /// Whether it is JSON.
    pub fn is_json(self) -> bool {
        self == LogFormat::Json
    }
}

/// What an answer promises with a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DurabilityName {
    /// It is synced to the disk.
    Always,
    /// It is within a second; where the disk is slower than that, an answer waits for it.
    Interval,
}

impl From<DurabilityName> for Durability {
    fn from(name: DurabilityName) -> Durability {
        match name {
            DurabilityName::Always => Durability::Always,
            DurabilityName::Interval => Durability::Interval,
        }
    }
}

/// Checks the name of an engine.
pub(super) fn engine(text: &str) -> Result<String, String> {
    if text == "embedded" {
        return Ok(text.to_owned());
    }
    match RedisOptions::new(text).check() {
        Ok(()) => Ok(text.to_owned()),
        Err(error) => Err(format!("not a Redis URL: {error}")),
    }
}

/// Reads a size in bytes.
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
