//! The handlers of the RPCs on the fast path, which `build.rs` generates from the options in the
//! proto files.

use super::{
    envoy_pb::RateLimitService as _,
    fast_path::fast_path,
    pb::{
        admission_service_server::AdmissionService as _, lock_service_server::LockService as _,
        rate_service_server::RateService as _, sequence_service_server::SequenceService as _,
        stock_service_server::StockService as _,
    },
};

include!(concat!(env!("OUT_DIR"), "/fast_paths.rs"));
