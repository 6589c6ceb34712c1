//! H28: peers that send nothing or almost nothing, and peers that vanish.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{
    bystander::Bystander,
    memory::{BUDGET, peak_of, resident, settles},
};
use crate::support::{
    certificates::{Authority, TlsServer},
    process::{Server, TempFile},
};

/// Number of connections of the attacker.
const CONNECTIONS: usize = 250;
/// Keepalive needs 40 s to detect that a peer has vanished.
const PATIENCE: Duration = Duration::from_secs(90);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The start of a TLS handshake: the first bytes of a ClientHello in a record of 512 bytes.
const HELLO: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];

async fn connect(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).await.unwrap()
}

async fn bystander(server: &Server) -> Bystander {
    Bystander::start(&server.address()).await
}

/// Reads until the server closes the connection.
async fn closed(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    let closed = async { while let Ok(1..) = stream.read(&mut buffer).await {} };
    timeout(PATIENCE, closed).await.expect("the server closes the connection");
}

/// Opens connections that send `bytes` and then nothing; all must be closed.
async fn silent(name: &str, server: &Server, bystander: Bystander, bytes: &[u8]) {
    let idle = resident(server);
    let attack = async {
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut stream = connect(server.port).await;
            stream.write_all(bytes).await.unwrap();
            open.push(stream);
        }
        for stream in &mut open {
            closed(stream).await;
        }
    };
    let (most, ()) = peak_of(server, attack).await;
    let above = most.saturating_sub(idle);
    eprintln!("attack {name}: {CONNECTIONS} connections, {} KiB above idle", above >> 10);
    assert!(above < BUDGET, "{name}: {above} bytes above idle");
    bystander.finish().await;
    settles(server, idle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h28_silent_connections_are_closed() {
    let file = TempFile::new("[limits]\npreface_timeout = \"2s\"\n");
    for (name, bytes) in [("silence", &b""[..]), ("half a preface", &PREFACE[..9])] {
        let server = Server::start(&["--config", file.path()]).await;
        silent(name, &server, bystander(&server).await, bytes).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h28_silent_connections_are_closed_with_tls() {
    let ours = Authority::new("ours");
    let limits = "[limits]\nhandshake_timeout = \"2s\"";
    for (name, bytes) in [("silence, TLS", &b""[..]), ("half a handshake, TLS", HELLO)] {
        let server = TlsServer::start(&ours.server(), limits).await;
        let bystander = Bystander::start_tls(&server.url(), &ours.pem()).await;
        silent(name, &server.server, bystander, bytes).await;
    }
}

/// The server pings a silent peer, which does not answer.
#[tokio::test(flavor = "multi_thread")]
async fn h28_connections_of_peers_that_vanished_are_closed() {
    let attack = async |name, bytes: &[u8]| {
        let server = Server::start(&[]).await;
        silent(name, &server, bystander(&server).await, bytes).await;
    };
    let whole_and_half = [PREFACE, &[0, 0, 8, 6]].concat();
    tokio::join!(attack("half-open", PREFACE), attack("half a frame", &whole_and_half));
}

/// The preface must be complete in time, however often a byte arrives.
#[tokio::test(flavor = "multi_thread")]
async fn h28_a_slow_preface_is_cut_off() {
    let file = TempFile::new("[limits]\npreface_timeout = \"1s\"\n");
    let server = Server::start(&["--config", file.path()]).await;
    let bystander = Bystander::start(&server.address()).await;
    let mut stream = connect(server.port).await;
    let send = async {
        for byte in PREFACE.iter().cycle() {
            if stream.write_all(&[*byte]).await.is_err() {
                return;
            }
            // A byte in 200 ms is slower than the timeout permits.
            sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(PATIENCE, send).await.expect("the server closes the connection");
    bystander.finish().await;
}

/// A peer may vanish behind a live proxy: only its missing answers to PING show it.
#[tokio::test(flavor = "multi_thread")]
async fn h28_a_peer_that_answers_no_ping_is_closed() {
    const PING: u8 = 6;
    const ACK: u8 = 1;
    let server = Server::start(&[]).await;
    let mut peer = connect(server.port).await;
    peer.write_all(PREFACE).await.unwrap();
    let mut pings = 0;
    let until_closed = async {
        let mut head = [0; 9];
        while peer.read_exact(&mut head).await.is_ok() {
            let length = usize::from(head[1]) << 8 | usize::from(head[2]);
            let mut payload = vec![0; length];
            peer.read_exact(&mut payload).await.unwrap();
            pings += usize::from(head[3] == PING && head[4] & ACK == 0);
            if head[3] == PING && pings == 1 {
                // Answers the first PING only.
                let answer = [&[0, 0, 8, PING, ACK, 0, 0, 0, 0], &payload[..]].concat();
                peer.write_all(&answer).await.unwrap();
            }
        }
    };
    timeout(2 * PATIENCE, until_closed).await.expect("the connection was not closed");
    assert_eq!(pings, 2);
}
