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
mod elements;
mod events;
mod fields;
mod held;
mod load;
mod lock;
mod page_token;
mod protocol;
mod rate;
mod routes;
mod sequence;
mod status;
mod stock;
mod unary;

pub use admission::Admission;
pub use held::{Holding, OpenStream};
pub use load::takes_first;
pub use lock::Lock;
pub use rate::Rate;
pub use routes::{Connection, Routes};
pub use sequence::Sequence;
pub use stock::Stock;
pub use unary::{AnswerBody, FRAME_BYTES_MAX};

/// The longest message of health, of reflection, and of services that name no bound of
/// their own.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a stream that a client may send before they are read.
pub const STREAM_WINDOW: u32 = 128 * 1024;
/// The same of all streams of a connection. Requests that wait until they may be read leave
/// half of it to others.
pub const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// Messages and services as this server decodes them: text is `Bytes`.
#[allow(clippy::all, missing_docs, missing_debug_implementations, unreachable_pub)]
pub(crate) mod pb {
    include!(concat!(env!("OUT_DIR"), "/server/tollgate.v1.rs"));
}
