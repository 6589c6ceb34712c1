//! The status of a server, as `/status` and GetStatus report it.

use serde::Serialize;

pub use tollgate_engine::{LossState, StoreLoss};

use tollgate_engine::StoreState;
use tollgate_telemetry::metrics::configuration::Configuration;

/// The status of a server. Times are in µs since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The version of the program.
    pub version: &'static str,
    /// The engine: `embedded` or `redis`.
    pub engine: &'static str,
    /// Where the state is stored: `memory`, `data_dir`, `single`, `sentinel` or `cluster`.
    pub topology: &'static str,
    /// The store: `up`, `refusing` (answers, but refuses writes) or `down`.
    pub store: &'static str,
    /// Whether load balancers may send calls: `ready`, or the reason why not.
    pub readiness: Readiness,
    /// The number of servers with the same key prefix on this Redis, including this one. `null` on
    /// the embedded engine, while the store is down, or if it is unknown.
    pub servers: Option<u32>,
    /// The id by which servers detect that Redis has lost its data. `null` on the embedded engine,
    /// and until Redis has been reached.
    pub store_id: Option<String>,
    /// Whether the store has lost its data, and no operator has accepted the loss.
    pub store_lost: bool,
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// The configuration in use, and the result of the last reload.
    pub configuration: ConfigurationStatus,
}

/// Whether load balancers may send calls to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Readiness {
    /// Calls are answered.
    Ready,
    /// The store is unreachable, or its data directory cannot be written.
    StoreDown,
    /// The store answers, but refuses writes.
    StoreRefusing,
    /// The server is shutting down.
    Draining,
}

/// The configuration in use, and the result of the last load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigurationStatus {
    /// The hash of the contents in use; empty without a configuration file.
    pub hash: String,
    /// When the contents in use were loaded; `null` before the first load.
    pub loaded_micros: Option<u64>,
    /// The error of the last load; `null` if it succeeded.
    pub last_error: Option<String>,
    /// When that load failed.
    pub failed_micros: Option<u64>,
}

impl Readiness {
    /// Returns the readiness of a server that is not draining. With `when_degraded` it is ready in
    /// any state of the store.
    pub fn from_store(store: StoreState, when_degraded: bool) -> Readiness {
        match store {
            StoreState::Up => Readiness::Ready,
            StoreState::Refusing | StoreState::Down if when_degraded => Readiness::Ready,
            StoreState::Refusing => Readiness::StoreRefusing,
            StoreState::Down => Readiness::StoreDown,
        }
    }

    /// Returns why the server is not ready; `None` if it is ready.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Readiness::Ready => None,
            Readiness::StoreDown => Some("the store is unreachable or cannot be written"),
            Readiness::StoreRefusing => Some("the store answers, but refuses writes"),
            Readiness::Draining => Some("the server is shutting down"),
        }
    }
}

impl From<Configuration> for ConfigurationStatus {
    fn from(Configuration { hash, loaded, failure }: Configuration) -> ConfigurationStatus {
        let failed_micros = failure.as_ref().map(|failure| failure.time);
        ConfigurationStatus {
            hash,
            loaded_micros: loaded,
            last_error: failure.map(|failure| failure.error),
            failed_micros,
        }
    }
}
