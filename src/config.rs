//! The configuration of a server. Flags and `TOLLGATE_*` variables override `tollgate.toml`, which
//! overrides the defaults.

mod access;
mod admin;
mod caller;
mod differences;
pub mod envoy;
mod error;
mod file;
mod flags;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod inputs;
mod jwt;
mod key_set;
mod limits;
mod namespace;
mod otlp;
mod policy;
mod pool;
mod redis;
mod reload;
pub mod secret;
mod sequence;
pub mod store;
mod tls;
mod value;

use std::{
    mem,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    slice,
    sync::Arc,
    time::Duration,
};

pub use admin::{AdminChoice, AdminOptions, ConsoleSection, MetricsSection};
pub use error::ConfigError;
use file::File;
use flags::DurabilityName;
pub use flags::ServeFlags;
pub use inputs::{FirstConfig, LoadedConfig};
use jwt::KeySet;
pub use limits::ConfiguredLimits;
pub use reload::{LiveParts, Reloader};
pub use tls::{ClientAuth, TlsFlags, TlsOptions};

use crate::{
    grpc::{
        CurrentRules, DecisionRules,
        access::{Access, Callers, Reflection},
    },
    server::{Rules, input_file, otlp::OtlpOptions},
};
use tollgate_core::admission::{Catalog, PoolRule};
use tollgate_engine::{budget::NamespaceRule, embedded::Durability, redis::RedisOptions};
use tollgate_http::Peers;

const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 50051);
/// Smallest `memory_max` with a data directory, in bytes: enough for its page cache and for some
/// work.
const KEPT_MEMORY_MIN: u64 = 128 << 20;
const CONNECTIONS_MAX: usize = 16_384;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The complete configuration of a server.
#[derive(Debug)]
pub struct Config {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// The admin listener.
    pub admin: AdminOptions,
    /// TLS; `None` for plain text.
    pub tls: Option<TlsOptions>,
    /// The engine that runs the decisions.
    pub engine: EngineChoice,
    /// Format and level of the log.
    pub log: LogOptions,
    /// Maximum number of connections; further ones are closed immediately.
    pub connections_max: usize,
    /// Limits on what callers can make the server hold.
    pub limits: ConfiguredLimits,
    /// Time that calls in flight may take to finish after SIGTERM or SIGINT.
    pub drain_timeout: Duration,
    /// Number of serving threads. Default: the number of cores.
    pub workers: usize,
    /// The limits of namespaces by glob, in order; the first match applies.
    pub namespaces: Vec<NamespaceRule>,
    /// The number of servers that share a namespace's calls per second.
    pub servers: u32,
    /// The rules for pools, rates and sequences.
    pub decisions: DecisionRules,
    /// Export of spans; `None` for no spans.
    pub otlp: Option<OtlpOptions>,
    /// The callers and their rights; `None` if anyone may do anything.
    pub callers: Option<Callers>,
    /// Who may use reflection; `None` for the default.
    pub reflection: Option<Reflection>,
}

/// The engine that runs the decisions.
#[derive(Debug, Clone)]
pub enum EngineChoice {
    /// The embedded engine, in this process.
    Embedded(EmbeddedOptions),
    /// The Redis engine.
    Redis(Box<RedisOptions>),
}

/// Options of the embedded engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmbeddedOptions {
    /// The data directory. `None` keeps all state in memory only.
    pub data_dir: Option<DataDir>,
    /// Memory of the process, in bytes, above which new names are refused. `None` for no limit.
    pub memory_max: Option<u64>,
}

/// The data directory of the embedded engine, in which its state survives restarts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir {
    /// Path of the directory.
    pub path: PathBuf,
    /// Whether changes are synced before they are answered, or within a second.
    pub durability: Durability,
}

/// Format and level of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// Whether each log line is a JSON object instead of text.
    pub json: bool,
    /// The least severe level that is logged, or a filter such as `tollgate=debug`.
    pub level: String,
}

impl Config {
    /// Merges the flags, the file that they name, and the defaults. Does not read certificates or
    /// key sets; a server does that with [`FirstConfig::read`].
    ///
    /// Fails if the file cannot be read, a value is invalid, or two settings exclude each other.
    pub fn load(flags: &ServeFlags) -> Result<Config, ConfigError> {
        let Some(path) = &flags.config else { return Config::merge(flags, Read::default()) };
        let (text, read) = read_alone(path)?;
        Config::merge(flags, read).map_err(|error| error.within(path, &text, false))
    }

    /// Merges the flags, a file, and the defaults.
    fn merge(flags: &ServeFlags, read: Read) -> Result<Config, ConfigError> {
        let Read { file, decisions, callers } = read;
        let tls = file.tls.clone().options(&flags.tls)?;
        let admin = AdminOptions::new(
            flags.admin.or(file.admin),
            file.ready_when_degraded,
            (file.metrics, file.console),
            callers.is_some(),
        )?;
        let namespaces = namespace::rules(&file.namespace).map_err(ConfigError::new)?;
        let otlp = file.otlp.options().map_err(ConfigError::new)?;
        let engine = flags.engine.clone().or(file.engine);
        let is_redis = engine.as_deref().is_some_and(|engine| engine != "embedded");
        let servers = if is_redis { file.replicas.unwrap_or(1) } else { 1 };
        let data_dir = data_dir(
            flags.data_dir.clone().or(file.data_dir),
            flags.durability.or(file.durability),
        )?;
        let password_file = flags.engine_password_file.clone().or(file.engine_password_file);
        let password = password_file
            .map(|path| secret::read_password(&path, engine.as_deref()))
            .transpose()?;
        let memory_max = flags.memory_max.or(file.memory_max);
        let workers = file.workers.unwrap_or_else(cores);
        let log = LogOptions {
            json: flags.log_format.or(file.log_format).is_some_and(|format| format.is_json()),
            level: flags.log_level.clone().or(file.log_level).unwrap_or_else(|| "info".into()),
        };
        Ok(Config {
            listen: flags.listen.or(file.listen).unwrap_or(LISTEN),
            admin,
            tls,
            engine: match engine.as_deref() {
                None | Some("embedded") => EngineChoice::Embedded(embedded(data_dir, memory_max)?),
                Some(_) if memory_max.is_some() => {
                    return Err(misplaced("memory_max", "and set maxmemory in Redis"));
                }
                Some(_) if data_dir.is_some() => {
                    return Err(misplaced("data_dir", "or the URL in engine"));
                }
                Some(url) => EngineChoice::Redis(Box::new(RedisOptions {
                    replicas: file.replicas.unwrap_or(1),
                    password,
                    ..file.redis.options(url, workers)?
                })),
            },
            log,
            connections_max: file.connections_max.unwrap_or(CONNECTIONS_MAX),
            limits: file.limits,
            drain_timeout: file.drain_timeout.unwrap_or(DRAIN_TIMEOUT),
            workers,
            namespaces,
            servers,
            decisions,
            otlp,
            callers,
            reflection: file.reflection.map(Reflection::from),
        })
    }

    /// Takes the rules out of the configuration, for a server. They stay the same unless
    /// [`Rules::reload`] is set.
    pub fn take_rules(&mut self) -> Rules {
        Rules {
            decisions: Arc::new(CurrentRules::new(mem::take(&mut self.decisions))),
            namespaces: mem::take(&mut self.namespaces),
            servers: self.servers,
            access: Access::new(self.callers.take(), self.reflection),
            peers: Peers::new(&self.limits.transport),
            ..Rules::default()
        }
    }

    /// Checks a file without the flags of a server. Does not read the files that it names.
    pub fn check(path: &Path) -> Result<(), ConfigError> {
        read_alone(path).map(drop)
    }
}

/// Builds the options of the embedded engine. Fails if the memory is too small for a data directory.
fn embedded(
    data_dir: Option<DataDir>,
    memory_max: Option<u64>,
) -> Result<EmbeddedOptions, ConfigError> {
    if data_dir.is_some() && memory_max.is_some_and(|most| most < KEPT_MEMORY_MIN) {
        return Err(ConfigError::new(
            "memory_max: expected 128MiB or more with a data_dir, because its pages are cached in \
             memory"
                .to_owned(),
        ));
    }
    Ok(EmbeddedOptions { data_dir, memory_max })
}

/// Builds the error for a key of the embedded engine if the engine is Redis.
fn misplaced(key: &str, instead: &str) -> ConfigError {
    ConfigError::new(format!("{key}: applies only to the embedded engine; remove it, {instead}"))
}

/// Builds the data directory. Fails if `durability` is set without a path.
fn data_dir(
    path: Option<PathBuf>,
    durability: Option<DurabilityName>,
) -> Result<Option<DataDir>, ConfigError> {
    match (path, durability) {
        (None, Some(_)) => Err(ConfigError::new(
            "durability: requires a data_dir; set one, or remove durability".to_owned(),
        )),
        (path, durability) => Ok(path.map(|path| DataDir {
            path,
            durability: durability.map(Durability::from).unwrap_or_default(),
        })),
    }
}

/// Returns the number of cores, at least 1.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A file, and what is built from it.
#[derive(Default)]
struct Read {
    file: File,
    decisions: DecisionRules,
    callers: Option<Callers>,
}

/// Reads and checks a file, but not the files that it names. Also returns its text.
fn read_alone(path: &Path) -> Result<(String, Read), ConfigError> {
    let text = input_file::read_text(path).map_err(|error| ConfigError::unread(path, &error))?;
    match build(parse_text(path, &text)?, KeySet::Skip) {
        Ok(read) => Ok((text, read)),
        Err(error) => Err(ConfigError::new(error).within(path, &text, true)),
    }
}

/// Parses the text of a file. The error does not quote the line, because it may contain a password,
/// or the file may not be a configuration at all.
fn parse_text(path: &Path, text: &str) -> Result<File, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let reason = secret::masked(error.message());
        ConfigError::unparsed(path, text, error.span(), &reason)
    })
}

/// Checks a file and builds its rules and callers. The error names the key.
fn build(file: File, keys: KeySet<'_>) -> Result<Read, String> {
    let mut pools = Vec::with_capacity(file.pool.len());
    for (index, entry) in file.pool.iter().enumerate() {
        let path = format!("pool[{index}]");
        entry.check().map_err(|error| format!("{path}.{error}"))?;
        value::namespace(&format!("{path}.namespace"), entry.namespace.as_deref())?;
        let rule = PoolRule::from(entry.clone());
        Catalog::new(slice::from_ref(&rule))
            .map_err(|error| format!("{path}.match: not a glob: {error}"))?;
        pools.push(rule);
    }
    let pools = Catalog::new(&pools).map_err(|error| format!("pool: not a glob: {error}"))?;
    file.metrics.check()?;
    namespace::rules(&file.namespace)?;
    file.otlp.options()?;
    let policies = policy::policies(&file.policy)?;
    let sequences = sequence::sequences(&file.sequence)?;
    let callers = caller::callers(&file.caller, file.jwt.as_ref(), keys)?;
    let decisions = DecisionRules {
        pools: Arc::new(pools),
        policies: Arc::new(policies),
        sequences: Arc::new(sequences),
        ..DecisionRules::default()
    };
    Ok(Read { file, decisions, callers })
}
