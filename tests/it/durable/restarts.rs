//! State of a server with a data directory that survives a restart.

use std::time::Duration;

use pb::{AdmitDecision, ConfirmOutcome, ReserveOutcome, TaskState};
use tollgate_client::pb;

use crate::support::{
    process::{Server, TempFile, TempFolder},
    queue::{batch, listing, queued},
    rates::{check, limit, rule, under},
    sequences::{named, next},
    stocks::{Shop, add, reserve},
    world::{Undated, World, admit, capacity},
};

pub const POLICIES: &str = r#"
[[policy]]
name = "reads"
[[policy.limit]]
max = 3
window = "1h"
[[policy.tier]]
above = 3
action = "BAN"
ban_durations = ["1h"]
"#;

pub async fn start(folder: &TempFolder, config: &TempFile, durability: &str) -> (Server, World) {
    let arguments =
        ["--data-dir", folder.text(), "--durability", durability, "--config", config.path()];
    let server = Server::start(&arguments).await;
    let world = World::at(server.address()).await;
    (server, world)
}

/// Ends a server by a signal, and waits for its end.
pub async fn end(mut server: Server, signal: &str) {
    server.process.signal(signal);
    server.process.end(Duration::from_secs(20)).await;
}

pub async fn serial(world: &World, request: pb::NextSequenceRequest) -> pb::NextSequenceResponse {
    world.sequences.clone().next_sequence(request).await.unwrap().into_inner()
}

/// Durability and signal: killed right after the last answer, or shut down within the interval.
const ENDS: [(&str, &str); 4] =
    [("always", "-KILL"), ("interval", "-KILL"), ("interval", "-TERM"), ("none", "-TERM")];

/// A killed process loses nothing that it answered, nor does the one after it.
#[tokio::test(flavor = "multi_thread")]
async fn j1_leases_tokens_results_tasks_and_events_are_kept() {
    for (durability, signal) in ENDS {
        let (folder, config) = (TempFolder::new(), TempFile::new(POLICIES));
        let (server, world) = start(&folder, &config, durability).await;
        world.configure(capacity("p", 2)).await;
        let first = world.admit("p", "camera-1", "a").await.lease.unwrap();
        world.admit("p", "camera-2", "a").await;
        world.complete("p", "camera-2", "a").await;
        let tasks = ["t1", "t2"].map(|task| queued("camera-3", task)).to_vec();
        world.client.clone().enqueue_tasks(batch("p", tasks)).await.unwrap();
        let dispatched = world.admit("p", "camera-3", "").await;
        let before = world.pool("p").await;
        end(server, signal).await;

        let (_server, world) = start(&folder, &config, durability).await;
        assert_eq!(world.pool("p").await, before, "capacity, use and tasks");
        // A22: the repeat of a call whose answer was lost gets the same lease.
        let again = world.admit("p", "camera-1", "a").await;
        assert!(again.replayed);
        assert_eq!(again.lease.undated(), Some(first.undated()));
        let again = world.admit("p", "camera-3", "").await;
        assert!(again.replayed);
        assert_eq!(again.lease.undated(), dispatched.lease.undated());
        assert_eq!(again.lease.as_ref().unwrap().task_id, "t1");
        let done = world.complete("p", "camera-2", "a").await;
        assert_eq!(done.verdict(), pb::CompleteVerdict::AlreadyCompleted);
        let full = world.admit("p", "camera-4", "a").await;
        assert_eq!(full.decision(), AdmitDecision::Full);
        let waiting = world.client.clone().list_tasks(listing("p", TaskState::Queued)).await;
        assert_eq!(waiting.unwrap().into_inner().tasks.len(), 1, "t2");
        world.complete("p", "camera-1", "a").await;
        let later = world.admit("p", "camera-4", "a").await.lease.unwrap();
        assert!(later.fencing_token > again.lease.unwrap().fencing_token, "tokens grow");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a22_a_server_killed_between_grant_and_reply_grants_once() {
    let (folder, config) = (TempFolder::new(), TempFile::new(POLICIES));
    let (server, world) = start(&folder, &config, "always").await;
    world.configure(capacity("p", 10_000)).await;
    // The answer of each call may be lost: the call was decided and is stored, or neither.
    let mut calls = Vec::new();
    for task in 0..64 {
        let mut client = world.client.clone();
        let request = admit("p", "camera", &format!("t{task}"));
        calls.push(tokio::spawn(async move { client.admit_task(request).await }));
    }
    tokio::task::yield_now().await;
    end(server, "-KILL").await;
    let (_server, world) = start(&folder, &config, "always").await;
    for (task, call) in calls.into_iter().enumerate() {
        let again = world.admit("p", "camera", &format!("t{task}")).await;
        if let Ok(first) = call.await.unwrap() {
            assert!(again.replayed);
            assert_eq!(again.lease.undated(), first.into_inner().lease.undated());
        }
        assert_eq!(again.decision(), AdmitDecision::Admitted);
    }
    assert_eq!(world.in_use("p").await, 64, "each task holds one slot");
}

#[tokio::test(flavor = "multi_thread")]
async fn e9_a_restart_never_repeats_a_serial() {
    for (durability, signal) in ENDS {
        let (folder, config) = (TempFolder::new(), TempFile::new(POLICIES));
        let mut last = 0;
        for _ in 0..3 {
            let (server, world) = start(&folder, &config, durability).await;
            for _ in 0..20 {
                let value = serial(&world, next("order")).await.last;
                assert_eq!(value, last + 1);
                last = value;
            }
            end(server, signal).await;
        }
    }
}

/// Under `none` a kill loses the values of the last second, which are skipped.
#[tokio::test(flavor = "multi_thread")]
async fn j1_a_killed_server_without_durability_repeats_no_serial() {
    let (folder, config) = (TempFolder::new(), TempFile::new(POLICIES));
    let mut last = 0;
    for _ in 0..5 {
        let (server, world) = start(&folder, &config, "none").await;
        for _ in 0..50 {
            let value = serial(&world, next("order")).await.last;
            assert!(value > last, "{value} after {last}");
            last = value;
        }
        end(server, "-KILL").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e22_a_repeat_after_a_restart_gets_the_same_numbers() {
    for (durability, signal) in ENDS {
        let (folder, config) = (TempFolder::new(), TempFile::new(POLICIES));
        let (server, world) = start(&folder, &config, durability).await;
        let first = serial(&world, named("one", next("order"))).await;
        serial(&world, next("order")).await;
        end(server, signal).await;
        let (_server, world) = start(&folder, &config, durability).await;
        let again = serial(&world, named("one", next("order"))).await;
        assert_eq!((again.first, again.last), (first.first, first.last));
        assert!(again.replayed);
        assert_eq!(serial(&world, next("order")).await.last, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_stock_rates_and_bans_are_kept() {
    for (durability, signal) in ENDS {
        let (folder, config) = (TempFolder::new(), TempFile::new(POLICIES));
        let (server, world) = start(&folder, &config, durability).await;
        let acquire = |owner: &str| pb::AcquireLockRequest {
            name: "nightly".into(),
            owner: owner.into(),
            ..pb::AcquireLockRequest::default()
        };
        let held = world.locks.clone().acquire_lock(acquire("one")).await.unwrap().into_inner();
        let hour = rule([limit(2, Duration::from_secs(3600), pb::Algorithm::TokenBucket)]);
        for _ in 0..2 {
            world.rates.clone().check_rate(check("user:7", &hour)).await.unwrap();
        }
        for _ in 0..4 {
            world.rates.clone().check_rate(under("crawler", "reads")).await.unwrap();
        }
        let shop = Shop::from_world(world).await;
        shop.set("tv", 10).await;
        shop.reserve(reserve("tv", "o1", 3)).await;
        shop.reserve(reserve("tv", "o2", 2)).await;
        shop.confirm("tv", "o2").await;
        let named = pb::AddStockRequest { request_id: "r".into(), ..add("tv", 5) };
        shop.add(named.clone()).await;
        let before = shop.get("tv").await;
        end(server, signal).await;

        let (_server, world) = start(&folder, &config, durability).await;
        let other = world.locks.clone().acquire_lock(acquire("two")).await.unwrap().into_inner();
        assert!(other.lease.is_none(), "{other:?}");
        let again = world.locks.clone().acquire_lock(acquire("one")).await.unwrap().into_inner();
        assert_eq!(again.lease.undated(), held.lease.undated());
        let third = world.rates.clone().check_rate(check("user:7", &hour)).await.unwrap();
        assert!(!third.into_inner().allowed);
        let banned = world.rates.clone().check_rate(under("crawler", "reads")).await.unwrap();
        assert!(banned.into_inner().ban.is_some());
        let bans = pb::ListBansRequest { policy: "reads".into(), ..Default::default() };
        let bans = world.rates.clone().list_bans(bans).await.unwrap().into_inner().bans;
        assert_eq!(bans.len(), 1, "the ban is not listed");
        let shop = Shop::from_world(world).await;
        assert_eq!(shop.get("tv").await, before);
        assert!(shop.add(named).await.replayed);
        let order = shop.reserve(reserve("tv", "o1", 3)).await;
        assert_eq!((order.outcome(), order.replayed), (ReserveOutcome::Reserved, true));
        assert_eq!(shop.confirm("tv", "o1").await, (ConfirmOutcome::Confirmed, false));
        assert_eq!(shop.confirm("tv", "o2").await.0, ConfirmOutcome::AlreadyConfirmed);
        assert_eq!(shop.get("tv").await, [10, 10, 0, 5]);
    }
}
