//! Cost of the console: the server's time for each page, and for open live pages, with many pools,
//! leases and queued tasks. Runs on both engines, with its own server and Redis.
//!
//! `cargo bench --bench console [-- --quick]`

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a benchmark ends at its first failure"
)]
#![allow(missing_docs, reason = "benchmarks")]

mod process;

use std::{fs, time::Duration};

use process::{Process, serve};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::sleep,
};
use tollgate_client::pb::{self, admission_service_client::AdmissionServiceClient};
use tollgate_core::time::monotonic;
use tonic::transport::Channel;

type Client = AdmissionServiceClient<Channel>;

const REDIS: u16 = 21_986;
const ADMIN: u16 = 21_987;
const POOLS: usize = 1_000;
const LEASES: usize = 100_000;
const TASKS: usize = 10_000;
const BATCH: usize = 1_000;
/// The pool with the tasks, and with a tenth of the leases.
const LARGE: &str = "ar:0000";
/// Loads of a page.
const LOADS: u32 = 40;
/// Open live pages.
const OPEN: usize = 200;
/// Changes a second while pages are open.
const CHANGES: u64 = 20;

/// The pages. All but the last show the same to everybody; `{}` is a pool of each reader.
const PAGES: [&str; 4] = ["/", "/pools", "/pool?name=ar%3A0000", "/pool?name=ar%3A{}"];

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let watch = Duration::from_secs(if is_quick { 5 } else { 30 });
    let redis = process::redis(REDIS);
    for engine in ["embedded".to_owned(), format!("redis://127.0.0.1:{REDIS}")] {
        println!("{engine}: {POOLS} pools, {LEASES} leases, {TASKS} queued tasks in one pool");
        let admin = format!("127.0.0.1:{ADMIN}");
        let (server, url) = serve(["--engine", &*engine, "--admin", &admin]);
        let mut client = fill(&url).await;
        for path in PAGES.map(|page| page.replace("{}", "0001")) {
            load(&server, &path).await;
        }
        let before = server.resident();
        let mut next = LEASES;
        for page in PAGES {
            open(&server, page, &mut client, &mut next, watch).await;
        }
        println!(
            "  resident: {} MB, before the live pages {} MB",
            server.resident() >> 10,
            before >> 10
        );
    }
    drop(redis);
}

/// Fills the server. Returns its client.
async fn fill(url: &str) -> Client {
    let mut client = Client::connect(url.to_owned()).await.unwrap();
    let large = pb::ConfigurePoolRequest {
        pool: LARGE.into(),
        capacity: Some(1_000_000),
        ..Default::default()
    };
    while client.configure_pool(large.clone()).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    for pool in 1..POOLS {
        let request = pb::ConfigurePoolRequest { pool: name(pool), ..large.clone() };
        client.configure_pool(request).await.unwrap();
    }
    for batch in (0..LEASES).step_by(BATCH) {
        let admit = |number: usize| {
            let pool = if number.is_multiple_of(10) { 0 } else { number % POOLS };
            admit(&name(pool), number)
        };
        let requests = (batch..batch + BATCH).map(admit).collect();
        let answer = client.admit_tasks(pb::AdmitTasksRequest { requests }).await.unwrap();
        assert_eq!(answer.into_inner().results.len(), BATCH);
    }
    for batch in (0..TASKS).step_by(BATCH) {
        let task = |number: usize| pb::QueuedTask {
            device_id: format!("device-{number:06}"),
            task_id: format!("queued-{number:06}"),
            ..Default::default()
        };
        let tasks = (batch..batch + BATCH).map(task).collect();
        let request = pb::EnqueueTasksRequest { pool: LARGE.into(), tasks };
        client.enqueue_tasks(request).await.unwrap();
    }
    client
}

fn name(pool: usize) -> String {
    format!("ar:{pool:04}")
}

fn admit(pool: &str, number: usize) -> pb::AdmitTaskRequest {
    pb::AdmitTaskRequest {
        pool: pool.into(),
        device_id: format!("camera-{number:06}"),
        task_id: format!("scan-{number:06}"),
        lease_duration: Some(prost_types::Duration { seconds: 86_400, nanos: 0 }),
        ..Default::default()
    }
}

/// Prints the time of a page.
async fn load(server: &Process, path: &str) {
    let (mut shortest, mut bytes) = (Duration::MAX, 0);
    get(path).await;
    let before = cpu(server.id());
    for _ in 0..LOADS {
        let start = monotonic();
        bytes = get(path).await;
        shortest = shortest.min(start.elapsed());
    }
    let each = (cpu(server.id()) - before) * 1e3 / f64::from(LOADS);
    println!(
        "  {path}: {} KB, {each:.1} ms of the server's CPU, {:.1} ms at best until it is read",
        bytes >> 10,
        shortest.as_secs_f64() * 1e3
    );
}

/// Opens live pages, and prints what they cost while the pools change.
async fn open(
    server: &Process,
    page: &str,
    client: &mut Client,
    next: &mut usize,
    watch: Duration,
) {
    let (resident, idle) = (server.resident(), usage(server, client, next, watch).await);
    let mut readers = Vec::new();
    for number in 0..OPEN {
        readers.push(stream(&page.replace("{}", &format!("{number:04}"))).await);
    }
    // The first rendering of each page is not of the live ones.
    sleep(Duration::from_secs(3)).await;
    let busy = usage(server, client, next, watch).await;
    let grown = server.resident().saturating_sub(resident);
    let mut events = 0;
    for reader in &readers {
        reader.abort();
    }
    for reader in readers {
        events += usize::from(reader.await.is_err());
    }
    assert_eq!(events, OPEN, "every stream was open to the end");
    println!(
        "  {OPEN} open {page}: {:.1} % of a core, {idle:.1} % without; {} KB of memory each",
        busy,
        grown / OPEN as u64
    );
    sleep(Duration::from_secs(2)).await;
}

/// Returns the server's share of a core in percent, while a lease is granted and completed now and
/// then. `next` is the number of the next task.
async fn usage(server: &Process, client: &mut Client, next: &mut usize, watch: Duration) -> f64 {
    let (before, start) = (cpu(server.id()), monotonic());
    while start.elapsed() < watch {
        let pool = name(*next % OPEN);
        let lease = client.admit_task(admit(&pool, *next)).await.unwrap().into_inner().lease;
        let lease = lease.expect("a free slot");
        let complete = pb::CompleteTaskRequest {
            pool,
            device_id: lease.device_id,
            task_id: lease.task_id,
            ..Default::default()
        };
        sleep(Duration::from_millis(1_000 / CHANGES)).await;
        client.complete_task(complete).await.unwrap();
        *next += 1;
    }
    (cpu(server.id()) - before) * 100.0 / start.elapsed().as_secs_f64()
}

async fn request(path: &str) -> TcpStream {
    let mut connection = TcpStream::connect(("127.0.0.1", ADMIN)).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    connection
}

/// Loads a page. Returns its bytes.
async fn get(path: &str) -> usize {
    let mut answer = Vec::new();
    request(path).await.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{path}: {}", String::from_utf8_lossy(&answer));
    answer.len()
}

/// Opens the stream of a page, and reads it until the end of the task.
async fn stream(page: &str) -> JoinHandle<()> {
    let mut connection = request(&format!("/live{page}")).await;
    let mut buffer = vec![0; 64 * 1024];
    let read = connection.read(&mut buffer).await.unwrap();
    assert!(buffer[..read].starts_with(b"HTTP/1.1 200"), "{page}");
    tokio::spawn(
        async move { while connection.read(&mut buffer).await.is_ok_and(|read| read > 0) {} },
    )
}

/// CPU time of a process, in seconds.
fn cpu(id: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}
