//! Peers without TLS on a TLS port, peers with TLS on a port without it, and peers that stall.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::support::{
    certificates::{Authority, Files, TlsServer},
    world::{Client, admit},
};

const PATIENCE: Duration = Duration::from_secs(60);
/// The first bytes of a TLS client.
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

/// Sends bytes. Returns all bytes that the server sends until it closes the connection.
async fn answer(port: u16, sent: &[u8]) -> String {
    let mut peer = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    peer.write_all(sent).await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, peer.read_to_end(&mut answer)).await.expect("closed").unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plaintext_peer_on_a_tls_port_gets_a_text_and_one_log_line() {
    let ours = Authority::new("ours");
    let server = TlsServer::start(&ours.server(), "").await;
    let port = server.server.port;
    for _ in 0..10 {
        let text = answer(port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text}");
        assert!(text.contains("HTTP/2 with TLS"), "{text}");
        let text = answer(port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
        assert!(text.ends_with("requires TLS: use https"), "{text}");
    }
    let line = "a peer does not use TLS on a port that requires it";
    server.files.logged(line, 1).await;
    // Twenty peers cause only a few lines, since lines are at least ten seconds apart.
    assert!(server.files.log().matches(line).count() < 10, "{}", server.files.log());
    // A gRPC client fails immediately.
    let mut client = Client::connect(format!("http://127.0.0.1:{port}")).await.unwrap();
    client.admit_task(admit("p", "d", "t")).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tls_peer_on_a_plaintext_port_is_logged() {
    let ours = Authority::new("ours");
    let server = Files::new(&ours.server()).serve(&[]).await;
    answer(server.server.port, CLIENT_HELLO).await;
    server.files.logged("a peer uses TLS on a port without TLS", 1).await;
    server.client(&ours.pem(), None).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_peers_and_half_handshakes_are_closed_and_counted() {
    let ours = Authority::new("ours");
    let server = TlsServer::start(&ours.server(), "[limits]\nhandshake_timeout = \"1s\"").await;
    let mut client = server.client(&ours.pem(), None).await.unwrap();
    let mut peers = Vec::new();
    for sent in [&b""[..], &CLIENT_HELLO[..3], CLIENT_HELLO] {
        let mut peer = TcpStream::connect(("127.0.0.1", server.server.port)).await.unwrap();
        peer.write_all(sent).await.unwrap();
        peers.push(peer);
    }
    for peer in &mut peers {
        let closed = timeout(PATIENCE, peer.read_to_end(&mut Vec::new())).await;
        closed.expect("a peer without a handshake is closed").ok();
        client.admit_task(admit("p", "d", "t")).await.unwrap();
    }
    server.files.logged("handshake_time=", 1).await;
}

/// After the TLS handshake, HTTP/1.1 and silent peers are treated as without TLS.
#[tokio::test(flavor = "multi_thread")]
async fn http1_over_tls_gets_a_text_and_silence_is_closed() {
    let ours = Authority::new("ours");
    let server = TlsServer::start(&ours.server(), "[limits]\npreface_timeout = \"1s\"").await;
    let mut peer = server.raw(&ours.pem(), &[]).await.unwrap();
    peer.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut text = String::new();
    timeout(PATIENCE, peer.read_to_string(&mut text)).await.expect("closed").unwrap();
    assert!(text.contains("Tollgate speaks gRPC over HTTP/2 with TLS"), "{text}");

    for sent in [&b""[..], b"PRI * HT"] {
        let mut peer = server.raw(&ours.pem(), &[b"h2"]).await.unwrap();
        peer.write_all(sent).await.unwrap();
        let closed = timeout(PATIENCE, peer.read_to_end(&mut Vec::new())).await;
        closed.expect("a peer without a preface is closed").ok();
    }
    server.files.logged("preface_time=", 1).await;
    // The server does not support the protocol that ALPN offers.
    server.raw(&ours.pem(), &[b"http/1.1"]).await.unwrap_err();
}

/// The limits on HTTP/2 frames also apply within TLS.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_resets_its_streams_over_tls_is_slowed_down() {
    let ours = Authority::new("ours");
    let server = TlsServer::start(&ours.server(), "[limits]\nresets_per_second = 1").await;
    let mut client = server.client(&ours.pem(), None).await.unwrap();
    let mut peer = server.raw(&ours.pem(), &[b"h2"]).await.unwrap();
    let mut frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in (1..200u32).step_by(2).map(u32::to_be_bytes) {
        // HEADERS of a POST, then RST_STREAM with the code CANCEL.
        frames.extend([&b"\0\0\x03\x01\x04"[..], &stream, b"\x83\x86\x84"].concat());
        frames.extend([&b"\0\0\x04\x03\0"[..], &stream, b"\0\0\0\x08"].concat());
    }
    peer.write_all(&frames).await.unwrap();
    peer.flush().await.unwrap();
    client.admit_task(admit("p", "d", "t")).await.unwrap();
    server.files.logged("resets=", 1).await;
}
