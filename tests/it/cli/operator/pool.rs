//! `tollgate pool`.

use std::time::Duration;

use tollgate_client::pb::{self, AdmitDecision};

use super::{assert_says, ends, keys, objects, prints};
use crate::{
    cli::top::terminal::Terminal,
    support::{
        process::{Server, TempFile},
        world::{Client, admit},
    },
};

const LONG: Duration = Duration::from_secs(60);

async fn decision(client: &mut Client, pool: &str, device: &str) -> AdmitDecision {
    let mut request = tonic::Request::new(admit(pool, device, "t"));
    request.set_timeout(LONG);
    client.admit_task(request).await.unwrap().into_inner().decision()
}

/// Admits a task of each of this many devices.
async fn fill(client: &Client, pool: &str, devices: usize) {
    let mut calls = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let (mut client, pool) = (client.clone(), pool.to_owned());
        calls.spawn(async move {
            for device in (worker..devices).step_by(8) {
                let decision = decision(&mut client, &pool, &format!("d{device}")).await;
                assert_eq!(decision, AdmitDecision::Admitted);
            }
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_is_shown_configured_paused_resumed_and_reset() {
    let file = TempFile::new("[[pool]]\nmatch = \"ar:*\"\ncapacity = 5\n");
    let server = Server::start(&["--config", file.path()]).await;
    let mut client = server.client().await;
    assert_eq!(prints(&server, &["pool", "list"]).await.lines().count(), 1, "only headings");

    assert_eq!(decision(&mut client, "ar:1", "camera-1").await, AdmitDecision::Admitted);
    let list = prints(&server, &["pool", "list"]).await;
    let [headings, row] = [0, 1].map(|line| list.lines().nth(line).expect(&list));
    assert!(headings.starts_with("POOL  IN USE  STATE  OLDEST"), "{list}");
    assert!(row.starts_with("ar:1     1/5  open "), "{list}");

    let paused = prints(&server, &["pool", "pause", "ar:1"]).await;
    assert_says(&paused, &["ar:1: paused, 1 leases run on", "tollgate pool resume"]);
    assert_eq!(decision(&mut client, "ar:1", "camera-2").await, AdmitDecision::Paused);
    assert_says(&prints(&server, &["pool", "list"]).await, &["paused"]);

    // The capacity before the pause: of the configuration, then of `configure`.
    let resumed = prints(&server, &["pool", "resume", "ar:1"]).await;
    assert_eq!(resumed, "ar:1: resumed, capacity 5, of the configuration\n");
    let words = ["pool", "configure", "ar:1", "--capacity", "7", "--lease-duration", "90s"];
    let configured = prints(&server, &words).await;
    assert_says(&configured, &["1 of 7, 6 free", "7  (set at run time)", "1m 30s  (set at run"]);
    prints(&server, &["pool", "pause", "ar:1"]).await;
    let resumed = prints(&server, &["pool", "resume", "ar:1"]).await;
    assert_eq!(resumed, "ar:1: resumed, capacity 7, set at run time\n");
    assert_eq!(decision(&mut client, "ar:1", "camera-2").await, AdmitDecision::Admitted);

    // A pool without slots admits nobody after a resume, and the command says so.
    prints(&server, &["pool", "configure", "ar:2", "--capacity", "0"]).await;
    let resumed = prints(&server, &["pool", "resume", "ar:2"]).await;
    assert_says(&resumed, &["capacity 0", "tollgate pool configure --capacity"]);

    let reset = prints(&server, &["pool", "reset", "ar:1", "--yes"]).await;
    assert_says(&reset, &["2 of 5, 3 free"]);
    assert!(!reset.contains("set at run time"), "{reset}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_are_json_with_the_keys_of_the_contract() {
    let server = Server::start(&[]).await;
    let mut client = server.client().await;
    decision(&mut client, "ar:1", "camera-1").await;
    let with_lease = [
        "pool",
        "config",
        "usage",
        "oldestGrantTime",
        "nextExpireTime",
        "queued",
        "waiters",
        "refused",
        "refusedCached",
    ];
    let pools = objects(&server, &["pool", "list"]).await;
    assert_eq!((pools.len(), keys(&pools[0])), (1, with_lease.to_vec()));
    for words in [&["pool", "get", "ar:1"][..], &["pool", "pause", "ar:1"]] {
        let pool = objects(&server, words).await.remove(0);
        assert_eq!(keys(&pool), with_lease, "{words:?}");
        assert_eq!(pool["usage"]["inUse"], 1);
        assert_eq!(pool["config"]["leaseDuration"], "300s");
        assert_eq!(pool["queued"], "0", "an integer of 64 bits");
    }
    let lease = objects(&server, &["pool", "leases", "ar:1"]).await.remove(0);
    let of_lease =
        ["pool", "deviceId", "taskId", "fencingToken", "grantTime", "expireTime", "expiresIn"];
    assert_eq!(keys(&lease), of_lease);
    let words = ["pool", "evict", "ar:1", "camera-1", "t"];
    let evicted = objects(&server, &words).await.remove(0);
    let expected = r#"{"verdict":"EVICT_VERDICT_EVICTED","replayed":false}"#;
    assert_eq!(evicted.to_string(), expected);
    // Optional fields without a value are left out; all others are present.
    let pool = objects(&server, &["pool", "get", "ar:9"]).await.remove(0);
    let idle = ["pool", "config", "usage", "queued", "waiters", "refused", "refusedCached"];
    assert_eq!(keys(&pool), idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_evicted_once() {
    let server = Server::start(&[]).await;
    let mut client = server.client().await;
    decision(&mut client, "ar:1", "camera-1").await;
    let words = ["pool", "evict", "ar:1", "camera-1", "t", "--reason", "device is gone"];
    for (code, expected) in
        [(0, "EVICTED  its slot is free\n"), (0, "EVICTED  by an earlier call\n")]
    {
        let (ended, stdout, _) = ends(&server, &words).await;
        assert_eq!((ended, &*stdout), (Some(code), expected));
    }
    let (code, stdout, _) = ends(&server, &["pool", "evict", "ar:1", "camera-1", "other"]).await;
    assert_eq!(code, Some(1));
    assert_says(&stdout, &["UNKNOWN", "tollgate pool leases"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_listed_and_every_lease_evicted() {
    const LEASES: usize = 2500;
    let server = Server::start(&[]).await;
    prints(&server, &["pool", "configure", "big", "--capacity", "3000"]).await;
    fill(&server.client().await, "big", LEASES).await;
    let table = prints(&server, &["pool", "leases", "big"]).await;
    assert_eq!(table.lines().count(), LEASES + 1);
    assert_eq!(objects(&server, &["pool", "leases", "big"]).await.len(), LEASES);

    // Without a terminal nobody can answer, and nothing is evicted.
    let (code, stdout, stderr) = ends(&server, &["pool", "evict", "big", "--all"]).await;
    assert_eq!((code, &*stdout), (Some(64), ""), "{stderr}");
    assert_says(&stderr, &["all 2,500 leases of `big`?", "--yes"]);
    assert_says(&prints(&server, &["pool", "get", "big"]).await, &["2500 of 3000"]);

    let all = ["pool", "evict", "big", "--all", "--yes"];
    let evicted = objects(&server, &all).await.remove(0);
    assert_eq!(evicted.to_string(), r#"{"evicted":2500,"ended":0}"#);
    assert_says(&prints(&server, &["pool", "get", "big"]).await, &["0 of 3000"]);
    assert_eq!(prints(&server, &all).await, "evicted 0 leases; 0 had ended before\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_asks_on_a_terminal_and_needs_yes_without_one() {
    let server = Server::start(&[]).await;
    prints(&server, &["pool", "configure", "ar:1", "--capacity", "7"]).await;
    let (code, _, stderr) = ends(&server, &["pool", "reset", "ar:1"]).await;
    assert_eq!(code, Some(64), "{stderr}");
    assert_says(&stderr, &["run-time settings capacity of `ar:1`", "--yes"]);
    for (answer, code, capacity) in [("n\n", 1, 7), ("\n", 1, 7), ("y\n", 0, 60)] {
        let address = server.address();
        let mut terminal = Terminal::start(&["pool", "reset", "ar:1", "--server", &address]);
        terminal.shows("[y/N]").await;
        terminal.press(answer);
        assert_eq!(terminal.end().await, Some(code), "{answer:?}: {}", terminal.seen());
        let request = pb::GetPoolRequest { pool: "ar:1".to_owned() };
        let pool = server.client().await.get_pool(request).await.unwrap().into_inner().pool;
        assert_eq!(pool.unwrap().config.unwrap().capacity, capacity, "{answer:?}");
    }
}
