//! H3: answers that the client does not read.

use std::time::Duration;

use prost::Message;
use tokio::time::{sleep, timeout};
use tollgate_client::pb;

use super::{
    bystander::Bystander,
    memory::{BUDGET, peak_of, resident, settles},
    wire::{DATA, Wire, data, framed, headers},
};
use crate::support::{
    process::{Server, TempFile},
    queue::{batch, queued},
    world::{Client, admit},
};

const LIST: &str = "/tollgate.v1.AdmissionService/ListTasks";
const WATCH: &str = "/tollgate.v1.AdmissionService/WatchPool";
/// The identifier of SETTINGS_INITIAL_WINDOW_SIZE.
const WINDOW: u16 = 4;

fn list() -> pb::ListTasksRequest {
    pb::ListTasksRequest { pool: "p".into(), page_size: Some(1_000), ..Default::default() }
}

/// Queues 1,000 tasks with long names. Returns the size of a page with all of them, about half a
/// megabyte.
async fn fill(client: &mut Client) -> usize {
    let tasks = (0..1_000).map(|task| queued(&format!("{:200}", "d"), &format!("{task:0200}")));
    client.enqueue_tasks(batch("p", tasks.collect())).await.unwrap();
    client.list_tasks(list()).await.unwrap().into_inner().encoded_len()
}

/// Requests 400 pages on streams with this initial window, and reads none of them. The server must
/// bound its memory and end every stream.
async fn attack(window: u32) {
    let file = TempFile::new("[limits]\nanswer_timeout = \"2s\"\n");
    let server = Server::start(&["--config", file.path()]).await;
    let mut client = server.client().await;
    let page = fill(&mut client).await;
    assert!(page > 300_000, "{page} bytes");
    let bystander = Bystander::start(&server.address()).await;
    // A watcher of a pool without events is not late: its stream stays open.
    let mut watcher = Wire::connect(server.port, &[]).await;
    let request = pb::WatchPoolRequest { pool: "quiet".into(), ..Default::default() };
    let watch = watcher.call(WATCH, &request).await;
    let idle = resident(&server);

    let mut wire = Wire::connect(server.port, &[(WINDOW, window)]).await;
    let mut streams = Vec::new();
    for _ in 0..400 {
        let stream = wire.open();
        let call = [
            headers(stream, LIST, &[("grpc-timeout", "30S")]),
            data(stream, &framed(&list()), true),
        ];
        wire.send(&call.concat()).await;
        streams.push(stream);
    }
    let (most, last) = peak_of(&server, wire.ended(streams)).await;
    assert_eq!(last.len(), 400);
    eprintln!("{} MiB above idle, pages of {page} bytes", most.saturating_sub(idle) >> 20);
    assert!(most < idle + BUDGET, "{} bytes above idle", most.saturating_sub(idle));
    // The attacker is still connected, and answers PING.
    settles(&server, idle).await;
    bystander.finish().await;

    client.admit_task(admit("quiet", "d", "t")).await.unwrap();
    watcher.until(|frame| frame.kind == DATA && frame.stream == watch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h3_unread_answers_are_bounded_and_end() {
    attack(0).await;
}

/// With a window of one byte the server starts to send each answer.
#[tokio::test(flavor = "multi_thread")]
async fn h3_answers_read_one_byte_at_a_time_are_bounded_and_end() {
    attack(1).await;
}

/// A client that does not read its socket.
#[tokio::test(flavor = "multi_thread")]
async fn h3_a_client_that_reads_nothing_is_bounded() {
    let server = Server::start(&[]).await;
    let page = fill(&mut server.client().await).await;
    let bystander = Bystander::start(&server.address()).await;
    let idle = resident(&server);
    let mut wire = Wire::connect(server.port, &[(WINDOW, (1 << 31) - 1)]).await;
    wire.stop_reading();
    let send = async {
        for _ in 0..2_000 {
            let stream = wire.open();
            let call = [
                headers(stream, LIST, &[("grpc-timeout", "30S")]),
                data(stream, &framed(&list()), true),
            ];
            wire.send(&call.concat()).await;
        }
        sleep(Duration::from_secs(3)).await;
    };
    // The server may stop reading before all calls are sent.
    let (most, _) = peak_of(&server, timeout(Duration::from_secs(3), send)).await;
    eprintln!("{} MiB above idle, pages of {page} bytes", most.saturating_sub(idle) >> 20);
    assert!(most < idle + BUDGET, "{} bytes above idle", most.saturating_sub(idle));
    bystander.finish().await;
    drop(wire);
    settles(&server, idle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h3_listings_of_one_connection_are_answered_one_at_a_time() {
    let server = Server::start(&[]).await;
    let mut client = server.client().await;
    let page = fill(&mut client).await;
    let mut calls = Vec::new();
    for _ in 0..64 {
        let mut client = client.clone();
        calls.push(tokio::spawn(async move {
            let mut request = tonic::Request::new(list());
            request.set_timeout(Duration::from_secs(30));
            client.list_tasks(request).await
        }));
    }
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().into_inner().encoded_len(), page);
    }
}
