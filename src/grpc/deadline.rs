//! By when a call has to be answered.

use std::time::{Duration, Instant};

use hyper::{HeaderMap, header::HeaderName};
use tonic::Request;

use crate::time::{Millis, monotonic};

/// For callers that set no deadline.
pub(super) const DEFAULT: Duration = Duration::from_secs(1);
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// Kept back for the answer's way home: a tenth of the caller's time, or this.
const WAY_HOME_MAX: Duration = Duration::from_millis(50);

/// The time that a caller gives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    start: Instant,
    timeout: Option<Duration>,
}

/// What a call says of its deadline, if anything.
pub(super) fn asked<T>(request: &Request<T>) -> Asked {
    let begun = request.extensions().get().copied().unwrap_or_else(Begun::now);
    Asked { start: begun.0, timeout: timeout(request.metadata().as_ref()) }
}

/// When a call began; in the extensions of one whose message had to be waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun(Instant);

impl Begun {
    pub(super) fn now() -> Begun {
        Begun(monotonic())
    }

    /// By when its message must be there: within the time that its caller gives, or
    /// `default`, and never longer than `most`.
    pub(super) fn deadline(
        self,
        headers: &HeaderMap,
        default: Duration,
        most: Duration,
    ) -> Instant {
        self.0 + timeout(headers).unwrap_or(default).min(most)
    }
}

/// The time that a call's headers give it, if they say so.
pub(super) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    parse(headers.get(TIMEOUT)?.as_bytes())
}

/// The value of `grpc-timeout`, if it is none.
pub(super) fn malformed(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(TIMEOUT)?.as_bytes();
    parse(value).is_none().then_some(value)
}

/// The instant by which the engine has to be done with a call.
pub(super) fn of<T>(request: &Request<T>) -> Instant {
    asked(request).or_default(Millis(0))
}

impl Asked {
    /// The instant by which the engine has to be done with a call that may wait so long.
    pub(super) fn or_default(self, wait: Millis) -> Instant {
        let default = DEFAULT + wait.duration();
        let timeout = self.timeout.unwrap_or(default);
        let ours = timeout - (timeout / 10).min(WAY_HOME_MAX);
        // A timeout of years is no deadline that an Instant could hold.
        self.start.checked_add(ours).unwrap_or(self.start + default)
    }
}

/// Reads `grpc-timeout`: at most 8 digits and a unit.
fn parse(value: &[u8]) -> Option<Duration> {
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
