//! Cost of queued tasks: memory and time for a million of them, and the time of a device's
//! report beside them. Runs on both engines, with its own server and Redis.
//!
//! `cargo bench --bench queued [-- tasks]`

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a benchmark ends at its first failure"
)]

mod process;

use std::{env, time::Duration};

use process::{Process, serve};
use tollgate_client::pb::{self, admission_service_client::AdmissionServiceClient};
use tollgate_core::time::monotonic;
use tonic::transport::Channel;

type Client = AdmissionServiceClient<Channel>;

const REDIS: u16 = 21988;
const BATCH: usize = 1000;
/// Bytes of a payload.
const PAYLOAD: usize = 64;
const REPORTS: usize = 20_000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let tasks = env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(1_000_000);
    let redis = process::redis(REDIS);
    measure("embedded", None, tasks).await;
    measure(&format!("redis://127.0.0.1:{REDIS}"), Some(&redis), tasks).await;
}

async fn measure(engine: &str, store: Option<&Process>, tasks: usize) {
    println!("{engine}");
    let (server, url) = serve(["--engine", engine]);
    let mut client = Client::connect(url).await.unwrap();
    let full =
        pb::ConfigurePoolRequest { pool: "full".into(), capacity: Some(1), ..Default::default() };
    while client.configure_pool(full.clone()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client.admit_task(admit("full", 0, "the one that runs")).await.unwrap();
    for (what, pool, task) in [("full", "full", "t"), ("no task, none queued", "p", "")] {
        reports(&client, what, pool, task).await;
    }
    let holder = store.unwrap_or(&server);
    let before = holder.resident();
    let start = monotonic();
    for batch in (0..tasks).step_by(BATCH) {
        let queued = (batch..tasks.min(batch + BATCH)).map(|number| pb::QueuedTask {
            device_id: device(number),
            task_id: format!("task-{number:011}"),
            payload: vec![b'x'; PAYLOAD].into(),
            expire_time: None,
        });
        let request = pb::EnqueueTasksRequest { pool: "p".into(), tasks: queued.collect() };
        client.enqueue_tasks(request).await.unwrap();
    }
    let took = start.elapsed().as_secs_f64();
    let bytes = (holder.resident() - before) * 1024 / tasks as u64;
    println!(
        "  {tasks} tasks with {PAYLOAD} bytes each, one a device: {bytes} bytes a task, queued \
         in {took:.1} s, {:.0} a second",
        tasks as f64 / took
    );
    reports(&client, "no task, beside all these", "p", "").await;
    let drained = monotonic();
    for number in 0..REPORTS {
        let request = pb::AdmitTaskRequest { device_id: device(number), ..admit("p", 0, "") };
        let dispatched = client.admit_task(request).await.unwrap().into_inner().lease.unwrap();
        let complete = pb::CompleteTaskRequest {
            pool: "p".into(),
            device_id: dispatched.device_id,
            task_id: dispatched.task_id,
            ..Default::default()
        };
        client.complete_task(complete).await.unwrap();
    }
    let each = drained.elapsed().as_secs_f64() * 1e6 / REPORTS as f64;
    println!("  dispatched and completed, one after the other: {each:.0} µs for both");
}

/// Measures the time of an AdmitTask that gets no lease, one call after the other.
async fn reports(client: &Client, what: &str, pool: &str, task: &str) {
    let mut client = client.clone();
    let start = monotonic();
    for number in 0..REPORTS {
        let answer = client.admit_task(admit(pool, number, task)).await.unwrap();
        assert!(answer.get_ref().lease.is_none(), "{answer:?}");
    }
    let each = start.elapsed().as_secs_f64() * 1e6 / REPORTS as f64;
    println!("  {what}: {each:.1} µs a call, one after the other");
}

fn device(number: usize) -> String {
    format!("device-{number:09}")
}

fn admit(pool: &str, number: usize, task: &str) -> pb::AdmitTaskRequest {
    pb::AdmitTaskRequest {
        pool: pool.into(),
        device_id: format!("nobody-{number:09}"),
        task_id: task.into(),
        ..Default::default()
    }
}
