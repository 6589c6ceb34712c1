//! Rejects calls that are not gRPC before anything is executed.

use std::time::Duration;

use hyper::{
    Method, Request, Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue},
};
use tonic::Status;

use crate::{deadline, fast_path::AnswerBody, rejections::Rejections};
use tollgate_telemetry::text;

const GRPC: &str = "application/grpc";
pub(crate) const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
/// The only encoding of messages that is accepted.
pub(crate) const GZIP: &[u8] = b"gzip";
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const POST: HeaderValue = HeaderValue::from_static("POST");
/// Maximum number of bytes of a caller's value that an error quotes.
const QUOTED_MAX: usize = 128;

/// The request headers of a call that the transport reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Preamble {
    /// The timeout of the caller.
    pub(crate) timeout: Option<Duration>,
    pub(crate) encoding: Encoding,
}

/// The encoding of the messages of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    None,
    Gzip,
    Unknown,
}

/// Parses the headers of a call in one pass, since each lookup by name would cost as much as the
/// whole pass. Returns the error for a call that is not gRPC; its message is not read.
pub(crate) fn parse_headers<B>(
    request: &Request<B>,
    rejections: &Rejections,
) -> Result<Preamble, Box<Response<AnswerBody>>> {
    let (mut content_type, mut timeout, mut encoding) = (None, None, None);
    for (name, value) in request.headers() {
        // If a header is repeated, the first value counts.
        let place = match name {
            name if name == CONTENT_TYPE => &mut content_type,
            name if *name == deadline::TIMEOUT => &mut timeout,
            name if *name == ENCODING => &mut encoding,
            _ => continue,
        };
        place.get_or_insert(value.as_bytes());
    }
    if request.method() != Method::POST {
        let status = rejections.not_post(&quoted(request.method().as_str().as_bytes()));
        let mut response = as_text(StatusCode::METHOD_NOT_ALLOWED, &status);
        response.headers_mut().insert(ALLOW, POST);
        return Err(response.into());
    }
    if !content_type.is_some_and(is_grpc) {
        let status = rejections.not_grpc(content_type.map(quoted).as_deref());
        return Err(as_text(StatusCode::UNSUPPORTED_MEDIA_TYPE, &status).into());
    }
    let encoding = match encoding {
        None => Encoding::None,
        Some(GZIP) => Encoding::Gzip,
        Some(_) => Encoding::Unknown,
    };
    let timeout = match timeout {
        None => None,
        Some(value) => match deadline::parse(value) {
            None => {
                let malformed = rejections.malformed_timeout(&quoted(value));
                return Err(malformed.into_http().into());
            }
            timeout => timeout,
        },
    };
    Ok(Preamble { timeout, encoding })
}

/// Whether a content type means gRPC with protobuf messages.
fn is_grpc(content_type: &[u8]) -> bool {
    if content_type == GRPC.as_bytes() {
        return true;
    }
    let kind = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    kind.eq_ignore_ascii_case(GRPC.as_bytes())
        || kind.eq_ignore_ascii_case(b"application/grpc+proto")
}

/// Returns the start of a caller's value, escaped for logs and terminals.
pub(crate) fn quoted(value: &[u8]) -> String {
    let start = value.get(..QUOTED_MAX).unwrap_or(value);
    let more = if start.len() < value.len() { "…" } else { "" };
    format!("{}{more}", text::escaped(&String::from_utf8_lossy(start)))
}

/// Builds a response with a status for gRPC clients and its message as text for other clients.
fn as_text(code: StatusCode, status: &Status) -> Response<AnswerBody> {
    let mut response = status.clone().into_http::<AnswerBody>();
    *response.body_mut() = AnswerBody::text(format!("{}\n", status.message()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h16_content_types_of_grpc_with_protobuf_are_recognized() {
        for good in [
            "application/grpc",
            "application/grpc+proto",
            "Application/GRPC",
            "application/grpc;charset=utf-8",
            "application/grpc+proto ; x=y",
        ] {
            assert!(is_grpc(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            "text/plain",
            "application/json",
            "application/grpc+json",
            "application/grpc-web",
            "application/grpc-web+proto",
            "application/grpc-web-text",
            "application/grpcx",
            "x;application/grpc",
        ] {
            assert!(!is_grpc(bad.as_bytes()), "{bad}");
        }
    }
}
