//! The RPCs of a server, in the order of their counters.

use tonic::Status;

use crate::decision::metrics::{CountedCall, METHODS_MAX, RpcLabels};

macro_rules! rpcs {
    ($($service:literal { $($method:literal $kind:literal),* $(,)? })*) => {
        /// All RPCs; the first entry stands for paths that no service has.
        pub const RPCS: &[RpcLabels] = &[
            RpcLabels { path: "", service: "unknown", method: "unknown", kind: "unary" },
            $($(RpcLabels {
                path: concat!("/", $service, "/", $method),
                service: $service,
                method: $method,
                kind: $kind,
            },)*)*
        ];
    };
}

rpcs! {
    "tollgate.v1.AdmissionService" {
        "AdmitTask" "unary", "CompleteTask" "unary", "RenewTask" "unary", "EnqueueTasks" "unary",
        "CancelTask" "unary", "GetPool" "unary", "ListPools" "unary", "ListLeases" "unary",
        "ListTasks" "unary", "WatchPool" "server_stream", "ConfigurePool" "unary",
        "EvictTask" "unary",
    }
    "tollgate.v1.RateService" {
        "CheckRate" "unary", "CheckRates" "unary", "ListBans" "unary", "ListPolicies" "unary",
        "WatchRates" "server_stream", "ResetRate" "unary", "Ban" "unary", "Unban" "unary",
    }
    "tollgate.v1.SequenceService" { "NextSequence" "unary", "GetSequence" "unary" }
    "tollgate.v1.LockService" {
        "AcquireLock" "unary", "RenewLock" "unary", "ReleaseLock" "unary", "GetLock" "unary",
    }
    "tollgate.v1.StockService" {
        "ReserveStock" "unary", "ConfirmReservation" "unary", "CancelReservation" "unary",
        "GetStock" "unary", "SetStock" "unary", "AddStock" "unary",
    }
    "tollgate.v1.AdminService" { "GetStatus" "unary", "ReloadConfig" "unary" }
    "grpc.health.v1.Health" { "Check" "unary", "List" "unary", "Watch" "server_stream" }
    "grpc.reflection.v1.ServerReflection" { "ServerReflectionInfo" "bidi_stream" }
    "grpc.reflection.v1alpha.ServerReflection" { "ServerReflectionInfo" "bidi_stream" }
}

const _: () = assert!(RPCS.len() <= METHODS_MAX, "METHODS_MAX is too small");

/// Counts the start of a call with this URL path.
pub(super) fn start(path: &str) -> CountedCall {
    CountedCall::start(RPCS.iter().position(|rpc| rpc.path == path).unwrap_or_default())
}

/// Counts the end of a call with this status.
pub(super) fn refused(call: CountedCall, status: &Status) {
    call.end(status.code() as i32);
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::{super::reflection::DESCRIPTORS, *};

    #[test]
    fn every_rpc_has_counters_and_every_counter_an_rpc() {
        let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap();
        let files = set.file.iter().filter(|file| file.package() == "tollgate.v1");
        let services: Vec<_> = files.flat_map(|file| &file.service).collect();
        let ours = RPCS.iter().filter(|rpc| rpc.service.starts_with("tollgate."));
        assert_eq!(
            ours.count(),
            services.iter().map(|service| service.method.len()).sum::<usize>()
        );
        for service in services {
            for method in &service.method {
                let path = format!("/tollgate.v1.{}/{}", service.name(), method.name());
                let rpc = RPCS.iter().find(|rpc| rpc.path == path).expect(&path);
                assert_eq!(rpc.kind == "server_stream", method.server_streaming(), "{path}");
            }
        }
    }
}
