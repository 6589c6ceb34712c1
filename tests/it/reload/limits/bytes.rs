//! Limits on the bytes of requests and answers.

use bytes::Bytes;
use prost::Message;
use tollgate_client::pb;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::Limited;
use crate::{
    hostile::{
        messages::{Begun, ENQUEUE, MIB, Peer, field, framed},
        wire::{DATA, Wire, data, headers, window},
    },
    support::{
        farm::eventually,
        queue::{batch, queued},
    },
};

const LIST: &str = "/tollgate.v1.AdmissionService/ListTasks";
const FOREVER: &str = "99999999S";
/// The identifier of SETTINGS_INITIAL_WINDOW_SIZE.
const WINDOW: u16 = 4;

/// Returns a message of 3 MiB, which the limits permit and EnqueueTasks refuses as invalid.
fn large() -> Bytes {
    framed(false, &field(15, &vec![0; 3 * MIB], 1))
}

/// Begins a large request. It holds its bytes until it is finished.
async fn hold(peer: &Peer) -> Begun {
    let mut begun = peer.begin(ENQUEUE, "identity", FOREVER).await;
    begun.body.send_data(large().slice(..5), false).unwrap();
    // The server reads a connection in order: it has read the beginning when it answers this call.
    let status = peer.call_within(ENQUEUE, "identity", framed(false, &[]), "60S").await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    begun
}

fn is_reason(status: &Status, reason: &str) -> bool {
    status.get_error_details().error_info().is_some_and(|info| info.reason == reason)
}

/// Whether a further large request is accepted.
async fn is_taken(peer: &Peer) -> bool {
    let status = peer.call_within(ENQUEUE, "identity", large(), "60S").await;
    assert!(
        status.code() == Code::InvalidArgument || is_reason(&status, "TOO_MANY_REQUEST_BYTES"),
        "{status:?}"
    );
    status.code() == Code::InvalidArgument
}

/// Returns the peer at this address; each address has its own quota.
async fn peer(limited: &Limited, host: u8) -> Peer {
    Peer::at([127, 0, 0, host], &limited.reloads.server.server).await
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_follow_a_reloaded_request_bytes() {
    let limits = |bytes| format!("message_timeout = \"10m\"\nrequest_bytes = \"{bytes}MiB\"");
    let limited = Limited::start(&limits(8)).await;
    let last = peer(&limited, 9).await;
    let mut held = Vec::new();
    for host in 2..4 {
        // The connection ends with its peer.
        let peer = peer(&limited, host).await;
        held.push((hold(&peer).await, peer));
    }
    eventually("8 MiB are full", async || !is_taken(&last).await).await;
    limited.set(&limits(16)).await;
    assert!(is_taken(&last).await);
    for host in 4..7 {
        let peer = peer(&limited, host).await;
        held.push((hold(&peer).await, peer));
    }
    eventually("16 MiB are full", async || !is_taken(&last).await).await;

    // 15 MiB are in use. Their calls end normally; a further one is accepted with at most 5 in use.
    limited.set(&limits(8)).await;
    assert!(!is_taken(&last).await);
    while held.len() > 1 {
        let (begun, _peer) = held.pop().unwrap();
        let status = begun.finish(large().slice(5..)).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(held.len() < 2 || !is_taken(&last).await, "{} MiB in use", 3 * held.len());
    }
    eventually("a request is taken", async || is_taken(&last).await).await;
    limited.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_connections_follow_connection_request_bytes() {
    let limits =
        |bytes| format!("message_timeout = \"10m\"\nconnection_request_bytes = \"{bytes}MiB\"");
    let limited = Limited::start(&limits(8)).await;
    // Large requests may use three quarters of the bytes; a further one waits.
    let takes_third = async |peer: &Peer| {
        let _held = [hold(peer).await, hold(peer).await];
        let status = peer.call_within(ENQUEUE, "identity", large(), "1S").await;
        status.code() == Code::InvalidArgument
    };
    let before = peer(&limited, 2).await;
    assert!(!takes_third(&before).await);
    limited.set(&limits(16)).await;
    assert!(!takes_third(&before).await, "a connection keeps the limit of its start");
    let raised = peer(&limited, 2).await;
    assert!(takes_third(&raised).await);
    limited.set(&limits(8)).await;
    assert!(!takes_third(&peer(&limited, 2).await).await);
    assert!(takes_third(&raised).await, "a connection keeps the limit of its start");
    limited.finish().await;
}

fn list() -> Vec<u8> {
    let request =
        pb::ListTasksRequest { pool: "q".into(), page_size: Some(1_000), ..Default::default() };
    request.encode_to_vec()
}

/// Queues 1,000 tasks with long names: a page of them has about half a megabyte.
async fn fill(limited: &Limited) {
    let tasks = (0..1_000).map(|task| queued(&format!("{:200}", "d"), &format!("{task:0200}")));
    let mut client = limited.reloads.world.client.clone();
    client.enqueue_tasks(batch("q", tasks.collect())).await.unwrap();
}

/// Asks for listings whose answers are not read.
async fn untaken(wire: &mut Wire, number: usize) {
    for _ in 0..number {
        ask(wire, FOREVER).await;
    }
}

async fn ask(wire: &mut Wire, deadline: &str) -> u32 {
    let stream = wire.open();
    let message = framed(false, &list());
    let call = [headers(stream, LIST, &[("grpc-timeout", deadline)]), data(stream, &message, true)];
    wire.send(&call.concat()).await;
    stream
}

/// Returns a connection that accepts no answer.
async fn closed(limited: &Limited, host: u8) -> Wire {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, host], 0).into()).unwrap();
    let stream = socket.connect(([127, 0, 0, 1], limited.port()).into()).await.unwrap();
    Wire::over(stream, &[(WINDOW, 0)]).await
}

/// Whether a further listing is answered.
async fn is_answered(peer: &Peer) -> bool {
    let status = peer.call_within(LIST, "identity", framed(false, &list()), "500m").await;
    assert!(status.code() == Code::Ok || is_reason(&status, "ANSWERS_NOT_TAKEN"), "{status:?}");
    status.code() == Code::Ok
}

/// A listing of the server counts as 2 MiB of its answers.
#[tokio::test(flavor = "multi_thread")]
async fn answers_follow_a_reloaded_answer_bytes() {
    let limits = |bytes| format!("answer_timeout = \"10m\"\nanswer_bytes = \"{bytes}MiB\"");
    let limited = Limited::start(&limits(8)).await;
    fill(&limited).await;
    let last = peer(&limited, 9).await;
    let mut wires = vec![closed(&limited, 2).await];
    untaken(&mut wires[0], 4).await;
    eventually("8 MiB are full", async || !is_answered(&last).await).await;
    limited.set(&limits(16)).await;
    assert!(is_answered(&last).await);
    wires.push(closed(&limited, 3).await);
    untaken(&mut wires[1], 4).await;
    eventually("16 MiB are full", async || !is_answered(&last).await).await;

    // A higher limit also serves a call that waits.
    let waiting = tokio::spawn({
        let last = last.clone();
        async move { last.call(LIST, "identity", framed(false, &list())).await }
    });
    limited.set(&limits(20)).await;
    assert_eq!(waiting.await.unwrap().code(), Code::Ok);

    // Eight listings are in use: they stay, and a further one is answered with three in use.
    limited.set(&limits(8)).await;
    assert!(!is_answered(&last).await);
    assert!(wires.iter_mut().all(|wire| !wire.has_ended()));
    wires.pop();
    assert!(!is_answered(&last).await);
    wires.pop();
    eventually("a listing is answered", async || is_answered(&last).await).await;
    limited.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_connections_follow_connection_answer_bytes() {
    let limits =
        |bytes| format!("answer_timeout = \"10m\"\nconnection_answer_bytes = \"{bytes}MiB\"");
    let limited = Limited::start(&limits(8)).await;
    fill(&limited).await;
    // Listings may use half of the bytes, one MiB each.
    let answers_fifth = async |wire: &mut Wire| {
        let fifth = ask(wire, "1S").await;
        wire.send(&window(fifth, 1 << 20)).await;
        let answer = wire.until(|it| it.stream == fifth && (it.kind == DATA || it.ends())).await;
        answer.kind == DATA
    };
    let mut before = closed(&limited, 2).await;
    untaken(&mut before, 4).await;
    assert!(!answers_fifth(&mut before).await);
    limited.set(&limits(16)).await;
    assert!(!answers_fifth(&mut before).await, "a connection keeps the limit of its start");
    let mut raised = closed(&limited, 2).await;
    untaken(&mut raised, 4).await;
    assert!(answers_fifth(&mut raised).await);
    limited.set(&limits(8)).await;
    let mut lowered = closed(&limited, 2).await;
    untaken(&mut lowered, 4).await;
    assert!(!answers_fifth(&mut lowered).await);
    assert!(answers_fifth(&mut raised).await, "a connection keeps the limit of its start");
    limited.finish().await;
}
