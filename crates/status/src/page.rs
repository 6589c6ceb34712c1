//! HTTP responses with the headers that keep other web sites out.

use std::convert::Infallible;

use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{
    Response, StatusCode,
    body::Bytes,
    header::{
        ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
        LOCATION, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
    },
};

/// The body of a response.
pub type PageBody = UnsyncBoxBody<Bytes, Infallible>;

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
);
const OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// Redirects the browser to a page of this console.
pub fn redirect(target: &str, cookie: Option<HeaderValue>) -> Response<PageBody> {
    let mut response = full(StatusCode::SEE_OTHER, TEXT, String::new());
    let target = HeaderValue::try_from(target).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(LOCATION, target);
    response.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    secured(response)
}

/// Builds an HTML page.
pub fn html(status: StatusCode, html: String) -> Response<PageBody> {
    secured(full(status, HTML, html))
}

/// Refuses a request.
pub fn refusal(status: StatusCode, reason: &str) -> Response<PageBody> {
    let mut response = full(status, TEXT, format!("{reason}\n"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
    }
    secured(response)
}

/// Builds a response with a complete body.
pub fn full(
    status: StatusCode,
    content_type: HeaderValue,
    body: impl Into<Bytes>,
) -> Response<PageBody> {
    let body = Full::new(body.into()).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Adds the headers of every response, which forbid content from other sites, framing and caching.
pub fn secured(mut response: Response<PageBody>) -> Response<PageBody> {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    // With `no-referrer` browsers send `Origin: null` with the forms of the console itself.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(OPENER, HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
