//! Deadlines of calls, from the header `grpc-timeout`.
//!
//! The engine's deadline is somewhat earlier than the caller's, so that the answer arrives in time.
//! The caller would not know of a grant that arrives late.

use std::time::{Duration, Instant};

use hyper::{HeaderMap, header::HeaderName};
use tonic::Request;

use super::scope::Scope;
use tollgate_core::time::{Millis, monotonic};

/// Deadline of calls without `grpc-timeout`.
pub(super) const DEFAULT: Duration = Duration::from_secs(1);
pub(super) const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// The most time that is reserved for sending the answer: a tenth of the timeout, at most this.
const WAY_HOME_MAX: Duration = Duration::from_millis(50);

/// Start and timeout of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    start: Instant,
    timeout: Option<Duration>,
}

/// Returns the start of a call, its timeout if it has one, its scope and its message. Consumes the
/// request: a handler that borrows it keeps it, and its headers, as long as the call waits.
pub(super) fn asked<T>(request: Request<T>) -> (Asked, Scope, T) {
    let (metadata, mut extensions, message) = request.into_parts();
    let begun = extensions.get().copied().unwrap_or_else(Begun::now);
    let asked = Asked { start: begun.0, timeout: timeout(metadata.as_ref()) };
    (asked, Scope::take(&mut extensions), message)
}

/// The start of a call. In the extensions of a request whose message was not complete at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun(Instant);

impl Begun {
    pub(super) fn now() -> Begun {
        Begun(monotonic())
    }

    /// Returns the instant by which the message must be complete: the caller's timeout or
    /// `default`, but at most `most` after the start.
    pub(super) fn deadline(
        self,
        headers: &HeaderMap,
        default: Duration,
        most: Duration,
    ) -> Instant {
        self.0 + timeout(headers).unwrap_or(default).min(most)
    }
}

/// Parses the timeout of a call; `None` if it is missing or malformed.
pub(super) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    parse(headers.get(TIMEOUT)?.as_bytes())
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

/// Parses `grpc-timeout`: 1 to 8 digits and a unit.
pub(super) fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(number * 3600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit() {
        assert_eq!(parse(b"250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse(b"99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        assert_eq!(parse(b"7u"), Some(Duration::from_micros(7)));
        for bad in [&b""[..], b"S", b"1", b"-1S", b"123456789S", b"1x", "1é".as_bytes()] {
            assert_eq!(parse(bad), None);
        }
    }
}
