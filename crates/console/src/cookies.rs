//! Cookies: the session, and the message that an action shows on the next page.

use hyper::{
    HeaderMap,
    header::{COOKIE, HeaderValue},
};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use tollgate_telemetry::text::start;

pub(super) const SESSION: &str = "tollgate_session";
pub(super) const MESSAGE: &str = "tollgate_message";
/// The attributes of each cookie, which hide it from other sites and from scripts.
const ATTRIBUTES: &str = "Path=/; HttpOnly; SameSite=Strict";
/// Maximum length of a message, bytes.
const MESSAGE_BYTES_MAX: usize = 512;

/// Returns the value of a cookie.
pub(super) fn get<'a>(headers: &'a HeaderMap, name: &'a str) -> Option<&'a str> {
    all(headers, name).next()
}

/// Returns all values of a cookie, since other programs on this host can set one with the same
/// name. Ignores cookies that are not text.
pub(super) fn all<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let all = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
    let pairs = all.flat_map(|cookies| cookies.split(|byte| *byte == b';'));
    let texts = pairs.filter_map(|pair| std::str::from_utf8(pair).ok());
    texts.filter_map(move |pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

/// Builds the header that sets a cookie for this number of seconds; 0 removes it. `value` may
/// contain only letters, digits and `%`.
pub(super) fn set(name: &str, value: &str, seconds: u64) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("{name}={value}; Max-Age={seconds}; {ATTRIBUTES}")).ok()
}

/// Encodes a message as the value of a cookie. `is_done` says whether the action has succeeded.
pub(super) fn message(is_done: bool, text: &str) -> String {
    let text = start(text, MESSAGE_BYTES_MAX);
    let kind = if is_done { 'y' } else { 'n' };
    format!("{kind}{}", utf8_percent_encode(text, NON_ALPHANUMERIC))
}

/// Parses a message.
pub(super) fn parse_message(value: &str) -> Option<(bool, String)> {
    let (kind, text) = value.split_at_checked(1)?;
    let text = percent_decode_str(text).decode_utf8().ok()?;
    Some((kind == "y", text.into_owned()))
}
