//! gRPC: the only module that names generated messages.
//!
//! Every handler is three steps: parse the request into a decision (all
//! violations at once), run it, convert the outcome.

pub mod client;
pub(crate) mod reflection;

mod admission;
mod codec;
mod convert;
mod deadline;
mod events;
mod fields;
mod lock;
mod page_token;
mod rate;
mod routes;
mod sequence;
mod status;
mod stock;
mod unary;

pub use admission::Admission;
pub use lock::Lock;
pub use rate::Rate;
pub use routes::Routes;
pub use sequence::Sequence;
pub use stock::Stock;
pub use unary::{AnswerBody, FRAME_BYTES_MAX};

/// Messages and services as this server decodes them: text is `Bytes`.
#[allow(clippy::all, missing_docs, missing_debug_implementations, unreachable_pub)]
pub(crate) mod pb {
    include!(concat!(env!("OUT_DIR"), "/server/tollgate.v1.rs"));
}
