//! Status and metrics of a server, for its operators.
//!
//! This folder builds the contents; `server::admin` serves them over HTTP, and `grpc` answers
//! GetStatus with the same [`status::Status`].

pub mod metrics;
pub mod reload;
mod running;
pub mod status;

pub use running::{RunningServer, ServerSources};
