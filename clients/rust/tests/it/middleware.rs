//! The layer before an HTTP server and before a gRPC server.

use axum::{Router, routing::get};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tollgate_client::{Options, RateLayer, RequestParts, RetryBudget, pb};

use crate::support::{Fake, Server, free_port, serve};

fn key(request: &RequestParts<'_>) -> Option<String> {
    Some(request.headers.get("x-caller")?.to_str().ok()?.to_owned())
}

/// Sends a request over HTTP/1. Returns the lines of its answer's head, in lower case.
async fn head(address: &str, caller: Option<&str>) -> Vec<String> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let caller = caller.map(|caller| format!("x-caller: {caller}\r\n")).unwrap_or_default();
    let request = format!("GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{caller}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, _) = answer.split_once("\r\n\r\n").unwrap();
    head.lines().map(str::to_ascii_lowercase).collect()
}

#[tokio::test]
async fn an_http_server_answers_429_with_headers() {
    let server = Server::start().await;
    let limiter = server.connection().await.limiter("api");
    let app = Router::new().route("/", get(|| async { "ok" })).layer(RateLayer::http(limiter, key));
    let address = serve(app).await;
    for remaining in [1, 0] {
        let answer = head(&address, Some("a")).await;
        assert!(answer[0].contains("200"), "{answer:?}");
        let usage = format!("ratelimit: \"default\";r={remaining};t=");
        assert!(answer.iter().any(|line| line.starts_with(&usage)), "{answer:?}");
        assert!(
            answer.contains(&"ratelimit-policy: \"default\";q=2;w=60".to_owned()),
            "{answer:?}"
        );
    }
    let refused = head(&address, Some("a")).await;
    assert!(refused[0].contains("429"), "{refused:?}");
    let after = refused.iter().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
    assert!(after.parse::<u64>().unwrap() > 0, "{refused:?}");
    assert!(head(&address, Some("b")).await[0].contains("200"), "another key");
    let free = head(&address, None).await;
    assert!(free[0].contains("200") && !free.iter().any(|line| line.starts_with("ratelimit")));
}

#[tokio::test]
async fn an_http_server_without_limits_answers_as_its_limiter_says() {
    let nowhere = format!("127.0.0.1:{}", free_port());
    let connection = Options::new([nowhere]).retries(RetryBudget::NONE).lazy().unwrap();
    let limiter = connection.limiter("api");
    for (limiter, expected) in [
        (limiter.clone(), "503"),
        (limiter.clone().fail_open(), "200"),
        (limiter.fail_closed(), "429"),
    ] {
        let app = Router::new().route("/", get(|| async { "ok" }));
        let address = serve(app.layer(RateLayer::http(limiter, key))).await;
        let answer = head(&address, Some("a")).await;
        assert!(answer[0].contains(expected), "{answer:?}");
    }
}

#[tokio::test]
async fn a_grpc_server_answers_with_retry_info() {
    let server = Server::start().await;
    let limiter = server.connection().await.limiter("api");
    let fake = Fake::new(|_, _| {
        let verdict = pb::RateVerdict::Allow.into();
        Ok(pb::CheckRateResponse { verdict, allowed: true, ..Default::default() })
    });
    let layer = RateLayer::grpc(limiter, |request: &RequestParts<'_>| {
        Some(format!("method:{}", request.uri.path()))
    });
    let address = serve(fake.router().layer(layer)).await;
    let connection = Options::new([address]).retries(RetryBudget::NONE).open().await.unwrap();
    let protected = connection.limiter("any");
    for _ in 0..2 {
        assert!(protected.check("k").await.unwrap().allowed);
    }
    let error = protected.check("k").await.unwrap_err();
    assert_eq!(error.code, "RESOURCE_EXHAUSTED");
    assert!(error.retry_after.unwrap() > std::time::Duration::ZERO);
    assert_eq!(fake.attempts(), 2);
}
