//! Turns errors into gRPC status, with details a program can read.

use std::{collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use crate::error::Error;

const DOMAIN: &str = "tollgate";
const RETRY_UNAVAILABLE: Duration = Duration::from_secs(1);
const RETRY_OVERLOADED: Duration = Duration::from_millis(100);

impl From<Error> for Status {
    fn from(error: Error) -> Status {
        tracing::debug!(%error, "call failed");
        let message = error.to_string();
        let (code, details) = match error {
            Error::Unavailable(_) => {
                (Code::Unavailable, ErrorDetails::with_retry_info(Some(RETRY_UNAVAILABLE)))
            }
            Error::Overloaded => {
                (Code::ResourceExhausted, ErrorDetails::with_retry_info(Some(RETRY_OVERLOADED)))
            }
            Error::DeadlineExceeded => (Code::DeadlineExceeded, info("FATE_UNKNOWN")),
            Error::Corrupt(_) => (Code::Internal, info("STORED_VALUE_UNREADABLE")),
        };
        Status::with_error_details(code, message, details)
    }
}

fn info(reason: &str) -> ErrorDetails {
    ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new())
}

/// INVALID_ARGUMENT, naming every bad field.
pub(super) fn invalid(violations: Vec<FieldViolation>) -> Status {
    let fields: Vec<String> =
        violations.iter().map(|bad| format!("{} {}", bad.field, bad.description)).collect();
    tracing::debug!(?fields, "bad request");
    let details = ErrorDetails::with_bad_request(violations);
    Status::with_error_details(Code::InvalidArgument, fields.join("; "), details)
}
