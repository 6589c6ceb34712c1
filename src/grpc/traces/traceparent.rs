//! Parses `traceparent` of W3C Trace Context.
//!
//! An invalid header is ignored, so that callers can do no harm with it.

use hyper::{HeaderMap, header::HeaderName};

use tollgate_telemetry::spans::TraceId;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Length of version 00, `00-TRACE-SPAN-FLAGS`. Later versions may append further parts.
const LENGTH: usize = 55;
const SAMPLED: u8 = 1;

/// The span of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TraceParent {
    pub(super) trace: TraceId,
    pub(super) span: u64,
    /// Whether the caller records its span.
    pub(super) is_sampled: bool,
}

/// Returns the span of the caller; `None` if the header is missing, invalid or repeated.
pub(super) fn read(headers: &HeaderMap) -> Option<TraceParent> {
    // Only calls with the header pay for the second lookup.
    let value = headers.get(TRACEPARENT)?;
    match headers.get_all(TRACEPARENT).iter().nth(1) {
        None => parse(value.as_bytes()),
        Some(_) => None,
    }
}

fn parse(value: &[u8]) -> Option<TraceParent> {
    let (known, rest) = value.split_at_checked(LENGTH)?;
    let [version, trace, span, flags] = [&known[..2], &known[3..35], &known[36..52], &known[53..]];
    if [known[2], known[35], known[52]] != *b"---" {
        return None;
    }
    match digits(version)? {
        0 if !rest.is_empty() => return None,
        0xff => return None,
        _ if !rest.is_empty() && rest[0] != b'-' => return None,
        _ => {}
    }
    // The casts are lossless, because the numbers of digits fit the types.
    let (trace, span) = (TraceId(digits(trace)?), digits(span)? as u64);
    let is_sampled = digits(flags)? as u8 & SAMPLED != 0;
    (trace.0 != 0 && span != 0).then_some(TraceParent { trace, span, is_sampled })
}

/// Parses lower-case hexadecimal digits, at most 32.
fn digits(text: &[u8]) -> Option<u128> {
    text.iter().try_fold(0, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_valid_header_has_trace_span_and_flag() {
        let parent = parse(VALID.as_bytes()).unwrap();
        assert_eq!(parent.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!((parent.span, parent.is_sampled), (0xb7ad_6b71_6920_3331, true));
        let unsampled = VALID.replace("-01", "-fe");
        assert!(!parse(unsampled.as_bytes()).unwrap().is_sampled);
        let later = format!("cc{}-what-ever", &VALID[2..]);
        assert_eq!(parse(later.as_bytes()).map(|later| later.trace), Some(parent.trace));
    }

    #[test]
    fn invalid_headers_are_as_if_there_were_none() {
        let long = format!("{VALID}{}", "0".repeat(60_000));
        for bad in [
            "",
            "00",
            "-",
            &VALID[..54],
            &long,
            &VALID.to_uppercase(),
            &VALID.replace("00-0af", "ff-0af"),
            &format!("{VALID}-more"),
            &format!("cc{}.", &VALID[2..]),
            &VALID.replace('-', "_"),
            &VALID.replace("0af7", "0aé"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad:.80}");
        }
    }

    #[test]
    fn a_repeated_header_counts_as_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(read(&headers), None);
        headers.append(TRACEPARENT, HeaderValue::from_static(VALID));
        assert!(read(&headers).is_some());
        headers.append(TRACEPARENT, HeaderValue::from_static(VALID));
        assert_eq!(read(&headers), None);
    }
}
