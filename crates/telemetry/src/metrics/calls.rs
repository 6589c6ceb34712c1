//! Counts calls from their headers to their status.

use std::time::Instant;

use super::{count, is_on};
use crate::clock::monotonic;

/// The number of status codes of gRPC: 0 to 16.
pub const CODES: usize = 17;
/// The names of the status codes, by code, as in other gRPC servers.
pub const CODE_NAMES: [&str; CODES] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// The labels of an RPC. Its position in the list of all RPCs is the position of its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpcLabels {
    /// The path of its URL.
    pub path: &'static str,
    /// The name of the service, with its package.
    pub service: &'static str,
    /// The name of the method.
    pub method: &'static str,
    /// `unary`, `server_stream` or `bidi_stream`.
    pub kind: &'static str,
}

/// The status of a call that its client has ended.
const CANCELLED: usize = 1;
/// The status that replaces codes outside the list.
const UNKNOWN: usize = 2;

/// A started call, which is counted as handled when it ends. Dropping it earlier counts it as
/// cancelled.
#[derive(Debug)]
pub struct CountedCall {
    method: u16,
    /// `None` if nothing is counted, or if the call has ended.
    start: Option<Instant>,
}

impl CountedCall {
    /// Counts the start of a call. `method` is the position of its RPC.
    #[inline]
    pub fn start(method: usize) -> CountedCall {
        let start = is_on().then(monotonic);
        count(|cells| cells.calls[method].started.add(1));
        CountedCall { method: method as u16, start }
    }

    /// Counts the end of the call, with its status code.
    #[inline]
    pub fn end(mut self, code: i32) {
        self.finish(usize::try_from(code).unwrap_or(UNKNOWN));
    }

    #[inline]
    fn finish(&mut self, code: usize) {
        let Some(start) = self.start.take() else { return };
        let duration = monotonic().saturating_duration_since(start);
        count(|cells| {
            let cells = &cells.calls[usize::from(self.method)];
            cells.handled[if code < CODES { code } else { UNKNOWN }].add(1);
            cells.durations.observe(duration);
        });
    }
}

impl Drop for CountedCall {
    #[inline]
    fn drop(&mut self) {
        self.finish(CANCELLED);
    }
}
