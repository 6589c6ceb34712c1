//! The client commands. `tollgate rate`, `next`, `stock` and `lock` make calls; `tollgate watch`
//! and `top` show what happens on a server.

mod flags;
mod follow;
pub mod lock;
pub mod next;
pub mod rate;
pub mod stock;
pub mod top;
pub mod watch;

use std::fmt;

pub use flags::{AlgorithmName, RuleFlags};

pub(crate) use flags::{between, name, server};
pub(crate) use follow::{Followed, Follower};

use crate::{
    decision::text::escaped_lines,
    grpc::client::{CallError, Client},
};

/// A failed command: the error and what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerError(String);

impl fmt::Display for CallerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escaped_lines(&self.0))
    }
}

impl std::error::Error for CallerError {}

/// Connects to a server. `what` names the purpose in the error.
async fn connect(server: &str, what: &str) -> Result<Client, CallerError> {
    Client::connect(server).await.map_err(|error| {
        let todo = "start a server with `tollgate serve`, or name another with --server";
        failed(what, server, &error, todo)
    })
}

/// Builds the error of a failed call: `todo` says what to do next.
fn failed(what: &str, server: &str, error: &CallError, todo: &str) -> CallerError {
    CallerError(format!("cannot {what} at {server}: {error}; {todo}"))
}

/// Returns what to do about a failed call, for any command.
fn advice(code: &str) -> &'static str {
    match code {
        "INVALID_ARGUMENT" => "correct that and try again",
        "RESOURCE_EXHAUSTED" | "UNAVAILABLE" => {
            "try again in a moment; if the error persists, see the server's log"
        }
        _ => "the server's log may say more",
    }
}
