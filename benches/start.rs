//! Start time of a server with a data directory of a million live entries, after a kill.
//!
//! `cargo bench --bench start [-- --leases N] [-- --pools N]`
//!
//! One process fills a directory with leases, and is killed once all of them are stored. Three
//! further processes open it in sequence. The measured time is that of opening the directory:
//! reading and checking the file, building the state, and the first write.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "benchmarks")]
#![allow(missing_docs, reason = "benchmarks")]

use std::{
    path::{Path, PathBuf},
    process::{Command, abort},
    time::Duration,
};

use bytes::Bytes;
use tollgate::server::allocator::{self, Allocator};
use tollgate_core::{
    admission::{AdmitDecision, AdmitTask, GetPool, Settings},
    names::Name,
    time::{Clock, Millis, monotonic},
};
use tollgate_engine::{
    Engine,
    embedded::{Disk, Durability, Embedded},
};

// The same allocator as the server.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Returns the value after a flag.
fn flag(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn number(name: &str, default: usize) -> usize {
    flag(name).map_or(default, |text| text.parse().expect("a number"))
}

fn name(text: &str) -> Name {
    Name::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

fn settings() -> Settings {
    Settings {
        capacity: 1_000_000,
        lease_duration: Millis::from_secs(86_400),
        ..Settings::default()
    }
}

fn open(folder: &Path) -> Engine {
    let disk = Disk::directory(folder).unwrap();
    Engine::Embedded(Embedded::open(Clock::system(), disk, Durability::Interval).unwrap())
}

/// Grants leases, and aborts the process once all of them are stored.
async fn fill(folder: &Path, leases: usize, pools: usize) {
    let (engine, settings) = (open(folder), settings());
    for lease in 0..leases {
        let pool = name(&format!("ar:{:04}", lease % pools));
        let device = name(&format!("device-{:06}", lease / pools));
        let (task, lease_duration) = (Some(name(&format!("task-{lease}"))), None);
        let admit = AdmitTask { pool, device, task, lease_duration, settings, waiting: None };
        let answer = engine.store(&admit, monotonic() + Duration::from_secs(60)).await.unwrap();
        assert!(matches!(answer.decision, AdmitDecision::Admitted { replayed: false, .. }));
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    abort();
}

async fn start(folder: &Path, leases: usize, pools: usize) {
    let before = monotonic();
    let engine = open(folder);
    let took = before.elapsed();
    let mut found = 0;
    for pool in 0..pools {
        let view = GetPool { pool: name(&format!("ar:{pool:04}")), settings: settings() };
        let view = engine.store(&view, monotonic() + Duration::from_secs(60)).await.unwrap();
        found += view.usage.in_use as usize;
    }
    assert_eq!(found, leases, "every lease is there");
    let bytes = std::fs::metadata(folder.join("tollgate.redb")).unwrap().len();
    println!(
        "{leases} leases in {pools} pools, {} MB: started in {} ms",
        bytes >> 20,
        took.as_millis()
    );
    // Ends like a kill, for the next process.
    abort();
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    allocator::purge_apart();
    let (leases, pools) = (number("--leases", 1_000_000), number("--pools", 1_000));
    let folder = flag("--folder").map(PathBuf::from);
    match (flag("--step").as_deref(), folder) {
        (Some("fill"), Some(folder)) => fill(&folder, leases, pools).await,
        (Some("start"), Some(folder)) => start(&folder, leases, pools).await,
        _ => {
            let folder =
                std::env::temp_dir().join(format!("tollgate-start-{}", std::process::id()));
            for step in ["fill", "start", "start", "start"] {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["--step", step, "--folder"]).arg(&folder);
                command.args(["--leases", &leases.to_string(), "--pools", &pools.to_string()]);
                command.status().unwrap();
            }
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
}
