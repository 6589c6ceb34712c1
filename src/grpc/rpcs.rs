//! The table of RPCs: what the server knows about a call before it reads the message.
//!
//! `build.rs` generates the table (`rpcs/generate.rs`), the bounds of repeated fields
//! ([`super::elements`]), the handlers on the fast path ([`super::fast_paths`]) and the counted
//! verbs from the options in the proto files, so that an RPC is declared in its proto file only.

use std::{collections::HashMap, sync::LazyLock};

use ahash::RandomState;
use tollgate_http::Route;

use tollgate_telemetry::metrics::{METHODS_MAX, RpcLabels};

/// Only the build script and tests run the generator.
#[cfg(test)]
mod generate;
mod permission;
#[cfg(test)]
mod tests;

pub use permission::{Permission, Permissions, Services};

/// A row of the table.
#[derive(Debug)]
pub(super) struct KnownRpc {
    /// What the transport knows about it. Its position in the table is the position of its counters.
    pub(super) route: Route,
    /// Its path, service, name and kind.
    pub(super) labels: RpcLabels,
    /// `None` for health checks and reflection, which need no permission, and for unknown RPCs.
    pub(super) rpc: Option<Rpc>,
}

/// An RPC of Tollgate, or of Envoy's service.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rpc {
    pub(super) service: Service,
    pub(super) name: &'static str,
    /// The permission that a caller needs.
    pub(super) permission: Permission,
    /// Whether it answers with an endless stream.
    pub(super) is_watch: bool,
}

include!(concat!(env!("OUT_DIR"), "/rpcs.rs"));

/// The labels of all RPCs, in the order of their counters.
static LABELS: [RpcLabels; RPCS.len()] = {
    assert!(RPCS.len() <= METHODS_MAX, "raise METHODS_MAX of tollgate-telemetry");
    let mut labels = [RPCS[0].labels; RPCS.len()];
    let mut position = 1;
    while position < RPCS.len() {
        labels[position] = RPCS[position].labels;
        position += 1;
    }
    labels
};

/// Returns the labels of all RPCs. The first entry counts calls of unknown paths.
pub fn rpcs() -> &'static [RpcLabels] {
    &LABELS
}

/// All RPCs by their URL paths, so that each call is looked up once.
static BY_PATH: LazyLock<HashMap<&str, &KnownRpc, RandomState>> =
    LazyLock::new(|| RPCS.iter().map(|known| (known.labels.path, known)).collect());

/// Finds the row for a URL path; the row for unknown RPCs if there is no other.
pub(super) fn find(path: &str) -> &'static KnownRpc {
    BY_PATH.get(path).copied().unwrap_or(&RPCS[0])
}

/// Returns the labels of a route of the table.
pub(super) fn labels(route: &Route) -> &'static RpcLabels {
    &LABELS[route.position]
}

/// Returns all RPCs that need a permission.
#[cfg(any(test, fuzzing))]
pub(super) fn all() -> impl Iterator<Item = &'static Rpc> {
    RPCS.iter().filter_map(|known| known.rpc.as_ref())
}

/// Finds an RPC that needs a permission by its URL path.
pub(super) fn of(path: &str) -> Option<&'static Rpc> {
    find(path).rpc.as_ref()
}
