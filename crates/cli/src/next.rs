//! `tollgate next`: takes serial numbers from a sequence.

mod options;

use std::io;

pub use options::{HELP, NextOptions};

use tollgate_client::{Error, Serials};

use super::client::{self, ClientError, connect, failed};

/// Takes the numbers in one call. Returns the lines to print.
pub async fn run(options: &NextOptions) -> Result<String, ClientError> {
    let NextOptions { name, count, step, floor, request_id, output, server, access } = options;
    let what = format!("take numbers from `{name}`");
    let connection = connect(server, access, &what).await?;
    let request_id = request_id.as_deref();
    let fail =
        |error: Error| failed(&what, server, &error, &advice(client::fate(&error), request_id));
    let taken = connection.take(name, *count, *step, *floor, request_id).await.map_err(fail)?;
    let json = output.json("NextSequenceResponse", &taken);
    let serials = Serials::try_from(taken).map_err(fail)?;
    Ok(json.map_or_else(|| serials.to_string(), |line| line + "\n"))
}

/// Builds the error for numbers that were issued but cannot be printed.
pub fn unprinted(options: &NextOptions, error: &io::Error) -> ClientError {
    let todo = repeat(options.request_id.as_deref());
    ClientError(format!("cannot print the numbers from `{}`: {error}; {todo}", options.name))
}

/// Returns what to do about a failed call.
fn advice(code: &str, request_id: Option<&str>) -> String {
    let todo = match code {
        "CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN" => {
            return format!("numbers may have been issued: {}", repeat(request_id));
        }
        "INTERNAL" => "other sequences are not affected; the log of the server may say more",
        "OUT_OF_RANGE" => "take fewer numbers, or use another name or layout",
        "UNIMPLEMENTED" => "this server does not support sequences: upgrade it",
        _ => client::advice(code),
    };
    todo.to_owned()
}

/// Returns what to do about numbers that were issued but not received.
fn repeat(request_id: Option<&str>) -> &'static str {
    match request_id {
        Some(_) => "repeat with the same --request-id within 5 minutes to get them",
        None => "these numbers are lost; with a --request-id, a repeat would return them",
    }
}
