//! Status and metrics of a server, for its operators.
//!
//! This crate collects the contents and builds the responses, which the admin listener of the
//! server sends. GetStatus returns the same [`status::Status`], and the console shows it.

pub mod guard;
pub mod metrics;
pub mod page;
pub mod reload;
mod running;
pub mod status;

pub use running::{RunningServer, ServerSources};
