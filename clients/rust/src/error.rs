//! Errors of calls.

use std::{fmt, time::Duration};

use tonic::{Code, ConnectError, Status, TimeoutExpired, transport};
use tonic_types::StatusExt;

use crate::{Order, pb, time};

/// The error of the HTTP library for a call that was not sent.
const UNSENT: &str = "connection closed";
/// Beginning of the error message of a call whose connection broke after it was sent.
const BROKEN: &str = "the connection broke: ";
const OWN_DEADLINE: &str = "no answer by the call's deadline";
/// The reason of an error: the server uses TLS and the client does not, or vice versa.
pub(crate) const TLS_MISMATCH: &str = "TLS_MISMATCH";
/// Texts of the causes of such an error, each with its hint: from a server that requires TLS, and
/// from rustls if the answer is not a TLS record.
const MISMATCHES: [(&str, &str); 2] = [
    ("this port of Tollgate requires TLS", "the server requires TLS: use https and Access::ca"),
    ("InvalidContentType", "the server does not use TLS: use http, without certificates"),
];
const CLOSED: &str = "the connection is closed";

/// A call that returned no decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The name of the gRPC code, such as `UNAVAILABLE`.
    pub code: &'static str,
    /// The message of the status, or a description by the client.
    pub message: String,
    /// The reason of ErrorInfo, such as `MEMORY_FULL`; empty if there is none.
    pub reason: String,
    /// The bad fields of an INVALID_ARGUMENT.
    pub violations: Vec<Violation>,
    /// The time of RetryInfo after which a repeat may succeed.
    pub retry_after: Option<Duration>,
    /// The quantity that the order has reserved, with the reason [`Error::QUANTITY_DIFFERS`].
    pub held_quantity: Option<u64>,
}

/// A bad field of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The field, such as `pool`.
    pub field: String,
    /// What was expected.
    pub description: String,
}

impl Default for Error {
    /// Returns an error of unknown cause.
    fn default() -> Error {
        Error::new(Code::Unknown, "")
    }
}

impl Error {
    /// The reason of a reservation for an order that holds a different quantity. The code is
    /// FAILED_PRECONDITION, and `held_quantity` is set.
    pub const QUANTITY_DIFFERS: &str = "QUANTITY_DIFFERS";

    /// Whether a retry may succeed: the server is unreachable or overloaded.
    pub fn is_retryable(&self) -> bool {
        let passing =
            ["CANCELLED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "UNKNOWN"];
        passing.contains(&self.code) && !self.is_closed()
    }

    /// Whether the server may have executed the call although no answer arrived: the deadline
    /// passed, the call was cancelled, or the connection broke.
    pub fn may_have_run(&self) -> bool {
        match self.code {
            "CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN" => true,
            "UNAVAILABLE" => self.message.starts_with(BROKEN) && self.reason != TLS_MISMATCH,
            _ => false,
        }
    }

    /// Makes an error without details.
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error {
            code: name(code),
            message: message.into(),
            reason: String::new(),
            violations: Vec::new(),
            retry_after: None,
            held_quantity: None,
        }
    }

    /// The deadline passed. It is unknown whether the call was executed.
    pub(crate) fn deadline() -> Error {
        Error::new(Code::DeadlineExceeded, OWN_DEADLINE)
    }

    /// Whether the client gave up waiting for the answer.
    pub(crate) fn is_own_deadline(&self) -> bool {
        self.code == "DEADLINE_EXCEEDED" && self.message == OWN_DEADLINE
    }

    /// The caller closed the connection.
    pub(crate) fn closed() -> Error {
        Error::new(Code::Cancelled, CLOSED)
    }

    /// Whether the caller closed the connection, so that none of its calls succeeds any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.code == "CANCELLED" && self.message == CLOSED
    }

    /// Whether a call that is safe to repeat may succeed later.
    pub(crate) fn is_passing(&self) -> bool {
        self.is_retryable() && (self.code != "RESOURCE_EXHAUSTED" || self.retry_after.is_some())
    }

    /// The response violates the contract.
    pub(crate) fn malformed(what: &str) -> Error {
        Error::new(Code::Internal, format!("malformed answer: {what}"))
    }

    /// Returns a request that the client does not send.
    pub(crate) fn bad_field(field: &str, expected: &str) -> Error {
        Error {
            violations: vec![Violation { field: field.into(), description: expected.into() }],
            ..Error::new(Code::InvalidArgument, format!("{field}: {expected}"))
        }
    }

    /// Returns a decision that this version does not know.
    pub(crate) fn unknown_answer(kind: &str, value: i32) -> Error {
        let message = format!(
            "the server answered {kind} {value}, which this version of the library does not \
             know: update the library"
        );
        Error { reason: "ANSWER_UNKNOWN".to_owned(), ..Error::new(Code::Internal, message) }
    }

    /// An order holds a quantity other than the requested one.
    pub(crate) fn quantity_differs(order: &Order<'_>, held: u64) -> Error {
        let Order { order, sku, quantity, .. } = order;
        let message = format!(
            "order `{order}` holds {held} of `{sku}`, not {quantity}; nothing changed: confirm or \
             cancel it, or reserve under another order"
        );
        Error {
            reason: Error::QUANTITY_DIFFERS.to_owned(),
            held_quantity: Some(held),
            ..Error::new(Code::FailedPrecondition, message)
        }
    }

    /// No connection.
    pub(crate) fn unreachable(error: &transport::Error) -> Error {
        Error::new(Code::Unavailable, cause(error)).explained()
    }

    /// Adds that the client and the server disagree about TLS.
    fn explained(self) -> Error {
        let Some((_, hint)) = MISMATCHES.iter().find(|(text, _)| self.message.contains(text))
        else {
            return self;
        };
        let message = format!("{}; {hint}", self.message);
        Error { message, reason: TLS_MISMATCH.to_owned(), ..self }
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
        let source = std::error::Error::source(&status);
        match source.map(cause) {
            // This process made the status: the HTTP/2 error of a server that requires TLS.
            Some(_) if status.code() == Code::PermissionDenied => {
                Error::new(Code::Unavailable, MISMATCHES[0].0).explained()
            }
            Some(cause) if MISMATCHES.iter().any(|(text, _)| cause.contains(text)) => {
                Error::new(Code::Unavailable, cause).explained()
            }
            // Under TLS 1.3 a client learns only with its first call that it was refused.
            Some(cause) if cause.contains("received fatal alert") => {
                Error::new(Code::Unavailable, format!("the server refuses TLS: {cause}"))
            }
            Some(cause) if cause == UNSENT => {
                Error::new(Code::Unavailable, "the server ended the connection before the call")
            }
            // The status has a cause, so this process made it: the connection broke. Its code
            // depends on the layer that noticed.
            Some(cause) if is_broken(status.code()) && !is_unconnected(source) => {
                Error::new(Code::Unavailable, format!("{BROKEN}{cause}")).explained()
            }
            _ => detailed(&status),
        }
    }
}

impl From<pb::ItemError> for Error {
    fn from(item: pb::ItemError) -> Error {
        let violation =
            |it: pb::ItemViolation| Violation { field: it.field, description: it.description };
        Error {
            reason: item.reason,
            violations: item.violations.into_iter().map(violation).collect(),
            retry_after: item.retry_after.and_then(|it| time::length(Some(it), "").ok()),
            ..Error::new(Code::from_i32(item.code), item.message)
        }
    }
}

/// Whether this is a code of the HTTP library for a broken connection.
fn is_broken(code: Code) -> bool {
    matches!(code, Code::Cancelled | Code::Internal | Code::Unavailable | Code::Unknown)
}

/// Whether there was no connection to send the call over.
fn is_unconnected(mut source: Option<&(dyn std::error::Error + 'static)>) -> bool {
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// Reads the details of a status.
fn detailed(status: &Status) -> Error {
    let error = Error::new(status.code(), status.message());
    if status.details().is_empty() {
        return error;
    }
    let details = status.get_error_details();
    let bad = details.bad_request().map(|it| it.field_violations.as_slice()).unwrap_or_default();
    let violation = |it: &tonic_types::FieldViolation| Violation {
        field: it.field.clone(),
        description: it.description.clone(),
    };
    Error {
        reason: details.error_info().map(|info| info.reason.clone()).unwrap_or_default(),
        violations: bad.iter().map(violation).collect(),
        retry_after: details.retry_info().and_then(|info| info.retry_delay),
        ..error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {}

/// Returns the innermost cause, because the outer ones are only "transport error".
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
    fn details_of_a_status_are_kept() {
        let mut details = tonic_types::ErrorDetails::new();
        details.set_error_info("OVERLOADED", "tollgate", []);
        details.set_retry_info(Some(Duration::from_secs(2)));
        details.add_bad_request_violation("pool", "expected a name");
        let status = Status::with_error_details(Code::ResourceExhausted, "busy", details);
        let error = Error::from(status);
        assert_eq!((error.code, &*error.reason), ("RESOURCE_EXHAUSTED", "OVERLOADED"));
        assert_eq!(error.retry_after, Some(Duration::from_secs(2)));
        assert_eq!(error.violations[0].field, "pool");
        let item = pb::ItemError { code: 3, ..pb::ItemError::default() };
        assert_eq!(Error::from(item).code, "INVALID_ARGUMENT");
    }

    #[test]
    fn a_broken_connection_is_unavailable_whatever_its_code() {
        let reset = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let error = Error::from(Status::from_error(Box::new(reset())));
        assert_eq!(error.code, "UNAVAILABLE", "{error}");
        for code in [Code::Internal, Code::Unknown, Code::Cancelled] {
            let mut status = Status::new(code, "transport error");
            // The message of the server is not changed.
            assert_eq!(Error::from(status.clone()).code, name(code));
            status.set_source(std::sync::Arc::new(reset()));
            let error = Error::from(status);
            assert_eq!(error.code, "UNAVAILABLE");
            assert!(error.may_have_run(), "{error}");
        }
        assert!(!Error::from(Status::unavailable("draining")).may_have_run());
        let unconnected = ConnectError(Box::new(reset()));
        let error = Error::from(Status::from_error(Box::new(unconnected)));
        assert_eq!((error.code, error.may_have_run()), ("UNAVAILABLE", false), "{error}");
    }

    #[test]
    fn passing_errors_may_be_retried_and_refusals_may_not() {
        assert!(Error::deadline().is_retryable());
        assert!(!Error::closed().is_retryable());
        assert!(!Error::malformed("lease").is_retryable());
    }
}
