//! H3: limits on the connections and streams of one peer address.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use super::wire::{DATA, Frame, HEADERS, Wire, headers, reset};
use crate::support::{
    farm::eventually,
    process::{Server, TempFile},
    world::{Client, admit},
};

const ADMIT: &str = "/tollgate.v1.AdmissionService/AdmitTask";
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn h3_connections_and_streams_of_a_peer_are_bounded() {
    let file = TempFile::new("[limits]\npeer_connections = 2\npeer_streams = 32\n");
    let server = Server::start(&["--config", file.path()]).await;
    let mut wire = Wire::connect(server.port, &[]).await;
    let mut open = Vec::new();
    // Eight streams are free; the limit counts the 32 others.
    for _ in 0..40 {
        let stream = wire.open();
        wire.send(&headers(stream, ADMIT, &[("grpc-timeout", "30S")])).await;
        open.push(stream);
    }
    let refused = wire.call(ADMIT, &admit("p", "last", "t")).await;
    let answer = wire.until(|frame| frame.stream == refused && frame.kind <= HEADERS).await;
    assert!(
        answer.kind == HEADERS && answer.ends(),
        "the answer is not a trailers-only error: {answer:?}"
    );
    // Another connection has eight free streams as well.
    let mut other = Client::connect(server.address()).await.unwrap();
    other.admit_task(admit("p2", "d", "t")).await.unwrap();

    // A third connection is closed.
    let mut third = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let _ = third.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    let read = timeout(PATIENCE, third.read(&mut [0; 9])).await.unwrap();
    assert!(!matches!(read, Ok(1..)), "{read:?}");

    for stream in open {
        wire.send(&reset(stream)).await;
    }
    // A stream counts until its task in the server has ended.
    let mut refusals = 0;
    loop {
        let stream = wire.call(ADMIT, &admit("p", "last", "t")).await;
        let is_answer = |frame: &Frame| frame.kind == DATA || frame.ends();
        let answer = wire.until(|frame| frame.stream == stream && is_answer(frame)).await;
        if answer.kind == DATA {
            break;
        }
        refusals += 1;
        assert!(refusals < 100, "{answer:?}");
        sleep(Duration::from_millis(20)).await;
    }
    drop(other);
    eventually("a new connection is accepted", async || {
        let Ok(mut client) = Client::connect(server.address()).await else { return false };
        client.admit_task(admit("p2", "d3", "t")).await.is_ok()
    })
    .await;
}
