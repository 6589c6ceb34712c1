//! What the client commands share: the connection, and errors that say what to do next.

use std::{fmt, time::Duration};

use tollgate_client::{Connection, Error, Options, RetryBudget};

use super::flags::AccessFlags;
use tollgate_telemetry::text::escaped_lines;

/// Deadline of a call.
const DEADLINE: Duration = Duration::from_secs(5);

/// A failed command: the error and what to do next.
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
    // A user sees the first error, and the fleet counts each.
    options.retries(RetryBudget::NONE).open().await.map_err(|error| {
        let todo = match error.code {
            "INVALID_ARGUMENT" => {
                "correct the files of --tls-ca, --tls-cert, --tls-key, --token-file"
            }
            _ if error.message.contains("certificate") => {
                "name the authority of the server's certificate with --tls-ca"
            }
            _ => "start a server with `tollgate serve`, or name another with --server",
        };
        failed(what, server, &error, todo)
    })
}

/// Builds the error of a failed call: `todo` says what to do next.
pub fn failed(what: &str, server: &str, error: &Error, todo: &str) -> ClientError {
    ClientError(format!("cannot {what} at {server}: {error}; {todo}"))
}

/// Returns the code for an advice: UNKNOWN if the connection broke and the call may have run.
pub fn fate(error: &Error) -> &'static str {
    if error.code == "UNAVAILABLE" && error.may_have_run() { "UNKNOWN" } else { error.code }
}

/// Returns what to do about a failed call, for any command.
pub fn advice(code: &str) -> &'static str {
    match code {
        "INVALID_ARGUMENT" => "correct that and try again",
        "RESOURCE_EXHAUSTED" | "UNAVAILABLE" => {
            "try again in a moment; if the error persists, see the server's log"
        }
        _ => "the server's log may say more",
    }
}
