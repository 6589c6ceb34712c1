//! The errors of calls that the transport rejects or abandons, with machine-readable details.
//!
//! A call that gets one of them was not executed, except for [`Rejections::answer_dropped`].
//! Details contain an `ErrorInfo` with a reason in capitals, and `RetryInfo` where a retry can
//! succeed. Programs compare reasons; messages are for people and can change.

use std::{collections::HashMap, sync::OnceLock, time::Duration};

use hyper::HeaderMap;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The retry delay of callers that have reached a limit.
const RETRY: Duration = Duration::from_millis(100);
/// The retry delays of callers of an overloaded server, rotated so that the callers do not return
/// together.
const RETRY_MILLIS: [u64; 8] = [100, 260, 180, 340, 140, 300, 220, 380];

/// Builds the errors with the names of a program.
#[derive(Debug)]
pub struct Rejections {
    /// The name of the program in messages for people.
    program: &'static str,
    /// The domain of all reasons.
    domain: &'static str,
    /// The maximum message size of each service, in words.
    message_sizes: &'static str,
    /// The errors of an overloaded server, encoded once.
    overload: OnceLock<[HeaderMap; RETRY_MILLIS.len()]>,
}

impl Rejections {
    /// Creates the errors of a program: its name in messages, the domain of its reasons, and its
    /// maximum message sizes in words, such as `1 MiB is the maximum of all services`.
    pub const fn new(
        program: &'static str,
        domain: &'static str,
        message_sizes: &'static str,
    ) -> Rejections {
        Rejections { program, domain, message_sizes, overload: OnceLock::new() }
    }

    /// Returns the name of the program in messages for people.
    pub(crate) fn program(&self) -> &'static str {
        self.program
    }

    /// Returns the headers of RESOURCE_EXHAUSTED: the call cannot be answered in time. `number`
    /// counts such calls and selects the retry delay.
    pub(crate) fn overloaded(&self, number: usize) -> HeaderMap {
        let all = self.overload.get_or_init(|| {
            RETRY_MILLIS.map(|after| {
                let message = "this server is overloaded: the call would not be answered within its \
                               deadline; nothing was decided: try again later, or with a longer \
                               deadline";
                let details = self.again("OVERLOADED", Duration::from_millis(after));
                let status =
                    Status::with_error_details(Code::ResourceExhausted, message, details);
                status.into_http::<()>().into_parts().0.headers
            })
        });
        all[number % RETRY_MILLIS.len()].clone()
    }

    /// DEADLINE_EXCEEDED: the message of a call was not complete in time.
    pub(crate) fn message_incomplete(&self) -> Status {
        let message = "the message of the call was not complete by its deadline, or within \
                       limits.message_timeout; nothing was decided";
        let details = self.info("MESSAGE_INCOMPLETE");
        Status::with_error_details(Code::DeadlineExceeded, message, details)
    }

    /// INVALID_ARGUMENT, as HTTP 405: only POST carries a call.
    pub(crate) fn not_post(&self, method: &str) -> Status {
        let message = format!(
            "HTTP method `{method}` is not POST; {} speaks gRPC over HTTP/2: call it with a gRPC \
             client; nothing was executed",
            self.program
        );
        Status::with_error_details(Code::InvalidArgument, message, self.info("METHOD_NOT_POST"))
    }

    /// INVALID_ARGUMENT, as HTTP 415: the content type is not gRPC with protobuf messages.
    pub(crate) fn not_grpc(&self, content_type: Option<&str>) -> Status {
        let given = content_type.map(|given| format!("content-type `{given}`"));
        let message = format!(
            "{} is not `application/grpc` or `application/grpc+proto`; {} speaks gRPC over HTTP/2: \
             call it with a gRPC client; nothing was executed",
            given.as_deref().unwrap_or("a call without content-type"),
            self.program
        );
        let details = self.info("CONTENT_TYPE_NOT_GRPC");
        Status::with_error_details(Code::InvalidArgument, message, details)
    }

    /// INVALID_ARGUMENT: `grpc-timeout` is malformed.
    pub(crate) fn malformed_timeout(&self, value: &str) -> Status {
        let message = format!(
            "grpc-timeout `{value}` is malformed: it must be 1 to 8 digits and a unit, one of H, M, \
             S, m, u, n; nothing was executed"
        );
        Status::with_error_details(Code::InvalidArgument, message, self.info("TIMEOUT_MALFORMED"))
    }

    /// UNIMPLEMENTED: no service has this rpc.
    pub(crate) fn unknown_rpc(&self, path: &str) -> Status {
        let message = format!(
            "no rpc `{path}` on this server; reflection lists its rpcs, for instance \
             `grpcurl -plaintext ADDRESS list`"
        );
        Status::with_error_details(Code::Unimplemented, message, self.info("RPC_UNKNOWN"))
    }

    /// RESOURCE_EXHAUSTED: a message exceeds the maximum of its service, as sent or decompressed.
    pub(crate) fn message_too_large(&self) -> Status {
        let message = format!(
            "the request's message is too large, as sent or decompressed: {}; nothing was executed; \
             split it",
            self.message_sizes
        );
        Status::with_error_details(Code::ResourceExhausted, message, self.info("MESSAGE_TOO_LARGE"))
    }

    /// INVALID_ARGUMENT: a message is flagged as gzip but is not gzip.
    pub(crate) fn not_gzip(&self) -> Status {
        let message = "the request's message cannot be decompressed as gzip; nothing was executed";
        Status::with_error_details(Code::InvalidArgument, message, self.info("MESSAGE_NOT_GZIP"))
    }

    /// RESOURCE_EXHAUSTED: the requests of a connection, of a peer or of all connections use the
    /// maximum number of bytes.
    pub(crate) fn too_many_request_bytes(&self) -> Status {
        let message = "unfinished requests of this connection, of this address or of all \
                       connections use the bytes of limits.connection_request_bytes, half of \
                       limits.request_bytes or all of them; nothing was decided; retry when other \
                       requests are complete";
        self.exhausted(message, "TOO_MANY_REQUEST_BYTES")
    }

    /// RESOURCE_EXHAUSTED: answers that callers have not read use the maximum number of bytes.
    pub(crate) fn answers_not_read(&self) -> Status {
        let message = "unread answers of this connection, of this address or of all connections use \
                       the bytes of limits.connection_answer_bytes, half of limits.answer_bytes or \
                       all of them; nothing was decided; read them, then retry";
        self.exhausted(message, "ANSWERS_NOT_TAKEN")
    }

    /// DEADLINE_EXCEEDED: a call was executed, but its answer was dropped.
    pub(crate) fn answer_dropped(&self, bytes: usize) -> Status {
        let message = format!(
            "the call was executed, but its answer of {bytes} bytes was dropped: unread answers of \
             this connection use the bytes of limits.connection_answer_bytes"
        );
        Status::with_error_details(Code::DeadlineExceeded, message, self.info("ANSWERS_NOT_TAKEN"))
    }

    /// RESOURCE_EXHAUSTED: a peer address has reached its maximum number of open streams.
    pub(crate) fn too_many_streams(&self) -> Status {
        let message = "this address has the maximum of open calls, limits.peer_streams; nothing was \
                       decided";
        self.exhausted(message, "TOO_MANY_STREAMS")
    }

    /// RESOURCE_EXHAUSTED with a retry delay.
    fn exhausted(&self, message: &str, reason: &str) -> Status {
        let details = self.again(reason, RETRY);
        Status::with_error_details(Code::ResourceExhausted, message, details)
    }

    /// Builds details with a machine-readable reason.
    fn info(&self, reason: &str) -> ErrorDetails {
        ErrorDetails::with_error_info(reason, self.domain, HashMap::new())
    }

    /// Builds details with a reason and the time until a retry.
    fn again(&self, reason: &str, after: Duration) -> ErrorDetails {
        let mut details = self.info(reason);
        details.set_retry_info(Some(after));
        details
    }
}

/// The errors in unit tests.
#[cfg(test)]
pub(crate) static SAMPLE: Rejections = Rejections::new("Echo", "echo", "1 KiB is the maximum");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_of_an_overloaded_server_get_the_reason_and_different_retry_delays() {
        let waits: Vec<_> = (0..RETRY_MILLIS.len())
            .map(|number| {
                let status = Status::from_header_map(&SAMPLE.overloaded(number)).unwrap();
                assert_eq!(status.code(), Code::ResourceExhausted);
                let info = status.get_details_error_info().unwrap();
                assert_eq!((&*info.reason, &*info.domain), ("OVERLOADED", "echo"));
                status.get_details_retry_info().unwrap().retry_delay.unwrap()
            })
            .collect();
        assert!(waits.iter().any(|wait| *wait != waits[0]));
    }
}
