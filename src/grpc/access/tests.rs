//! Remembered credentials, namespaces of calls, and the cost of a call.

use std::hint::black_box;

use hyper::header::{CONTENT_TYPE, HeaderValue, TE, USER_AGENT};
use tonic::Code;

use super::*;

const PATH: &str = "/tollgate.v1.AdmissionService/AdmitTask";

fn spec(name: &str, token: &str, namespace: Option<&str>) -> CallerSpec {
    CallerSpec {
        name: name.to_owned(),
        tokens: vec![Digest::compute(token.as_bytes())],
        mtls: None,
        jwt: None,
        namespace: namespace.map(|it| Namespace::parse(it.as_bytes()).unwrap()),
        permissions: Permissions::default().with(Permission::Use),
        services: Services::ALL,
        names: None,
    }
}

fn callers(specs: Vec<CallerSpec>) -> Callers {
    Callers::new(specs, None).unwrap()
}

fn headers(token: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(TE, HeaderValue::from_static("trailers"));
    headers.insert(USER_AGENT, HeaderValue::from_static("grpc-go/1.70.0"));
    headers.insert("grpc-timeout", HeaderValue::from_static("900m"));
    headers.insert(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}")).unwrap());
    headers
}

#[test]
fn remembered_credentials_end_with_their_generation() {
    let (one, two) = (generate().unwrap(), generate().unwrap());
    let access = Access::new(Some(callers(vec![spec("a", &one, Some(""))])), None);
    let (peer, old, new) = (Peer::default(), headers(&one), headers(&two));
    let code = |headers| access.check(PATH, headers, &peer).err().map(|status| status.code());
    for _ in 0..3 {
        assert_eq!(code(&old), None);
        assert_eq!(code(&new), Some(Code::Unauthenticated));
    }
    assert_eq!(code(&old), None);
    access.replace(callers(vec![spec("a", &two, Some(""))]));
    assert_eq!(code(&old), Some(Code::Unauthenticated));
    assert_eq!(code(&new), None);
    // The caller still exists, but its credentials are not in the headers.
    assert_eq!(code(&HeaderMap::new()), Some(Code::Unauthenticated));
}

#[test]
fn a_connection_of_several_callers_remembers_some_credentials() {
    let tokens: Vec<String> = (0..MEMOS_MAX + 2).map(|_| generate().unwrap()).collect();
    let specs = tokens.iter().enumerate().map(|(n, token)| spec(&format!("c{n}"), token, Some("")));
    let access = Access::new(Some(callers(specs.collect())), None);
    let peer = Peer::default();
    let remembered = || {
        let memos = peer.memos.take();
        let names: Vec<String> = memos.iter().map(|memo| memo.caller.name.to_string()).collect();
        peer.memos.set(memos);
        names
    };
    for token in &tokens {
        assert!(access.check(PATH, &headers(token), &peer).is_ok());
    }
    let latest: Vec<String> = (2..MEMOS_MAX + 2).rev().map(|n| format!("c{n}")).collect();
    assert_eq!(remembered(), latest);
    // Credentials that are used again move to the front; rejected ones are not remembered.
    assert!(access.check(PATH, &headers(&tokens[4]), &peer).is_ok());
    assert!(access.check(PATH, &headers("wrong"), &peer).is_err());
    assert_eq!((remembered().len(), &*remembered()[0]), (MEMOS_MAX, "c4"));
    // Nothing outlives the callers for which it was accepted.
    access.replace(callers(vec![spec("c0", &tokens[0], Some(""))]));
    assert!(access.check(PATH, &headers(&tokens[4]), &peer).is_err());
    assert!(remembered().is_empty());
}

#[test]
fn calls_have_the_namespace_of_their_caller_or_the_one_they_choose() {
    let tokens = [(); 3].map(|()| generate().unwrap());
    let specs = vec![
        spec("default", &tokens[0], Some("")),
        spec("acme", &tokens[1], Some("acme")),
        spec("any", &tokens[2], None),
    ];
    let access = Access::new(Some(callers(specs)), None);
    let peer = Peer::default();
    let namespace = |token: &str, asked: Option<&'static str>| {
        let mut headers = headers(token);
        headers.extend(asked.map(|it| (NAMESPACE, HeaderValue::from_static(it))));
        let granted = access.check(PATH, &headers, &peer).ok()?;
        let scope = granted.scope.unwrap_or_default();
        Some(scope.namespace().as_str().to_owned())
    };
    let [default, acme, any] = &tokens;
    for (token, asked, expected) in [
        (default, None, Some("")),
        (default, Some(""), Some("")),
        (default, Some("acme"), None),
        (acme, None, Some("acme")),
        (acme, Some("acme"), Some("acme")),
        (acme, Some("beta"), None),
        (acme, Some(""), None),
        (any, None, Some("")),
        (any, Some("beta"), Some("beta")),
        (any, Some("acme"), Some("acme")),
        (any, Some("*"), None),
    ] {
        assert_eq!(namespace(token, asked).as_deref(), expected, "{asked:?}");
    }
}

#[test]
fn certificates_match_one_caller_by_uri_or_dns_name() {
    let with = |name: &str, pattern: &str| CallerSpec {
        tokens: Vec::new(),
        mtls: Some(pattern.to_owned()),
        ..spec(name, "", Some(""))
    };
    let specs = vec![with("uri", "spiffe://acme/a/*"), with("dns", "dns:*.acme.svc")];
    let callers = callers(specs);
    let found = |uri: &str, dns: &str| {
        let names = CertificateNames { uris: vec![uri.to_owned()], dns: vec![dns.to_owned()] };
        callers.find_by_certificate(&names).map(|caller| caller.name.to_string())
    };
    assert_eq!(found("spiffe://acme/a/b", "other"), Ok("uri".to_owned()));
    assert_eq!(found("https://acme/a/b", "B.Acme.svc"), Ok("dns".to_owned()));
    assert_eq!(found("spiffe://acme/a/b", "b.acme.svc"), Err(Denial::CallerAmbiguous));
    // A URI is not a DNS name, nor vice versa.
    for (uri, dns) in [("b.acme.svc", "spiffe://acme/a/b"), ("spiffe://acme/a", "acme.svc")] {
        assert_eq!(found(uri, dns), Err(Denial::CallerUnknown));
    }
}

/// `cargo test --release --lib cost_of -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn cost_of_a_remembered_token() {
    const CALLS: u32 = 10_000_000;
    let token = generate().unwrap();
    for namespace in ["", "acme"] {
        let access = Access::new(Some(callers(vec![spec("a", &token, Some(namespace))])), None);
        let (peer, headers) = (Peer::default(), headers(&token));
        let start = tollgate_core::time::monotonic();
        for _ in 0..CALLS {
            assert!(black_box(access.check(PATH, black_box(&headers), &peer)).is_ok());
        }
        println!("namespace `{namespace}`: {:?} per call", start.elapsed() / CALLS);
    }
}
