//! The flags of `tollgate export` and `tollgate import`.

use std::path::PathBuf;

use clap::Args;

use super::{Config, ConfigError, EmbeddedOptions, EngineChoice, ServeFlags, flags::engine};

/// The flags that select an engine, as for `tollgate serve`.
#[derive(Debug, Clone, Args)]
pub struct StoreFlags {
    /// URL of the Redis, as for `tollgate serve`. Every user of the machine can read arguments, so
    /// pass a URL with a password in TOLLGATE_ENGINE or the configuration file
    #[arg(long, value_name = "URL", env = "TOLLGATE_ENGINE", value_parser = engine)]
    // The value may contain a password.
    #[arg(hide_env_values = true)]
    pub(crate) engine: Option<String>,

    /// File with the Redis password, which must then not be in the URL
    #[arg(long, value_name = "FILE", env = "TOLLGATE_ENGINE_PASSWORD_FILE")]
    engine_password_file: Option<PathBuf>,

    /// Whether `engine` comes from the arguments and contains a password.
    #[arg(skip)]
    pub(crate) shows_password: bool,

    /// Data directory of the embedded engine; stop its server first
    #[arg(long, value_name = "DIR", env = "TOLLGATE_DATA_DIR")]
    data_dir: Option<PathBuf>,

    /// Configuration file of the server, for engine, data_dir and [redis] (key_prefix, TLS)
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CONFIG")]
    config: Option<PathBuf>,
}

impl StoreFlags {
    /// Returns the engine that the flags and the configuration file select. Fails if they name
    /// neither a Redis nor a data directory.
    pub fn choice(&self) -> Result<EngineChoice, ConfigError> {
        let flags = ServeFlags {
            engine: self.engine.clone(),
            engine_password_file: self.engine_password_file.clone(),
            data_dir: self.data_dir.clone(),
            config: self.config.clone(),
            ..ServeFlags::default()
        };
        match Config::load(&flags)?.engine {
            EngineChoice::Embedded(EmbeddedOptions { data_dir: None, .. }) => Err(ConfigError::new(
                "engine, data_dir: neither is set, and without a directory the embedded engine \
                 stores nothing: use --engine URL or --data-dir DIR"
                    .to_owned(),
            )),
            choice => Ok(choice),
        }
    }
}

/// Flags of `tollgate export`.
#[derive(Debug, Clone, Args)]
pub struct ExportFlags {
    /// The source of the export.
    #[command(flatten)]
    pub store: StoreFlags,

    /// File to write, which gets this name once it is complete [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Flags of `tollgate import`.
#[derive(Debug, Clone, Args)]
pub struct ImportFlags {
    /// The target of the import.
    #[command(flatten)]
    pub store: StoreFlags,

    /// Remove all state of the target first; otherwise the target must be empty
    #[arg(long)]
    pub replace: bool,

    /// File written by `tollgate export`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Contents of an export, for `--help`.
pub const HELP: &str = "\
An export contains pools (settings, fencing tokens), running leases with their tokens and
expiry times, results, queued tasks, rate usage, bans, sequences, locks, stock with holds,
orders and buyers, and the answers that repeats of a request_id get. It contains neither event
histories, which start again with a gap for watchers, nor waiting calls, which end with their
server.

Stop the servers on both sides first. A data directory is locked while a server uses it. An
export of a Redis in use may lack some of the latest decisions. deploy/archive.md specifies
the format.";
