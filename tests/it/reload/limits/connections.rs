//! Limits on connections and streams.

use std::time::Duration;

use tokio::{net::TcpSocket, time::sleep};

use super::Limited;
use crate::{
    admin,
    hostile::wire::{DATA, Wire, headers, reset},
    support::{farm::eventually, process::free_port, requests::admit},
};

const ADMIT: &str = "/tollgate.v1.AdmissionService/AdmitTask";
/// The identifier of SETTINGS_MAX_CONCURRENT_STREAMS.
const STREAMS: u16 = 3;

/// Returns a connection from an address other than the bystander's.
async fn connect(port: u16) -> Wire {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 2], 0).into()).unwrap();
    Wire::over(socket.connect(([127, 0, 0, 1], port).into()).await.unwrap(), &[]).await
}

/// Does the same; `None` if the server closes it immediately.
async fn accepted(port: u16) -> Option<Wire> {
    let mut wire = connect(port).await;
    wire.first().await.map(|_| wire)
}

/// Whether a further call is decided, and not refused at a limit on streams.
async fn is_decided(wire: &mut Wire) -> bool {
    let name = format!("q{}", wire.opened());
    let stream = wire.call(ADMIT, &admit(&name, "d", "t")).await;
    let answer = wire.until(|it| it.stream == stream && (it.kind == DATA || it.ends())).await;
    answer.kind == DATA
}

/// Opens calls whose messages do not arrive.
async fn open(wire: &mut Wire, number: usize) -> Vec<u32> {
    let mut open = Vec::new();
    for _ in 0..number {
        let stream = wire.open();
        wire.send(&headers(stream, ADMIT, &[("grpc-timeout", "600S")])).await;
        open.push(stream);
    }
    open
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_a_peer_follow_peer_connections() {
    let limited = Limited::start("").await;
    let port = limited.port();
    limited.set("peer_connections = 2").await;
    let mut open = vec![accepted(port).await.unwrap(), accepted(port).await.unwrap()];
    assert!(accepted(port).await.is_none());
    limited.set("peer_connections = 3").await;
    open.push(accepted(port).await.unwrap());
    assert!(accepted(port).await.is_none());

    // The three connections stay, and further ones are refused until one is open.
    limited.set("peer_connections = 1").await;
    assert!(accepted(port).await.is_none());
    for wire in &mut open {
        assert!(is_decided(wire).await);
    }
    open.truncate(1);
    assert!(accepted(port).await.is_none());
    open.clear();
    eventually("a connection is accepted", async || {
        // Two connections at most are open for a moment.
        match accepted(port).await {
            None => false,
            Some(_first) => accepted(port).await.is_none(),
        }
    })
    .await;
    limited.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_a_peer_follow_peer_streams() {
    let limits = |streams| format!("message_timeout = \"10m\"\npeer_streams = {streams}");
    let limited = Limited::start(&limits(32)).await;
    let mut wire = connect(limited.port()).await;
    // Eight streams are free, and others count in blocks of 32.
    let mut streams = open(&mut wire, 40).await;
    assert!(!is_decided(&mut wire).await);
    limited.set(&limits(64)).await;
    streams.extend(open(&mut wire, 32).await);
    assert!(!is_decided(&mut wire).await);

    // The open calls stay; a second connection gets no block.
    limited.set(&limits(32)).await;
    let mut other = connect(limited.port()).await;
    open(&mut other, 8).await;
    assert!(!is_decided(&mut other).await);
    assert!(!wire.has_ended(), "an open call has ended");
    for stream in streams {
        wire.send(&reset(stream)).await;
    }
    eventually("the second connection gets a block", async || {
        let mut third = connect(limited.port()).await;
        open(&mut third, 8).await;
        is_decided(&mut third).await
    })
    .await;
    limited.finish().await;
}

/// Returns the limit that the server announces to a connection.
async fn announced(wire: &mut Wire) -> u32 {
    let settings = wire.first().await.unwrap().payload;
    let pair = settings.chunks(6).find(|pair| pair[..2] == STREAMS.to_be_bytes()).unwrap();
    u32::from_be_bytes(pair[2..].try_into().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn new_connections_follow_connection_streams() {
    let limited = Limited::start("connection_streams = 50").await;
    for streams in [70, 3] {
        limited.set(&format!("connection_streams = {streams}")).await;
        let mut wire = connect(limited.port()).await;
        assert_eq!(announced(&mut wire).await, streams);
        open(&mut wire, 3).await;
        // A client that ignores the announcement is refused.
        assert_eq!(is_decided(&mut wire).await, streams > 3);
    }
    limited.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_connections_follow_resets_per_second() {
    let admin = format!("127.0.0.1:{}", free_port());
    let limited = Limited::with("", &["--admin", &admin]).await;
    let port = admin.rsplit(':').next().unwrap().parse().unwrap();
    let slowed = async || {
        let (_, page) = admin::get(port, "/metrics", "").await;
        let line = page.lines().find(|it| it.contains("limits_reached_total{limit=\"resets\"}"));
        line.unwrap().rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    // Cancels 100 calls on a connection, then makes one.
    let cancel = async |wire: &mut Wire| {
        for stream in open(wire, 100).await {
            wire.send(&reset(stream)).await;
        }
        assert!(is_decided(wire).await);
    };
    let mut before = connect(limited.port()).await;
    cancel(&mut before).await;
    limited.set("resets_per_second = 1").await;
    cancel(&mut before).await;
    assert_eq!(slowed().await, 0.0, "a connection keeps the limit of its start");
    let mut wire = connect(limited.port()).await;
    let streams = open(&mut wire, 10).await;
    for stream in streams {
        wire.send(&reset(stream)).await;
    }
    eventually("the connection is read more slowly", async || slowed().await > 0.0).await;
    drop(wire);
    eventually("the slow connection is closed", async || {
        let times = slowed().await;
        sleep(Duration::from_millis(300)).await;
        slowed().await == times
    })
    .await;
    let times = slowed().await;
    limited.set("resets_per_second = 1000").await;
    cancel(&mut connect(limited.port()).await).await;
    assert_eq!(slowed().await, times);
    limited.finish().await;
}
