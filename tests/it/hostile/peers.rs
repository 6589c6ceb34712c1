//! H3: limits on the connections, streams and held bytes of one peer address.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};
use tollgate_client::pb;
use tollgate_core::time::monotonic;
use tonic::Code;
use tonic_types::StatusExt;

use super::{
    bystander::Bystander,
    messages::{ENQUEUE, MIB, Peer, field, framed as framed_bytes},
    wire::{DATA, Frame, HEADERS, Wire, data, framed, headers, reset},
};
use crate::support::{
    farm::eventually,
    process::{Server, TempFile},
    queue::{batch, queued},
    world::{Client, admit},
};

const ADMIT: &str = "/tollgate.v1.AdmissionService/AdmitTask";
const LIST: &str = "/tollgate.v1.AdmissionService/ListTasks";
const PATIENCE: Duration = Duration::from_secs(60);

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
    // A second connection also has eight free streams.
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

/// Returns a message of 3 MiB, which the limits permit and EnqueueTasks refuses as invalid.
fn large() -> Bytes {
    framed_bytes(false, &field(15, &vec![0; 3 * MIB], 1))
}

fn list() -> pb::ListTasksRequest {
    pb::ListTasksRequest { pool: "p".into(), page_size: Some(1_000), ..Default::default() }
}

/// Starts a large request that never becomes complete, and a listing whose answer is not read.
async fn hold(wire: &mut Wire) {
    let length = (3 * MIB as u32 - 5).to_be_bytes();
    let (request, listing) = (wire.open(), wire.open());
    let forever = [("grpc-timeout", "99999999S")];
    let calls = [
        headers(request, ENQUEUE, &forever),
        data(request, &[&[0][..], &length].concat(), false),
        headers(listing, LIST, &forever),
        data(listing, &framed(&list()), true),
    ];
    wire.send(&calls.concat()).await;
}

/// Whether a large request and a listing of a peer are both refused at the limits on bytes.
async fn are_refused(peer: &Peer) -> bool {
    let request = peer.call(ENQUEUE, "identity", large()).await;
    let list = framed_bytes(false, &list().encode_to_vec());
    let listing = peer.call_within(LIST, "identity", list, "200m").await;
    [(request, "TOO_MANY_REQUEST_BYTES"), (listing, "ANSWERS_NOT_TAKEN")].iter().all(
        |(status, reason)| {
            status.get_error_details().error_info().is_some_and(|info| info.reason == *reason)
        },
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn h3_a_peer_with_many_connections_leaves_capacity_to_others() {
    let file = TempFile::new("[limits]\nmessage_timeout = \"600s\"\nanswer_timeout = \"600s\"\n");
    let server = Server::start(&["--config", file.path()]).await;
    let tasks = (0..1_000).map(|task| queued(&format!("{:200}", "d"), &format!("{task:0200}")));
    server.client().await.enqueue_tasks(batch("p", tasks.collect())).await.unwrap();
    let bystander = Bystander::start(&server.address()).await;

    let mut attackers = Vec::new();
    for _ in 0..16 {
        // SETTINGS_INITIAL_WINDOW_SIZE 0: the client accepts no answer.
        attackers.push(Wire::connect(server.port, &[(4, 0)]).await);
    }
    let same = Peer::connect(&server).await;
    let begin = monotonic();
    // The bytes that `are_refused` itself uses are free for the attackers afterwards.
    loop {
        for wire in &mut attackers {
            hold(wire).await;
        }
        if are_refused(&same).await {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "the peer does not use its whole limit");
    }

    let other = Peer::at([127, 0, 0, 2], &server).await;
    let request = other.call(ENQUEUE, "identity", large()).await;
    assert_eq!(request.code(), Code::InvalidArgument, "{request:?}");
    assert!(request.message().contains("tasks must be 1 to 1000 tasks"), "{request:?}");
    let list = framed_bytes(false, &list().encode_to_vec());
    let listing = other.call(LIST, "identity", list).await;
    assert_eq!(listing.code(), Code::Ok, "{listing:?}");
    eventually("the peer still uses it", async || are_refused(&same).await).await;
    bystander.finish().await;
}
