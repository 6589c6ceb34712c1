//! H16, H19: calls that are not gRPC, peers that do not speak HTTP/2, unknown RPCs.

use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tollgate_client::pb;
use tonic::codegen::http::{HeaderMap, Method, Request};

use super::bystander::Bystander;
use crate::support::{
    process::Server,
    world::{Client, admit},
};

const PATIENCE: Duration = Duration::from_secs(20);
const ADMIT: &str = "/tollgate.v1.AdmissionService/AdmitTask";
/// One path for each route: our handlers, tonic's handlers, health, reflection, unknown service.
const PATHS: [&str; 6] = [
    ADMIT,
    "/tollgate.v1.AdmissionService/WatchPool",
    "/tollgate.v1.RateService/CheckRate",
    "/grpc.health.v1.Health/Check",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/nothing.v1.Nothing/Here",
];

type Headers<'a> = &'a [(&'static str, &'static str)];

/// A connection that sends arbitrary headers.
struct Peer(SendRequest<Bytes>, u16);

/// The answer to a call: `headers` include the trailers.
#[derive(Debug)]
struct Answer {
    http: u16,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    /// Returns a header or trailer; empty if it is missing.
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Peer {
    async fn connect(server: &Server) -> Peer {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Peer(send, server.port)
    }

    /// Sends an AdmitTask to a path with these headers.
    async fn call(&self, method: Method, path: &str, headers: Headers<'_>) -> Answer {
        let uri = format!("http://127.0.0.1:{}{path}", self.1);
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let message = admit("strict", "device", "task").encode_to_vec();
        let message = [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat();
        let mut send = self.0.clone().ready().await.unwrap();
        let (answer, mut body) = send.send_request(request.body(()).unwrap(), false).unwrap();
        // A server that has already answered may not accept the message.
        let _ = body.send_data(message.into(), true);
        let (head, mut body) = timeout(PATIENCE, answer).await.unwrap().unwrap().into_parts();
        let mut text = Vec::new();
        while let Some(Ok(data)) = body.data().await {
            text.extend_from_slice(&data);
        }
        let mut headers = head.headers;
        if let Ok(Some(trailers)) = body.trailers().await {
            headers.extend(trailers);
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        Answer { http: head.status.as_u16(), headers, text }
    }
}

async fn in_use(client: &mut Client) -> u32 {
    let answer = client.get_pool(pb::GetPoolRequest { pool: "strict".to_owned() }).await;
    answer.unwrap().into_inner().pool.unwrap().usage.unwrap().in_use
}

#[tokio::test(flavor = "multi_thread")]
async fn h16_only_grpc_is_executed() {
    let server = Server::start(&[]).await;
    let bystander = Bystander::start(&server.address()).await;
    let (peer, mut client) = (Peer::connect(&server).await, server.client().await);
    let wrong: [Headers; 8] = [
        &[],
        &[("content-type", "")],
        &[("content-type", "text/plain")],
        &[("content-type", "application/json")],
        &[("content-type", "application/grpc+json")],
        &[("content-type", "application/grpc-web")],
        &[("content-type", "application/grpc-web+proto")],
        &[("content-type", "application/grpc-web-text"), ("grpc-encoding", "identity")],
    ];
    for path in PATHS {
        for headers in wrong {
            let answer = peer.call(Method::POST, path, headers).await;
            assert_eq!(answer.http, 415, "{path} {headers:?}: {answer:?}");
            assert_eq!(answer.header("grpc-status"), "3");
            assert!(answer.text.contains("Tollgate speaks gRPC"), "{answer:?}");
        }
        for method in [Method::GET, Method::PUT, Method::OPTIONS, Method::DELETE] {
            let grpc: Headers = &[("content-type", "application/grpc")];
            for headers in [grpc, &[]] {
                let answer = peer.call(method.clone(), path, headers).await;
                assert_eq!((answer.http, answer.header("allow")), (405, "POST"), "{answer:?}");
            }
        }
        for timeout in ["abc", "", "S", "10", "-1S", "123456789S", "1.5S", "5x", "1S "] {
            let headers = [("content-type", "application/grpc"), ("grpc-timeout", timeout)];
            // HTTP strips spaces around a header's value, so such a value cannot be sent.
            if timeout.trim() == timeout {
                let answer = peer.call(Method::POST, path, &headers).await;
                assert_eq!((answer.http, answer.header("grpc-status")), (200, "3"), "{answer:?}");
                assert!(answer.header("grpc-message").contains("grpc-timeout"), "{answer:?}");
            }
        }
    }
    assert_eq!(in_use(&mut client).await, 0);

    for content_type in ["application/grpc", "application/grpc+proto", "application/grpc;v=1"] {
        let headers = [("content-type", content_type), ("grpc-timeout", "5S")];
        let answer = peer.call(Method::POST, ADMIT, &headers).await;
        assert_eq!((answer.http, answer.header("grpc-status")), (200, "0"), "{answer:?}");
        let health = peer.call(Method::POST, PATHS[3], &headers[..1]).await;
        assert_eq!(health.http, 200);
    }
    assert_eq!(in_use(&mut client).await, 1);
    bystander.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h16_a_peer_without_http2_gets_a_text_that_names_the_protocol() {
    let server = Server::start(&[]).await;
    let bystander = Bystander::start(&server.address()).await;
    let client_hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    let large =
        [b"POST /x HTTP/1.1\r\ncontent-length: 16384\r\n\r\n", &[b'x'; 16_384][..]].concat();
    for hello in [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], b"P", b"hello\n", client_hello, &large]
    {
        let mut peer = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        peer.write_all(hello).await.unwrap();
        if hello == b"P" {
            // One byte may still become an HTTP/2 preface: the server does not answer yet.
            continue;
        }
        let mut answer = String::new();
        timeout(PATIENCE, peer.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
        assert!(answer.contains("\r\n\r\nTollgate speaks gRPC over HTTP/2"), "{answer}");
        assert!(answer.ends_with(".\n"), "{answer}");
    }

    // A preface that arrives byte by byte is accepted.
    let mut peer = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    peer.set_nodelay(true).unwrap();
    for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0" {
        peer.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut settings = [0; 9];
    timeout(PATIENCE, peer.read_exact(&mut settings)).await.unwrap().unwrap();
    assert_eq!(settings[3], 4, "{settings:?}");

    // A silent connection does not delay the shutdown of the server.
    let mut server = server;
    let _mute = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    bystander.finish().await;
    drop(peer);
    server.process.signal("-TERM");
    assert_eq!(server.process.end(PATIENCE).await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn h19_an_unknown_rpc_is_named() {
    let server = Server::start(&[]).await;
    let bystander = Bystander::start(&server.address()).await;
    let peer = Peer::connect(&server).await;
    let headers: Headers = &[("content-type", "application/grpc")];
    for path in [
        "/tollgate.v1.AdmissionService/Admit",
        "/tollgate.v1.LockService/",
        "/tollgate.v1.Unknown/AdmitTask",
        "/grpc.health.v1.Health/Chek",
        "/grpc.reflection.v1.ServerReflection/Info",
        "/nothing",
        "/",
    ] {
        let answer = peer.call(Method::POST, path, headers).await;
        assert_eq!((answer.http, answer.header("grpc-status")), (200, "12"), "{answer:?}");
        let status = tonic::Status::from_header_map(&answer.headers).unwrap();
        assert!(status.message().contains(&format!("no rpc `{path}`")), "{status:?}");
        let details = tonic_types::StatusExt::get_error_details(&status);
        assert_eq!(details.error_info().unwrap().reason, "RPC_UNKNOWN");
    }
    bystander.finish().await;
}
