//! The server side of Envoy's messages and service, in modules named after their packages.

#[allow(clippy::all, missing_docs, missing_debug_implementations, unreachable_pub)]
mod envoy {
    pub(crate) mod config {
        pub(crate) mod core {
            pub(crate) mod v3 {
                include!(concat!(env!("OUT_DIR"), "/envoy.config.core.v3.rs"));
            }
        }
    }
    pub(crate) mod extensions {
        pub(crate) mod common {
            pub(crate) mod ratelimit {
                pub(crate) mod v3 {
                    include!(concat!(env!("OUT_DIR"), "/envoy.extensions.common.ratelimit.v3.rs"));
                }
            }
        }
    }
    pub(crate) mod r#type {
        pub(crate) mod v3 {
            include!(concat!(env!("OUT_DIR"), "/envoy.r#type.v3.rs"));
        }
    }
    pub(crate) mod service {
        pub(crate) mod ratelimit {
            pub(crate) mod v3 {
                include!(concat!(env!("OUT_DIR"), "/envoy.service.ratelimit.v3.rs"));
            }
        }
    }
}

pub(super) use envoy::{
    config::core::v3::HeaderValue,
    extensions::common::ratelimit::v3::RateLimitDescriptor,
    service::ratelimit::v3::{
        RateLimitRequest, RateLimitResponse, rate_limit_response as response,
        rate_limit_service_server::{RateLimitService, RateLimitServiceServer},
    },
};
