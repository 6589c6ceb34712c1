//! J15: the attacks of `docs/limits.md` on a server with the default limits, which must stay within
//! 256 MiB while it answers a well-behaved caller.

use std::time::Duration;

use prost::Message;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    task::JoinSet,
    time::{sleep, timeout},
};
use tollgate_client::pb;
use tollgate_core::time::monotonic;

use super::{
    bystander::Bystander,
    memory::{peak_of, resident},
    wire::{CONTINUATION, DATA, HEADERS, SETTINGS, data, frame, framed, headers},
};
use crate::support::{
    process::{MANY_CONNECTIONS, Server},
    world::admit,
};

/// The container that the defaults suit, and a quarter more for a debug build, whose futures are larger.
const CONTAINER: usize = if cfg!(debug_assertions) { 320 << 20 } else { 256 << 20 };
/// The connections that one peer address may have.
const CONNECTIONS: usize = 12_288;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const ADMIT: &str = "/tollgate.v1.AdmissionService/AdmitTask";
const FOREVER: (&str, &str) = ("grpc-timeout", "99999999S");
/// Time in which the server must have dealt with an attack.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the preface and empty SETTINGS.
fn opening() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// Returns a literal header with a long value, without indexing.
fn literal(name: &str, value: &[u8]) -> Vec<u8> {
    let mut field = vec![0, name.len() as u8];
    field.extend(name.as_bytes());
    field.push(127);
    // A length in HPACK: 7 bits are full, the rest follows in groups of 7 bits.
    let mut rest = value.len() - 127;
    while rest >= 128 {
        field.push((rest % 128 + 128) as u8);
        rest /= 128;
    }
    field.push(rest as u8);
    field.extend(value);
    field
}

/// HEADERS of a call with 15 KB of headers.
fn large_headers(stream: u32) -> Vec<u8> {
    let mut call = headers(stream, ADMIT, &[FOREVER]);
    call.extend(literal("x-large", &vec![b'x'; 15_000]));
    let length = (call.len() as u32 - 9).to_be_bytes();
    call[..3].copy_from_slice(&length[1..]);
    call
}

/// Sends these bytes on each of many connections, which stay open until the result is dropped.
/// Ignores connections that the server has closed or does not read.
async fn flood(server: &Server, connections: usize, bytes: Vec<u8>) -> Vec<TcpStream> {
    let (port, bytes) = (server.port, std::sync::Arc::new(bytes));
    let mut senders = JoinSet::new();
    for sender in 0..32 {
        let bytes = bytes.clone();
        senders.spawn(async move {
            let mut open = Vec::new();
            for _ in (sender..connections).step_by(32) {
                let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else {
                    continue;
                };
                let _ = timeout(Duration::from_millis(500), stream.write_all(&bytes)).await;
                open.push(stream);
            }
            open
        });
    }
    senders.join_all().await.into_iter().flatten().collect()
}

/// Runs an attack on a server with the default limits. Its memory must stay below [`CONTAINER`]
/// and every call of another caller must be answered.
async fn attack(name: &str, connections: usize, bytes: Vec<u8>) {
    let _alone = MANY_CONNECTIONS.lock().await;
    let server = Server::start(&[]).await;
    let bystander = Bystander::start(&server.address()).await;
    let run = async {
        let open = flood(&server, connections, [opening(), bytes].concat()).await;
        // The server has dealt with it when its memory has stopped growing.
        let (end, mut most, mut same) = (monotonic() + PATIENCE, 0, 0);
        while same < 10 {
            let now = resident(&server);
            same = if now > most + most / 200 { 0 } else { same + 1 };
            most = most.max(now);
            assert!(monotonic() < end, "{name}: the memory does not stop growing");
            sleep(Duration::from_millis(50)).await;
        }
        open.len()
    };
    let (peak, open) = peak_of(&server, run).await;
    eprintln!("attack {name}: {open} connections, {} MiB", peak >> 20);
    bystander.finish().await;
    server.client().await.admit_task(admit("after", "d", "t")).await.unwrap();
    assert!(peak < CONTAINER, "{name}: {} MiB", peak >> 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn j15_unfinished_header_blocks_of_one_address_fit_into_the_container() {
    // The length of the value says that more bytes follow.
    let mut block = literal("x-large", &vec![b'x'; 15_000]);
    block.extend(&literal("x-more", &vec![b'x'; 70_000])[..1_000]);
    attack("of unfinished header blocks", CONNECTIONS, frame(HEADERS, 0, 1, &block)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j15_one_endless_header_of_each_connection_fits_into_the_container() {
    let field = literal("x-large", &vec![b'x'; 200_000]);
    let mut parts = field.chunks(16_384);
    let mut bytes = frame(HEADERS, 0, 1, parts.next().unwrap());
    parts.take(5).for_each(|part| bytes.extend(frame(CONTINUATION, 0, 1, part)));
    attack("of endless headers", CONNECTIONS, bytes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j15_unfinished_frames_of_one_address_fit_into_the_container() {
    let whole = frame(DATA, 0, 1, &[0; 16_384]);
    let bytes = [headers(1, ADMIT, &[FOREVER]), whole[..16_384].to_vec()].concat();
    attack("of unfinished frames", CONNECTIONS, bytes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j15_full_header_tables_of_one_address_fit_into_the_container() {
    // Each field has a new name and is added to the table.
    let field = |number: u32| [&[0x40, 4][..], format!("{number:04}").as_bytes(), &[0]].concat();
    let mut call = headers(1, ADMIT, &[]);
    (0..110).for_each(|number| call.extend(field(number)));
    let length = (call.len() as u32 - 9).to_be_bytes();
    call[..3].copy_from_slice(&length[1..]);
    let bytes = [call, data(1, &framed(&admit("p", "d", "t")), true)].concat();
    attack("of full header tables", CONNECTIONS, bytes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j15_headers_of_calls_that_wait_fit_into_the_container() {
    let request = pb::AdmitTaskRequest {
        max_wait: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
        ..admit("busy", "d", "t")
    };
    assert!(request.encoded_len() < 1_000);
    let calls = (0..250).flat_map(|call| {
        let stream = 2 * call + 1;
        let request = pb::AdmitTaskRequest { task_id: format!("t{call}"), ..request.clone() };
        [large_headers(stream), data(stream, &framed(&request), true)].concat()
    });
    attack("of waiting calls", 192, calls.collect()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j15_headers_of_unfinished_calls_fit_into_the_container() {
    let calls = (0..250).flat_map(|call| large_headers(2 * call + 1));
    attack("of unfinished calls", 192, calls.collect()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j15_connections_without_calls_fit_into_the_container() {
    attack("of idle connections", CONNECTIONS, Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j15_short_calls_on_all_streams_of_a_peer_fit_into_the_container() {
    let calls = (0..8).flat_map(|call| headers(2 * call + 1, ADMIT, &[FOREVER]));
    attack("of open streams", CONNECTIONS, calls.collect()).await;
}
