//! The gRPC services. Only this module names generated messages.
//!
//! The permission for the RPC is checked before its handler is called ([`access`]). Each handler
//! has four steps:
//! 1. `parse` builds a decision and reports all violations of the request together (`fields`).
//! 2. `parse` also checks the permission for the names in the request.
//! 3. The engine decides.
//! 4. `convert` builds the response. A refusal is a response, while an
//!    [`Error`](tollgate_core::error::Error) becomes a status in `status`.
//!
//! A handler makes no decisions and reads only its request and the configuration. Of the engine it
//! calls only `submit`, `submit_all`, `submit_waiting`, `submit_merged`, `read_all`, `list` and
//! `watch`, which `tests/tidy/handlers.rs` checks, with two exceptions.

pub mod access;
pub(crate) mod reflection;

mod admin;
mod admission;
mod codec;
mod convert;
mod deadline;
mod elements;
mod envoy;
mod envoy_pb;
mod events;
mod failed;
mod fast_paths;
mod fields;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod grant;
#[cfg(feature = "console")]
mod in_process;
mod lock;
mod name_listing;
mod page_token;
mod program;
mod quota;
mod rate;
mod routes;
mod rpcs;
mod rules;
pub(crate) mod scope;
mod sequence;
mod status;
mod stock;
mod traces;
mod verbs;

pub use admin::AdminHandlers;
pub use admission::AdmissionHandlers;
pub use envoy::EnvoyHandlers;
pub(crate) use envoy::json::{BODY_BYTES_MAX as JSON_BYTES_MAX, JsonService};
#[cfg(feature = "console")]
pub use in_process::InProcess;
pub use lock::LockHandlers;
pub use rate::RateHandlers;
pub use routes::Routes;
pub use rpcs::rpcs;
pub use rules::{CurrentRules, DecisionRules};
pub use sequence::SequenceHandlers;
pub use stock::StockHandlers;
pub use traces::Tracer;
pub use verbs::counted_verbs;

/// Returns the names of the services, as in health checks.
pub(crate) fn services() -> impl Iterator<Item = &'static str> {
    // The last one is the name that health checks of envoyproxy/ratelimit use.
    access::Service::ALL.into_iter().map(access::Service::full_name).chain(["ratelimit"])
}

/// Server side of the generated messages and services. Text fields are `Bytes`: slices of the
/// received message.
#[allow(clippy::all, dead_code, missing_docs, missing_debug_implementations, unreachable_pub)]
pub(crate) mod pb {
    include!(concat!(env!("OUT_DIR"), "/tollgate.v1.rs"));
}
