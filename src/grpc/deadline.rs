//! Deadlines of decisions, from the header `grpc-timeout` of a call.
//!
//! The engine's deadline is somewhat earlier than the caller's, so that the answer arrives in time.
//! The caller would not learn about a grant that arrives late.

use std::time::{Duration, Instant};

use tollgate_http::deadline::{CallStart, DEFAULT, timeout};
use tonic::Request;

use super::scope::Scope;
use tollgate_core::time::Millis;

/// Maximum time that is reserved for sending the answer, which is otherwise a tenth of the timeout.
const WAY_HOME_MAX: Duration = Duration::from_millis(50);

/// The start and the timeout of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    start: Instant,
    timeout: Option<Duration>,
}

/// Returns the start of a call, its timeout if it has one, its scope and its message. Consumes the
/// request, because a handler that borrows it would keep it and its headers in memory while the
/// call waits.
pub(super) fn asked<T>(request: Request<T>) -> (Asked, Scope, T) {
    let (metadata, mut extensions, message) = request.into_parts();
    let start = extensions.get().copied().unwrap_or_else(CallStart::now);
    let asked = Asked { start: start.instant(), timeout: timeout(metadata.as_ref()) };
    (asked, Scope::take(&mut extensions), message)
}

/// Returns the instant by which the engine must have decided the call, its scope and its message.
pub(super) fn of<T>(request: Request<T>) -> (Instant, Scope, T) {
    let (asked, scope, message) = asked(request);
    (asked.or_default(Millis(0)), scope, message)
}

impl Asked {
    /// Returns the instant by which the engine must have decided a call that may wait for `wait`:
    /// the timeout of the caller, or [`DEFAULT`] plus `wait`, minus the time for the answer.
    pub(super) fn or_default(self, wait: Millis) -> Instant {
        let default = DEFAULT + wait.duration();
        let timeout = self.timeout.unwrap_or(default);
        let ours = timeout - (timeout / 10).min(WAY_HOME_MAX);
        // A timeout of many years overflows an `Instant`.
        self.start.checked_add(ours).unwrap_or(self.start + default)
    }
}
