//! One caller, a few calls, from the shell: `tollgate rate`, `tollgate next`,
//! `tollgate stock`, `tollgate lock`; or one that looks on: `tollgate watch`,
//! `tollgate top`.

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
    grpc::client::{CallError, Client},
    text::escaped_lines,
};

/// Why there is no answer, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerError(String);

impl fmt::Display for CallerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escaped_lines(&self.0))
    }
}

impl std::error::Error for CallerError {}

/// Connects to a server, to do `what`.
async fn connect(server: &str, what: &str) -> Result<Client, CallerError> {
    Client::connect(server).await.map_err(|error| {
        let todo = "start a server with `tollgate serve`, or name another with --server";
        failed(what, server, &error, todo)
    })
}

fn failed(what: &str, server: &str, error: &CallError, todo: &str) -> CallerError {
    CallerError(format!("cannot {what} at {server}: {error}; {todo}"))
}

/// What to do about a call that failed, whatever it was.
fn advice(code: &str) -> &'static str {
    match code {
        "INVALID_ARGUMENT" => "correct that and try again",
        "RESOURCE_EXHAUSTED" | "UNAVAILABLE" => "try again in a moment; if it stays, see its log",
        _ => "the server's log may say more",
    }
}
