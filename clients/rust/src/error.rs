//! Errors of calls.

use std::fmt;

use tonic::{Code, Status, TimeoutExpired, transport};

/// The cause of the HTTP library for a call that was not sent.
const UNSENT: &str = "connection closed";

/// A call that returned no decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The name of the gRPC code, such as `UNAVAILABLE`.
    pub code: &'static str,
    /// The message of the status, or a description by the client.
    pub message: String,
}

impl Error {
    /// Whether a retry may succeed: the server is unreachable or overloaded.
    pub fn is_retryable(&self) -> bool {
        // A broken connection has messages and codes of the HTTP/2 library.
        let broken = self.code == "INTERNAL" && self.message.starts_with("h2 protocol error");
        let passing =
            ["CANCELLED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "UNKNOWN"];
        broken || passing.contains(&self.code)
    }

    pub(crate) fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code: name(code), message: message.into() }
    }

    /// The deadline passed. Whether the call was executed is unknown.
    pub(crate) fn deadline() -> Error {
        Error::new(Code::DeadlineExceeded, "no answer by the call's deadline")
    }

    /// The response violates the contract.
    pub(crate) fn malformed(what: &str) -> Error {
        Error::new(Code::Internal, format!("malformed answer: {what}"))
    }

    /// No connection.
    pub(crate) fn unreachable(error: &transport::Error) -> Error {
        Error::new(Code::Unavailable, cause(error))
    }

    /// Certificates that cannot be used.
    pub(crate) fn invalid_tls(error: &transport::Error) -> Error {
        Error::new(Code::InvalidArgument, format!("invalid certificate or key: {}", cause(error)))
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Error {
        // When its own timer expires, the channel reports CANCELLED.
        if status.code() == Code::Cancelled && status.message() == TimeoutExpired(()).to_string() {
            return Error::deadline();
        }
        match std::error::Error::source(&status).map(cause) {
            // Under TLS 1.3 a client learns only with its first call that it was refused.
            Some(cause) if cause.contains("received fatal alert") => {
                Error::new(Code::Unavailable, format!("the server refuses TLS: {cause}"))
            }
            Some(cause) if cause == UNSENT => {
                Error::new(Code::Unavailable, "the server ended the connection before the call")
            }
            _ => Error::new(status.code(), status.message()),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {}

/// The innermost cause, because the outer ones are only "transport error".
fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_expired_here_is_a_deadline() {
        let expired = Status::cancelled(TimeoutExpired(()).to_string());
        assert_eq!(Error::from(expired).code, "DEADLINE_EXCEEDED");
        assert_eq!(Error::from(Status::cancelled("by the server")).code, "CANCELLED");
    }

    #[test]
    fn broken_connections_may_be_retried_and_refusals_may_not() {
        assert!(Error::new(Code::Internal, "h2 protocol error: reset").is_retryable());
        assert!(Error::deadline().is_retryable());
        assert!(!Error::malformed("lease").is_retryable());
    }
}
