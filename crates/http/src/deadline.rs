//! Deadlines of calls, from the header `grpc-timeout`.

use std::time::{Duration, Instant};

use hyper::{HeaderMap, header::HeaderName};

use tollgate_telemetry::monotonic;

/// Deadline of calls without `grpc-timeout`.
pub const DEFAULT: Duration = Duration::from_secs(1);
/// The header with the timeout of a call.
pub const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The start of a call, stored in the extensions of a request whose message was not complete in its
/// first frame.
#[derive(Debug, Clone, Copy)]
pub struct CallStart(Instant);

impl CallStart {
    /// Starts a call now.
    pub fn now() -> CallStart {
        CallStart(monotonic())
    }

    /// Returns the start as an instant.
    pub fn instant(self) -> Instant {
        self.0
    }

    /// Returns the instant by which the message must be complete: the caller's timeout or
    /// `default`, but at most `most` after the start.
    pub(crate) fn deadline(
        self,
        headers: &HeaderMap,
        default: Duration,
        most: Duration,
    ) -> Instant {
        self.0 + timeout(headers).unwrap_or(default).min(most)
    }
}

/// Parses the timeout of a call; `None` if it is missing or malformed.
pub fn timeout(headers: &HeaderMap) -> Option<Duration> {
    parse(headers.get(TIMEOUT)?.as_bytes())
}

/// Parses `grpc-timeout`: 1 to 8 digits and a unit.
pub(crate) fn parse(value: &[u8]) -> Option<Duration> {
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
    fn timeouts_are_parsed_in_every_unit() {
        assert_eq!(parse(b"250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse(b"99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        assert_eq!(parse(b"7u"), Some(Duration::from_micros(7)));
        for bad in [&b""[..], b"S", b"1", b"-1S", b"123456789S", b"1x", "1é".as_bytes()] {
            assert_eq!(parse(bad), None);
        }
    }
}
