//! Cost of waiting: the time until a released lock belongs to the next waiter, and the memory
//! of waiting calls. Runs on both engines, with its own server and Redis.
//!
//! `cargo bench --bench waiting [-- calls]`

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a benchmark ends at its first failure"
)]

mod process;

use std::{env, time::Duration};

use hdrhistogram::Histogram;
use process::serve;
use tokio::task::JoinSet;
use tollgate_client::pb::{self, lock_service_client::LockServiceClient};
use tollgate_core::time::monotonic;
use tonic::{Request, transport::Channel};

type Locks = LockServiceClient<Channel>;

const REDIS: u16 = 21987;
const ROUNDS: usize = 5000;
/// Calls on one connection, below the server's limit.
const STREAMS: usize = 250;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let calls = env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(10_000);
    let _redis = process::redis(REDIS);
    for engine in ["embedded", &format!("redis://127.0.0.1:{REDIS}")] {
        println!("{engine}");
        hand_over(engine).await;
        memory(engine, calls).await;
    }
}

async fn connect(url: &str) -> Locks {
    let mut locks = Locks::connect(url.to_owned()).await.unwrap();
    while locks.get_lock(pb::GetLockRequest { name: "up".into() }).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    locks
}

fn acquire(name: &str, owner: String, wait: u64) -> Request<pb::AcquireLockRequest> {
    let mut request = Request::new(pb::AcquireLockRequest {
        name: name.into(),
        owner,
        lease_duration: Some(prost_types::Duration { seconds: 600, nanos: 0 }),
        max_wait: Some(prost_types::Duration { seconds: wait as i64, nanos: 0 }),
    });
    request.set_timeout(Duration::from_secs(wait + 10));
    request
}

fn release(name: &str, owner: String) -> pb::ReleaseLockRequest {
    pb::ReleaseLockRequest { name: name.into(), owner, fencing_token: None }
}

/// Measures the time from just before a release is sent until the next waiter has its lease, on two
/// servers.
async fn hand_over(engine: &str) {
    let one = serve(["--engine", engine]);
    let other = if engine == "embedded" { None } else { Some(serve(["--engine", engine])) };
    let releases = connect(&one.1).await;
    let waits = connect(other.as_ref().map_or(&one.1, |(_, url)| url)).await;
    let first = releases.clone().acquire_lock(acquire("l", "o0".into(), 0)).await.unwrap();
    assert!(first.get_ref().lease.is_some(), "{first:?}");
    let mut took = Histogram::<u64>::new(3).unwrap();
    for round in 0..ROUNDS {
        let mut waiter = waits.clone();
        let owner = format!("o{}", round + 1);
        let next = tokio::spawn(async move {
            let answer = waiter.acquire_lock(acquire("l", owner, 60)).await.unwrap();
            assert!(answer.get_ref().lease.is_some(), "{answer:?}");
            monotonic()
        });
        let waiting = pb::GetLockRequest { name: "l".into() };
        while releases.clone().get_lock(waiting.clone()).await.unwrap().get_ref().waiters == 0 {
            tokio::task::yield_now().await;
        }
        let start = monotonic();
        let released = releases.clone().release_lock(release("l", format!("o{round}"))).await;
        assert_eq!(released.unwrap().get_ref().outcome(), pb::ReleaseLockOutcome::Released);
        took.record((next.await.unwrap() - start).as_micros() as u64).unwrap();
    }
    let at = |quantile| took.value_at_quantile(quantile) as f64 / 1000.0;
    println!(
        "  hand-over of {ROUNDS}: p50 {:.2} ms, p99 {:.2} ms, longest {:.2} ms",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

/// Measures the memory of waiting calls: all for one lock, and one call for each lock.
async fn memory(engine: &str, calls: usize) {
    for own in [false, true] {
        let (server, url) = serve(["--engine", engine]);
        let locks = connect(&url).await;
        let name = |call: usize| if own { format!("m{call}") } else { "m".to_owned() };
        for call in 0..if own { calls } else { 1 } {
            let held = acquire(&name(call), "holder".into(), 0);
            locks.clone().acquire_lock(held).await.unwrap();
        }
        let before = server.resident();
        let mut waits = JoinSet::new();
        for connection in 0..calls.div_ceil(STREAMS) {
            let theirs = connect(&url).await;
            let numbers = connection * STREAMS..calls.min((connection + 1) * STREAMS);
            let last = pb::GetLockRequest { name: name(numbers.end - 1) };
            let all = if own { 1 } else { numbers.end as u32 };
            for call in numbers {
                let (mut locks, name) = (theirs.clone(), name(call));
                waits.spawn(async move {
                    locks.acquire_lock(acquire(&name, format!("o{call}"), 60)).await.unwrap();
                });
            }
            // Stays below the calls that a server accepts at a time.
            while locks.clone().get_lock(last.clone()).await.unwrap().get_ref().waiters < all {
                if let Some(early) = waits.try_join_next() {
                    panic!("a call does not wait: {early:?}");
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let after = server.resident();
        println!(
            "  {calls} calls wait {}: {} MB, {} MB before them",
            if own { "for a lock each" } else { "for one lock" },
            after / 1024,
            before / 1024
        );
    }
}
