//! Errors of calls.

use std::{error::Error, fmt};

use tonic::{Code, Status, TimeoutExpired, transport};

/// A call that returned no decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// The name of the gRPC code, such as `UNAVAILABLE`.
    pub code: &'static str,
    /// The message of the status, or a description by the client.
    pub message: String,
}

impl CallError {
    /// The deadline passed. Whether the call was executed is unknown.
    pub(super) fn deadline() -> CallError {
        let message = "no answer by the call's deadline".to_owned();
        CallError { code: code_name(Code::DeadlineExceeded), message }
    }

    /// The client's own input is invalid.
    pub(super) fn invalid(message: String) -> CallError {
        CallError { code: code_name(Code::InvalidArgument), message }
    }

    /// The answer violates the contract.
    pub(super) fn malformed(what: &str) -> CallError {
        CallError { code: code_name(Code::Internal), message: format!("malformed answer: {what}") }
    }

    /// The server ended a stream that should continue.
    pub(crate) fn ended() -> CallError {
        let message = "the server ended the stream".to_owned();
        CallError { code: code_name(Code::Unavailable), message }
    }

    /// The store refused a part of a batch.
    pub(super) fn refused() -> CallError {
        let message = "the store refused a part of the batch: send it again".to_owned();
        CallError { code: code_name(Code::Unavailable), message }
    }

    /// No connection. Uses the innermost cause, because the outer ones are only "transport error".
    pub(super) fn unreachable(error: &transport::Error) -> CallError {
        let mut cause: &dyn Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        CallError { code: code_name(Code::Unavailable), message: cause.to_string() }
    }
}

impl CallError {
    /// Whether a retry may succeed: the server is unreachable or overloaded.
    pub fn may_pass(&self) -> bool {
        // A broken connection has messages and codes of the HTTP/2 library.
        let broken = self.code == "INTERNAL" && self.message.starts_with("h2 protocol error");
        let passing =
            ["CANCELLED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "UNKNOWN"];
        broken || passing.contains(&self.code)
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> CallError {
        // When its own timer expires, the channel reports CANCELLED.
        if status.code() == Code::Cancelled && status.message() == TimeoutExpired(()).to_string() {
            return CallError::deadline();
        }
        CallError { code: code_name(status.code()), message: status.message().to_owned() }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl Error for CallError {}

/// Returns the name of a gRPC code.
pub(in crate::grpc) fn code_name(code: Code) -> &'static str {
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
        assert_eq!(CallError::from(expired).code, "DEADLINE_EXCEEDED");
        assert_eq!(CallError::from(Status::cancelled("by the server")).code, "CANCELLED");
    }
}
