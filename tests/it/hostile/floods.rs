//! H27: floods of HTTP/2 frames that cost the sender little. Each runs with and without TLS, beside
//! a well-behaved caller.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tollgate_core::time::monotonic;

use super::{
    bystander::Bystander,
    memory::{BUDGET, peak_of, resident, settles},
    wire::{CONTINUATION, DATA, HEADERS, PING, PRIORITY, SETTINGS, Wire, frame, headers, window},
};
use crate::support::{
    certificates::{Authority, TlsServer},
    process::Server,
    world::admit,
};

const ADMIT: &str = "/tollgate.v1.AdmissionService/AdmitTask";
/// Duration of an attack. If the server closes a connection, the attack continues on a new one.
const LASTS: Duration = Duration::from_secs(2);
/// Time in which the server must close a connection that violates the protocol.
const PATIENCE: Duration = Duration::from_secs(30);
/// Number of frames in a burst.
const BURST: usize = 1_000;
/// The identifier of SETTINGS_INITIAL_WINDOW_SIZE.
const INITIAL_WINDOW: u16 = 4;
const WINDOW_MAX: u32 = (1 << 31) - 1;

/// What is expected to happen to the attacker's connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The server closes it.
    Closed,
    /// It may stay open: its cost is bounded.
    Bounded,
}

/// Sends bursts until the connection is closed, or for [`LASTS`]. Returns the number of bytes sent.
async fn flood(wire: &mut Wire, end: End, burst: &mut impl FnMut(&mut Wire) -> Vec<u8>) -> usize {
    let lasts = if end == End::Closed { PATIENCE } else { LASTS };
    let begin = monotonic();
    let mut sent = 0;
    while begin.elapsed() < lasts && !wire.is_closed() {
        let bytes = burst(wire);
        // The server has stopped reading.
        if timeout(Duration::from_secs(1), wire.send(&bytes)).await.is_err() {
            break;
        }
        sent += bytes.len();
        // Lets the task that reads for `wire` run.
        tokio::task::yield_now().await;
    }
    sent
}

/// Attacks a server without and with TLS.
async fn attack(name: &str, end: End, mut burst: impl FnMut(&mut Wire) -> Vec<u8>) {
    let plain = Server::start(&[]).await;
    let connect = async || Wire::connect(plain.port, &[]).await;
    let bystander = Bystander::start(&plain.address()).await;
    run(&format!("{name}, plain"), &plain, connect, bystander, end, &mut burst).await;
    plain.client().await.admit_task(admit("after", "d", "t")).await.unwrap();

    let authority = Authority::new("ours");
    let tls = TlsServer::start(&authority.server(), "").await;
    let connect =
        async || Wire::over(tls.raw(&authority.pem(), &[b"h2"]).await.unwrap(), &[]).await;
    let bystander = Bystander::start_tls(&tls.url(), &authority.pem()).await;
    run(&format!("{name}, TLS"), &tls.server, connect, bystander, end, &mut burst).await;
    let mut client = tls.client(&authority.pem(), None).await.unwrap();
    client.admit_task(admit("after", "d", "t")).await.unwrap();
}

/// Waits until the server has closed the connection.
async fn closed(name: &str, wire: &mut Wire) {
    let begin = monotonic();
    while !wire.is_closed() {
        assert!(begin.elapsed() < PATIENCE, "{name}: the connection stays open");
        sleep(Duration::from_millis(10)).await;
    }
}

async fn run(
    name: &str,
    server: &Server,
    connect: impl AsyncFn() -> Wire,
    bystander: Bystander,
    end: End,
    burst: &mut impl FnMut(&mut Wire) -> Vec<u8>,
) {
    let idle = resident(server);
    let attack = async {
        let (begin, mut sent) = (monotonic(), 0);
        while begin.elapsed() < LASTS {
            let mut wire = connect().await;
            sent += flood(&mut wire, end, burst).await;
            if end == End::Closed {
                closed(name, &mut wire).await;
            }
        }
        sent
    };
    let (most, sent) = peak_of(server, attack).await;
    let above = most.saturating_sub(idle);
    assert!(above < BUDGET, "{name}: {above} bytes above idle");
    eprintln!("attack {name}: {sent} bytes sent, {} KiB above idle", above >> 10);
    bystander.finish().await;
    settles(server, idle).await;
}

/// HEADERS of the first stream, without END_HEADERS. Empty if the connection has sent them.
fn open_headers(wire: &mut Wire) -> Vec<u8> {
    if wire.opened() > 0 {
        return Vec::new();
    }
    let mut bytes = headers(wire.open(), ADMIT, &[]);
    bytes[4] = 0;
    bytes
}

/// Returns a header field without compression.
fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    assert!(name.len() < 127 && value.len() < 127);
    [&[0, name.len() as u8], name, &[value.len() as u8], value].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn h27_a_flood_of_continuation_frames_ends_the_connection() {
    let small = field(b"x-a", b"b");
    for (name, payload) in [("CONTINUATION", small), ("empty CONTINUATION", Vec::new())] {
        let more = frame(CONTINUATION, 0, 1, &payload).repeat(BURST);
        attack(name, End::Closed, |wire| [open_headers(wire), more.clone()].concat()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h27_endless_headers_end_the_connection() {
    let large = field(b"x-large", &[b'x'; 100]).repeat(140);
    let more = frame(CONTINUATION, 0, 1, &large).repeat(64);
    attack("endless headers", End::Closed, |wire| [open_headers(wire), more.clone()].concat())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h27_floods_of_control_frames_are_bounded() {
    let ping = frame(PING, 0, 0, &[7; 8]).repeat(BURST);
    attack("PING", End::Bounded, |_| ping.clone()).await;
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255].repeat(16)).repeat(BURST);
    attack("SETTINGS", End::Bounded, |_| settings.clone()).await;
    let priority = frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 7]).repeat(BURST);
    attack("PRIORITY", End::Bounded, |_| priority.clone()).await;
    let unknown = frame(0xee, 0, 0, &[0; 64]).repeat(BURST);
    attack("frames of an unknown type", End::Bounded, |_| unknown.clone()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h27_a_flood_of_empty_data_frames_is_bounded() {
    attack("empty DATA", End::Bounded, |wire| {
        let stream = wire.open();
        let empty = frame(DATA, 0, stream, &[]).repeat(BURST);
        [headers(stream, ADMIT, &[("grpc-timeout", "1S")]), empty].concat()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h27_windows_that_overflow_end_the_connection() {
    attack("window overflow", End::Closed, |_| window(0, WINDOW_MAX).repeat(2)).await;
    attack("window of a stream overflows", End::Bounded, |wire| {
        let stream = wire.open();
        [headers(stream, ADMIT, &[]), window(stream, WINDOW_MAX).repeat(2)].concat()
    })
    .await;
    attack("window update of 0", End::Closed, |_| window(0, 0)).await;
}

/// Each change of the initial window applies to all open streams.
#[tokio::test(flavor = "multi_thread")]
async fn h27_windows_that_open_and_close_are_bounded() {
    attack("window opens and closes", End::Bounded, |wire| {
        let mut bytes = Vec::new();
        if wire.opened() < 200 {
            for _ in 0..200 {
                let stream = wire.open();
                bytes.extend(headers(stream, ADMIT, &[("grpc-timeout", "30S")]));
            }
        }
        for size in [0, 1, 1 << 20, WINDOW_MAX] {
            let id = INITIAL_WINDOW.to_be_bytes();
            let payload = [&id[..], &u32::to_be_bytes(size)].concat();
            bytes.extend(frame(SETTINGS, 0, 0, &payload).repeat(50));
        }
        bytes
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h27_ten_thousand_streams_are_bounded() {
    attack("10,000 streams", End::Bounded, |wire| {
        let mut bytes = Vec::new();
        for _ in 0..10_000 {
            let stream = wire.open();
            bytes.extend(headers(stream, ADMIT, &[("grpc-timeout", "30S")]));
        }
        bytes
    })
    .await;
}

/// A second HEADERS frame without END_STREAM on an open stream, which violates HTTP/2.
#[tokio::test(flavor = "multi_thread")]
async fn h27_trailers_without_an_end_are_bounded() {
    attack("trailers without an end", End::Bounded, |wire| {
        let stream = wire.open();
        let trailers = frame(HEADERS, 4, stream, &field(b"x-a", b"b"));
        [headers(stream, ADMIT, &[]), trailers.repeat(100)].concat()
    })
    .await;
}
