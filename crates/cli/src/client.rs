//! Common parts of the client commands: the connection, and errors that say what to do next.

use std::{fmt, time::Duration};

use tollgate_client::{Connection, Error, Options, RetryBudget};

use super::flags::AccessFlags;
use tollgate_telemetry::text::escaped_lines;

/// Deadline of a call.
const DEADLINE: Duration = Duration::from_secs(5);

/// A failed command: the error, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientError(pub String);

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escaped_lines(&self.0))
    }
}

impl std::error::Error for ClientError {}

/// Connects to a server. `what` names the purpose in the error.
pub async fn connect(
    server: &str,
    access: &AccessFlags,
    what: &str,
) -> Result<Connection, ClientError> {
    let options = Options::new([server]).access(access.into()).deadline(DEADLINE);
    // Not retried: a user sees the first error, and the fleet counts every one.
    options.retries(RetryBudget::NONE).open().await.map_err(|error| {
        let todo = match error.code {
            "INVALID_ARGUMENT" => {
                "correct the files passed with --tls-ca, --tls-cert, --tls-key or --token-file"
            }
            _ if error.message.contains("certificate") => {
                "pass the CA certificate of the server with --tls-ca"
            }
            _ => "start a server with `tollgate serve`, or choose another one with --server",
        };
        failed(what, server, &error, todo)
    })
}

/// Builds the error of a failed call: `todo` says what to do next.
pub fn failed(what: &str, server: &str, error: &Error, todo: &str) -> ClientError {
    ClientError(format!("cannot {what} at {server}: {error}; {todo}"))
}

/// Returns the code to advise on: UNKNOWN if the connection broke and the call may have been
/// executed.
pub fn fate(error: &Error) -> &'static str {
    if error.code == "UNAVAILABLE" && error.may_have_run() { "UNKNOWN" } else { error.code }
}

/// Returns what to do about a failed call of any command.
pub fn advice(code: &str) -> &'static str {
    match code {
        "INVALID_ARGUMENT" => "correct this and try again",
        "RESOURCE_EXHAUSTED" | "UNAVAILABLE" => {
            "try again in a moment; if the error persists, check the log of the server"
        }
        _ => "the log of the server may say more",
    }
}
