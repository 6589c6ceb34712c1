//! The admin listener: `admin`, `ready_when_degraded`, `[metrics]` and `[console]`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Deserializer, de::Error};

use super::ConfigError;
use tollgate_core::{globs::Globs, names::Namespace};

/// The default address.
const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 50052);

/// The value of `--admin` or of the key `admin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminChoice {
    /// No admin listener, and nothing is counted.
    Off,
    /// Listens on this address.
    At(SocketAddr),
}

/// The admin listener of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminOptions {
    /// The address; `None` if it is off.
    pub address: Option<SocketAddr>,
    /// Whether the address was configured. If only the default is in use by another server, the
    /// server runs without the listener.
    pub is_explicit: bool,
    /// Whether the server counts as ready while the store is unreachable.
    pub ready_when_degraded: bool,
    /// The metrics.
    pub metrics: MetricsSection,
    /// The console.
    pub console: ConsoleSection,
}

/// `[metrics]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsSection {
    /// Whether anything is counted.
    pub enabled: bool,
    /// Globs of the pools that have time series.
    pub pools: Vec<String>,
    /// The namespaces of these pools, in addition to the default one.
    #[serde(deserialize_with = "namespaces")]
    pub namespaces: Vec<Namespace>,
}

impl Default for MetricsSection {
    fn default() -> MetricsSection {
        MetricsSection { enabled: true, pools: Vec::new(), namespaces: Vec::new() }
    }
}

/// Whether the program contains the console.
const HAS_CONSOLE: bool = cfg!(feature = "console");

/// `[console]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConsoleSection {
    /// Whether the admin listener serves the console.
    pub enabled: bool,
}

impl Default for ConsoleSection {
    fn default() -> ConsoleSection {
        ConsoleSection { enabled: HAS_CONSOLE }
    }
}

impl MetricsSection {
    /// Fails if a glob is invalid. The error names the key.
    pub(super) fn check(&self) -> Result<(), String> {
        for (index, glob) in self.pools.iter().enumerate() {
            let globs = Globs::new([glob].into_iter());
            globs.map_err(|error| format!("metrics.pools[{index}]: not a glob: {error}"))?;
        }
        Ok(())
    }
}

fn namespaces<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Namespace>, D::Error> {
    let names: Vec<String> = Vec::deserialize(d)?;
    let parsed = names.iter().map(|name| Namespace::parse(name.as_bytes()));
    parsed
        .collect::<Result<_, _>>()
        .map_err(|why| D::Error::custom(format!("metrics.namespaces: a namespace {why}")))
}

/// Parses an address or `off`.
pub(super) fn choice(text: &str) -> Result<AdminChoice, String> {
    match text {
        "off" => Ok(AdminChoice::Off),
        address => address
            .parse()
            .map(AdminChoice::At)
            .map_err(|_| "expected ADDR:PORT such as 127.0.0.1:50052, or off".to_owned()),
    }
}

/// Reads the key `admin`.
pub(super) fn key<'de, D: Deserializer<'de>>(d: D) -> Result<Option<AdminChoice>, D::Error> {
    super::value::text(d, "admin", choice).map(Some)
}

impl AdminOptions {
    /// Builds the options. Fails if other machines can reach the address and the server has no
    /// callers.
    pub(super) fn new(
        choice: Option<AdminChoice>,
        ready_when_degraded: bool,
        (metrics, console): (MetricsSection, ConsoleSection),
        has_callers: bool,
    ) -> Result<AdminOptions, ConfigError> {
        let address = match choice.unwrap_or(AdminChoice::At(ADDRESS)) {
            AdminChoice::Off => None,
            AdminChoice::At(address) if address.ip().is_loopback() || has_callers => Some(address),
            AdminChoice::At(address) => {
                return Err(ConfigError::new(format!(
                    "admin: {address} is not a loopback address, so readers need a token; \
                     configure a [[caller]] with the permission read, or use a loopback address"
                )));
            }
        };
        if console.enabled && !HAS_CONSOLE {
            return Err(ConfigError::new(
                "console.enabled: expected false, because this program was built without the \
                 feature console"
                    .to_owned(),
            ));
        }
        let is_explicit = choice.is_some();
        Ok(AdminOptions { address, is_explicit, ready_when_degraded, metrics, console })
    }
}
