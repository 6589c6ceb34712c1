//! The RPCs of a server, in the order of their counters.

use std::{collections::HashMap, sync::LazyLock};

use ahash::RandomState;
use tonic::Status;

use super::access::{self, rpc};
use tollgate_telemetry::metrics::{CountedCall, METHODS_MAX, RpcLabels};

/// The RPCs of health and reflection: service, method and kind.
const OTHERS: [(&str, &str, &str); 5] = [
    ("grpc.health.v1.Health", "Check", "unary"),
    ("grpc.health.v1.Health", "List", "unary"),
    ("grpc.health.v1.Health", "Watch", "server_stream"),
    ("grpc.reflection.v1.ServerReflection", "ServerReflectionInfo", "bidi_stream"),
    ("grpc.reflection.v1alpha.ServerReflection", "ServerReflectionInfo", "bidi_stream"),
];

static RPCS: LazyLock<Vec<RpcLabels>> = LazyLock::new(|| {
    let ours = access::rpcs().map(|rpc| {
        let kind = if rpc.is_watch() { "server_stream" } else { "unary" };
        labels(rpc.service.full_name().leak(), rpc.name, kind)
    });
    let others = OTHERS.into_iter().map(|(service, method, kind)| labels(service, method, kind));
    let unknown = RpcLabels { path: "", service: "unknown", method: "unknown", kind: "unary" };
    [unknown].into_iter().chain(ours).chain(others).take(METHODS_MAX).collect()
});

fn labels(service: &'static str, method: &'static str, kind: &'static str) -> RpcLabels {
    RpcLabels { path: format!("/{service}/{method}").leak(), service, method, kind }
}

/// All RPCs. The first entry counts calls of unknown paths.
pub fn rpcs() -> &'static [RpcLabels] {
    &RPCS
}

/// An RPC that a URL path names.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownRpc {
    /// Its position in [`rpcs`]; 0 if it is unknown.
    pub(super) position: usize,
    /// Its service and permission; `None` for health, reflection and unknown RPCs.
    pub(super) rpc: Option<rpc::Rpc>,
}

/// All RPCs by their URL paths: each call is looked up once.
static BY_PATH: LazyLock<HashMap<&str, KnownRpc, RandomState>> = LazyLock::new(|| {
    let known = |position: usize, path| (path, KnownRpc { position, rpc: rpc::of(path) });
    rpcs().iter().enumerate().map(|(position, rpc)| known(position, rpc.path)).collect()
});

/// Finds the RPC of a URL path.
pub(super) fn find(path: &str) -> KnownRpc {
    BY_PATH.get(path).copied().unwrap_or(KnownRpc { position: 0, rpc: None })
}

/// Counts the end of a call with this status.
pub(super) fn refused(call: CountedCall, status: &Status) {
    call.end(status.code() as i32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables of `access` are compared with the proto files.
    #[test]
    fn every_rpc_has_a_counter_of_its_own() {
        assert_eq!(rpcs().len(), 1 + access::rpcs().count() + OTHERS.len());
        for (number, rpc) in rpcs().iter().enumerate() {
            assert_eq!(find(rpc.path).position, number);
        }
        let watch = rpcs().iter().find(|rpc| rpc.method == "WatchPool").unwrap();
        assert_eq!(watch.path, "/tollgate.v1.AdmissionService/WatchPool");
        assert_eq!(watch.kind, "server_stream");
    }
}
