//! Refuses requests that other web sites cause.

use std::net::IpAddr;

use hyper::{
    HeaderMap,
    header::{HOST, HeaderName, ORIGIN},
};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The top-level domains that are reserved for local use, so no web site can have a name in them.
const PRIVATE_DOMAINS: [&str; 3] = ["localhost", "local", "internal"];

/// Whether the request names this machine by a loopback name or address.
pub fn is_loopback_host(headers: &HeaderMap) -> bool {
    let Some(host) = one(headers, &HOST) else { return false };
    let name = without_port(host);
    name.eq_ignore_ascii_case("localhost")
        || address(name).is_some_and(|address| address.is_loopback())
}

/// Whether `Host` is a name that no other web site can have: an address, a name without a dot, or a
/// name in a reserved domain, such as a Kubernetes service. Programs may omit it; browsers never
/// do.
pub fn is_private_host(headers: &HeaderMap) -> bool {
    if !headers.contains_key(HOST) {
        return true;
    }
    let Some(host) = one(headers, &HOST) else { return false };
    let name = without_port(host);
    let is_private =
        |domain: &str| PRIVATE_DOMAINS.iter().any(|it| it.eq_ignore_ascii_case(domain));
    match name.trim_end_matches('.').rsplit_once('.') {
        None => !name.is_empty(),
        Some((_, domain)) => is_private(domain) || address(name).is_some(),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn address(name: &str) -> Option<IpAddr> {
    name.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Whether a page of this console sent the form. Browsers send `Origin` or `Sec-Fetch-Site`.
pub fn is_same_origin(headers: &HeaderMap) -> bool {
    if !headers.contains_key(ORIGIN) {
        return one(headers, &FETCH_SITE) == Some("same-origin");
    }
    let origin = one(headers, &ORIGIN).and_then(|origin| origin.split_once("://"));
    match (origin, one(headers, &HOST)) {
        (Some(("http" | "https", origin)), Some(host)) => origin.eq_ignore_ascii_case(host),
        _ => false,
    }
}

/// Whether a page of another site sent the request. Programs send no `Origin`.
pub fn is_foreign(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) && !is_same_origin(headers)
}

/// Returns the value of a header that occurs exactly once.
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
    fn loopback_hosts_are_recognized() {
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
    fn hosts_that_no_other_site_can_have_are_accepted() {
        for good in [
            "localhost:50052",
            "127.0.0.1",
            "10.1.2.3:50052",
            "[fd00::1]:50052",
            "[::ffff:10.0.0.1]:50052",
            "tollgate",
            "tollgate:50052",
            "tollgate.prod.svc.cluster.local:50052",
            "tollgate.LOCALHOST.",
            "host.docker.internal",
        ] {
            assert!(is_private_host(&headers(&[(&HOST, good)])), "{good}");
        }
        for bad in
            ["", ":1", "evil.example", "evil.example.:50052", "localhost.evil.example", "a.b"]
        {
            assert!(!is_private_host(&headers(&[(&HOST, bad)])), "{bad}");
        }
        assert!(is_private_host(&headers(&[])));
        assert!(!is_private_host(&headers(&[(&HOST, "localhost"), (&HOST, "localhost")])));
    }

    #[test]
    fn forms_of_other_sites_are_recognized() {
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
            let headers = headers(&all);
            assert_eq!(is_same_origin(&headers), is_same, "{pairs:?}");
            assert_eq!(is_foreign(&headers), headers.contains_key(ORIGIN) && !is_same, "{pairs:?}");
        }
    }
}
