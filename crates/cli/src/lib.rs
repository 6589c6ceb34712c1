//! The commands of `tollgate` that are clients of a server, one module each.
//!
//! [`ClientCommand`] contains all of them for the command line of the program. They call the server
//! with [`tollgate_client`], so they work with every version of the server that supports their
//! calls. A command returns its exit code ([`exit`]) or a [`ClientError`], which says what to do
//! next. The ranges of flags are those of the rules in `tollgate_core`.

pub mod ban;
pub mod client;
mod command;
mod confirm;
pub mod exit;
pub mod flags;
pub mod health;
pub mod json;
pub mod key;
mod listing;
pub mod lock;
pub mod next;
pub mod output;
pub mod pool;
pub mod print;
pub mod progress;
pub mod rate;
pub mod reload;
pub mod sequence;
pub mod signals;
pub mod status;
pub mod stock;
pub mod store;
pub mod table;
pub mod task;
pub mod top;
pub mod watch;

pub use client::ClientError;
pub use command::{ClientCommand, FIRST_CALLS};
pub use flags::{AccessFlags, AlgorithmName, RuleFlags, ServerFlags};
pub use output::{OutputFlags, OutputFormat};
