//! H13: streams that are reset right after they open, by unlucky and by hostile callers.

use std::time::Duration;

use tokio::time::sleep;
use tollgate_client::pb;
use tollgate_core::time::monotonic;

use super::{
    bystander::Bystander,
    memory::{BUDGET, resident, settles},
    wire::{DATA, Wire, data, framed, headers, reset},
};
use crate::support::{
    farm::eventually,
    process::Server,
    world::{admit, capacity, complete},
};

const ADMIT: &str = "/tollgate.v1.AdmissionService/AdmitTask";
const WATCH: &str = "/tollgate.v1.AdmissionService/WatchPool";

/// Frames of calls that are each sent and cancelled immediately.
fn cancelled(wire: &mut Wire, calls: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..calls {
        let stream = wire.open();
        let message = framed(&admit("burst", &format!("d{stream}"), "t"));
        bytes.extend(headers(stream, ADMIT, &[("grpc-timeout", "5m")]));
        bytes.extend(data(stream, &message, true));
        bytes.extend(reset(stream));
    }
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn h13_a_burst_of_cancelled_calls_leaves_the_connection_alive() {
    let server = Server::start(&[]).await;
    let mut client = server.client().await;
    client.configure_pool(capacity("p", 1)).await.unwrap();
    client.admit_task(admit("p", "first", "t")).await.unwrap();
    let bystander = Bystander::start(&server.address()).await;

    // The connection of the burst also has a watch, and a call that waits for the only slot.
    let mut wire = Wire::connect(server.port, &[]).await;
    let request = pb::WatchPoolRequest { pool: "p".into(), ..Default::default() };
    let watch = wire.call(WATCH, &request).await;
    let max_wait = Some(prost_types::Duration { seconds: 30, nanos: 0 });
    let second = pb::AdmitTaskRequest { max_wait, ..admit("p", "second", "t") };
    let waiter = wire.open();
    let call =
        [headers(waiter, ADMIT, &[("grpc-timeout", "30S")]), data(waiter, &framed(&second), true)];
    wire.send(&call.concat()).await;
    sleep(Duration::from_millis(50)).await;

    let burst = cancelled(&mut wire, 5_000);
    wire.send(&burst).await;
    client.complete_task(complete("p", "first", "t")).await.unwrap();
    let answers = [wire.until(|frame| frame.kind == DATA && frame.stream == waiter).await];
    assert!(answers[0].payload.len() > 5, "the waiting call got no answer");
    wire.call(ADMIT, &admit("p2", "after", "t")).await;
    client.complete_task(complete("p", "second", "t")).await.unwrap();
    let told = |frame: &super::wire::Frame| {
        frame.kind == DATA
            && frame.stream == watch
            && frame.payload.windows(6).any(|part| part == b"second")
    };
    wire.until(told).await;
    let after = wire.call(ADMIT, &admit("p2", "after that", "t")).await;
    wire.until(|frame| frame.kind == DATA && frame.stream == after).await;
    bystander.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h13_a_rapid_reset_attack_is_bounded() {
    let server = Server::start(&[]).await;
    let bystander = Bystander::start(&server.address()).await;
    let idle = resident(&server);
    let mut wire = Wire::connect(server.port, &[]).await;
    let end = monotonic() + Duration::from_secs(4);
    let mut peak = 0;
    let mut sent = 0;
    while monotonic() < end {
        // Each stream is opened and reset in about 40 bytes.
        let mut bytes = Vec::new();
        for _ in 0..1_000 {
            let stream = wire.open();
            bytes.extend(headers(stream, "/", &[]));
            bytes.extend(reset(stream));
        }
        tokio::select! {
            () = wire.send(&bytes) => sent += 1_000,
            () = sleep(Duration::from_secs(1)) => {}
        }
        peak = peak.max(resident(&server));
    }
    eprintln!("{sent} resets sent, {} MiB above idle", peak.saturating_sub(idle) >> 20);
    assert!(peak < idle + BUDGET, "{} bytes above idle", peak - idle);
    bystander.finish().await;
    drop(wire);
    settles(&server, idle).await;
    eventually("the server answers", async || {
        server.client().await.admit_task(admit("after", "d", "t")).await.is_ok()
    })
    .await;
}
