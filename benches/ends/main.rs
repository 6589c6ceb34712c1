//! Ends of leases, on every engine and durability, with its own servers and its own Redis. Measures
//! two delays:
//! - of EXPIRED events, when many leases end together and no calls arrive
//! - of waiting calls, when the leases before them end within milliseconds of each other
//!
//! `cargo bench --bench ends [-- --leases N] [--rounds N] [--program PATH]`; without PATH it
//! measures this build.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a benchmark ends at its first failure"
)]

mod crowd;
mod lapses;
#[allow(dead_code, reason = "other benchmarks use the rest")]
#[path = "../process/mod.rs"]
mod process;

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use process::{Process, serve_by};
use tollgate_client::pb::{self, admission_service_client::AdmissionServiceClient};
use tollgate_core::time::{Clock, monotonic};
use tonic::transport::Channel;

pub(crate) type Client = AdmissionServiceClient<Channel>;

const REDIS: u16 = 21_986;
const CONFIG: &str = "
[[pool]]
match = \"*\"
capacity = 1000000
history = 1000000
";

/// The store of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    Memory,
    Directory(&'static str),
    Redis,
}

impl Store {
    fn label(self) -> &'static str {
        match self {
            Store::Memory => "memory",
            Store::Directory(durability) => durability,
            Store::Redis => "Redis",
        }
    }
}

/// Servers of one store, with their clients, Redis and folder. Ends them when dropped.
pub(crate) struct Site {
    pub(crate) label: String,
    pub(crate) servers: Vec<Process>,
    pub(crate) clients: Vec<Client>,
    pub(crate) redis: Option<Process>,
    folder: PathBuf,
}

impl Site {
    async fn start(program: &Path, store: Store, servers: usize) -> Site {
        let folder = env::temp_dir().join(format!("tollgate-bench-ends-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let config = folder.join("tollgate.toml");
        fs::write(&config, CONFIG).unwrap();
        let mut arguments = vec!["--config".to_owned(), config.to_str().unwrap().to_owned()];
        let redis = (store == Store::Redis).then(|| process::redis(REDIS));
        match store {
            Store::Memory => {}
            Store::Directory(durability) => {
                let data = folder.join("data").to_str().unwrap().to_owned();
                arguments.extend(["--data-dir".into(), data]);
                arguments.extend(["--durability".into(), durability.into()]);
            }
            Store::Redis => {
                arguments.extend(["--engine".into(), format!("redis://127.0.0.1:{REDIS}")]);
            }
        }
        let label = match servers {
            1 => store.label().to_owned(),
            _ => format!("{}, {servers} servers", store.label()),
        };
        let mut site = Site { label, servers: Vec::new(), clients: Vec::new(), redis, folder };
        for _ in 0..servers {
            let (server, url) = serve_by(program, arguments.iter().map(String::as_str));
            let mut client = Client::connect(url).await.unwrap();
            while client.admit_task(admit("up", "d", "t", 100)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            site.servers.push(server);
            site.clients.push(client);
        }
        site
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn admit(pool: &str, device: &str, task: &str, lease_ms: u64) -> pb::AdmitTaskRequest {
    pb::AdmitTaskRequest {
        pool: pool.into(),
        device_id: device.into(),
        task_id: task.into(),
        lease_duration: Some(prost_types::Duration {
            seconds: (lease_ms / 1000) as i64,
            nanos: (lease_ms % 1000) as i32 * 1_000_000,
        }),
        ..Default::default()
    }
}

/// Returns the time of this machine in µs; the servers and Redis have the same clock.
pub(crate) fn now() -> u64 {
    Clock::system().now().0
}

pub(crate) fn micros(time: &prost_types::Timestamp) -> u64 {
    time.seconds as u64 * 1_000_000 + time.nanos as u64 / 1000
}

/// Returns the value of a flag.
fn flag(name: &str) -> Option<String> {
    env::args().skip_while(|argument| argument != name).nth(1)
}

fn number(name: &str, default: usize) -> usize {
    flag(name).map_or(default, |text| text.parse().expect("a number"))
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let program = flag("--program").map_or(env!("CARGO_BIN_EXE_tollgate").into(), PathBuf::from);
    let (leases, rounds) = (number("--leases", 60_000), number("--rounds", 30));
    let begin = monotonic();
    let stores =
        [Store::Memory, Store::Directory("interval"), Store::Directory("always"), Store::Redis];
    println!("{leases} leases of a pool end together, in ms after their end:");
    for store in stores.into_iter().filter(|_| leases > 0) {
        let site = Site::start(&program, store, 1).await;
        crowd::measure(&site, leases).await;
    }
    println!("20 calls wait, ten leases end within 10 ms, in ms from a slot's end to the grant:");
    for (store, servers) in stores.map(|store| (store, 1)).into_iter().chain([(Store::Redis, 2)]) {
        let site = Site::start(&program, store, servers).await;
        lapses::measure(&site, rounds).await;
    }
    println!("in {:.0} s", begin.elapsed().as_secs_f64());
}
