//! `tollgate next`: takes serial numbers of a name.

mod options;

use std::io;

pub use options::{HELP, NextOptions};

use super::{CallerError, connect, failed};
use crate::grpc::client::Serials;

/// Takes the numbers, in one call.
pub async fn run(options: &NextOptions) -> Result<Serials, CallerError> {
    let NextOptions { name, count, step, floor, request_id, server } = options;
    let what = format!("take numbers of `{name}`");
    let client = connect(server, &what).await?;
    let request_id = request_id.as_deref();
    let taken = client.next_sequence(name, *count, *step, *floor, request_id).await;
    taken.map_err(|error| failed(&what, server, &error, &advice(error.code, request_id)))
}

/// Why numbers that were given out cannot be printed, and what to do about it.
pub fn unprinted(options: &NextOptions, error: &io::Error) -> CallerError {
    let todo = repeat(options.request_id.as_deref());
    CallerError(format!("cannot print the numbers of `{}`: {error}; {todo}", options.name))
}

/// What to do about a call that failed.
fn advice(code: &str, request_id: Option<&str>) -> String {
    let todo = match code {
        // A connection that breaks is UNKNOWN or CANCELLED.
        "CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN" => {
            return format!("numbers may have been given out: {}", repeat(request_id));
        }
        "INTERNAL" => "other names go on; the server's log may say more",
        "OUT_OF_RANGE" => "take fewer, or another name or layout",
        "UNIMPLEMENTED" => "this server does not know sequences: update it",
        _ => super::advice(code),
    };
    todo.to_owned()
}

/// What to do about numbers that were given out, but did not arrive.
fn repeat(request_id: Option<&str>) -> &'static str {
    match request_id {
        Some(_) => "repeat with the same --request-id within 5 minutes to get them",
        None => "nobody gets them now; given a --request-id, a repeat would",
    }
}
