//! `tollgate next`: takes serial numbers of a sequence.

mod options;

use std::io;

pub use options::{HELP, NextOptions};

use tollgate_client::Serials;

use super::client::{self, ClientError, connect, failed};

/// Takes the numbers in one call.
pub async fn run(options: &NextOptions) -> Result<Serials, ClientError> {
    let NextOptions { name, count, step, floor, request_id, server, access } = options;
    let what = format!("take numbers of `{name}`");
    let connection = connect(server, access, &what).await?;
    let request_id = request_id.as_deref();
    let taken = connection.next(name, *count, *step, *floor, request_id).await;
    taken.map_err(|error| failed(&what, server, &error, &advice(error.code, request_id)))
}

/// Builds the error for numbers that were given out but cannot be printed.
pub fn unprinted(options: &NextOptions, error: &io::Error) -> ClientError {
    let todo = repeat(options.request_id.as_deref());
    ClientError(format!("cannot print the numbers of `{}`: {error}; {todo}", options.name))
}

/// Returns what to do about a failed call.
fn advice(code: &str, request_id: Option<&str>) -> String {
    let todo = match code {
        // A broken connection is reported as UNKNOWN or CANCELLED.
        "CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN" => {
            return format!("numbers may have been given out: {}", repeat(request_id));
        }
        "INTERNAL" => "other sequences are not affected; the server's log may say more",
        "OUT_OF_RANGE" => "take fewer, or another name or layout",
        "UNIMPLEMENTED" => "this server does not know sequences: update it",
        _ => client::advice(code),
    };
    todo.to_owned()
}

/// Returns what to do about numbers that were given out but not received.
fn repeat(request_id: Option<&str>) -> &'static str {
    match request_id {
        Some(_) => "repeat with the same --request-id within 5 minutes to get them",
        None => "these numbers are lost; with a --request-id, a repeat returns them",
    }
}
