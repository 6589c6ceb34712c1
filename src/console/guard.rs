//! Refuses requests that other web sites cause.

use std::net::IpAddr;

use hyper::{
    HeaderMap,
    header::{HOST, HeaderName, ORIGIN},
};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether the request names this machine by a loopback name or address.
pub(super) fn is_loopback_host(headers: &HeaderMap) -> bool {
    let Some(host) = one(headers, &HOST) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Whether a page of this console sent the form: browsers send `Origin` or `Sec-Fetch-Site`.
pub(super) fn is_same_origin(headers: &HeaderMap) -> bool {
    if !headers.contains_key(ORIGIN) {
        return one(headers, &FETCH_SITE) == Some("same-origin");
    }
    let origin = one(headers, &ORIGIN).and_then(|origin| origin.split_once("://"));
    match (origin, one(headers, &HOST)) {
        (Some(("http" | "https", origin)), Some(host)) => origin.eq_ignore_ascii_case(host),
        _ => false,
    }
}

/// The value of a header that is sent once.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn hosts_of_this_machine_are_known() {
        for good in ["localhost", "LOCALHOST:50052", "127.0.0.1:1", "127.9.9.9", "[::1]:50052"] {
            assert!(is_loopback_host(&headers(&[(&HOST, good)])), "{good}");
        }
        for bad in ["", "evil.example", "localhost.evil.example", "10.0.0.1:50052", "[::2]:1", "::"]
        {
            assert!(!is_loopback_host(&headers(&[(&HOST, bad)])), "{bad}");
        }
        assert!(!is_loopback_host(&headers(&[(&HOST, "localhost"), (&HOST, "localhost")])));
    }

    #[test]
    fn forms_of_other_sites_are_known() {
        let host = (&HOST, "localhost:50052");
        for (pairs, is_same) in [
            (vec![], false),
            (vec![(&ORIGIN, "http://localhost:50052")], true),
            (vec![(&ORIGIN, "http://evil.example")], false),
            (vec![(&ORIGIN, "x://localhost:50052")], false),
            (vec![(&ORIGIN, "http://localhost:1")], false),
            (vec![(&ORIGIN, "null"), (&FETCH_SITE, "same-origin")], false),
            (vec![(&FETCH_SITE, "same-origin")], true),
            (vec![(&FETCH_SITE, "same-site")], false),
            (vec![(&FETCH_SITE, "cross-site")], false),
        ] {
            let all: Vec<_> = [host].into_iter().chain(pairs.iter().copied()).collect();
            assert_eq!(is_same_origin(&headers(&all)), is_same, "{pairs:?}");
        }
    }
}
