//! Calls while Redis fails: each fault occurs under load, and the history of the calls proves that
//! the capacity held. Scenarios S2 to S5.

mod load;
mod soak;
mod table;

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate_core::time::monotonic;

use crate::support::{
    farm::{Cluster, Watched, eventually},
    process::{OwnRedis, Server},
    wire::Wire,
    world::{Client, capacity},
};
use load::{CAPACITY, Load};
use table::Row;

/// Number of answered calls before a fault, and after it.
const CALM: usize = 200;

/// Returns a server on a Redis, with a pool `p` of [`CAPACITY`] slots.
async fn served(url: &str) -> (Server, Client) {
    let server = Server::start(&["--engine", url]).await;
    let client = server.client().await;
    eventually("the pool has its capacity", async || {
        client.clone().configure_pool(capacity("p", CAPACITY as u32)).await.is_ok()
    })
    .await;
    (server, client)
}

/// Returns a server on the test's own Redis.
async fn single() -> (OwnRedis, Server, Client) {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let (server, client) = served(&redis.url()).await;
    (redis, server, client)
}

/// Starts a load, causes a fault and heals it, and waits until calls are answered again. `heal`
/// returns the instant at which the fault ended.
async fn suffer(fault: &str, clients: &[Client], heal: impl AsyncFnOnce(&Load) -> Instant) {
    let load = Load::start(clients, "p");
    load.answered(CALM).await;
    let healed = heal(&load).await;
    load.answered(CALM).await;
    let history = load.end().await;
    Row { fault, history: &history, healed }.write();
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_redis_is_killed_and_started_again() {
    let (mut redis, _server, client) = single().await;
    suffer("kill -9 and restart (appendfsync always)", &[client], async |load| {
        redis.kill();
        load.failed().await;
        sleep(Duration::from_millis(500)).await;
        redis.start().await;
        monotonic()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_redis_refuses_connections_for_half_a_minute() {
    let (mut redis, _server, client) = single().await;
    suffer("connection refused for 30 s", &[client], async |load| {
        redis.kill();
        load.failed().await;
        sleep(Duration::from_secs(30)).await;
        redis.start().await;
        monotonic()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_scripts_are_flushed() {
    let (redis, _server, client) = single().await;
    let load = Load::start(&[client], "p");
    for _ in 0..40 {
        load.answered(20).await;
        redis.command(&["SCRIPT", "FLUSH"]).await.unwrap();
    }
    let healed = monotonic();
    load.answered(CALM).await;
    let history = load.end().await;
    assert_eq!(history.failed().count(), 0, "no call failed");
    Row { fault: "SCRIPT FLUSH, 40 times", history: &history, healed }.write();
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_redis_hangs() {
    let (redis, _server, client) = single().await;
    suffer("SIGSTOP for 3 s", &[client], async |load| {
        redis.signal("-STOP");
        load.failed().await;
        sleep(Duration::from_secs(2)).await;
        redis.signal("-CONT");
        monotonic()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_redis_is_paused() {
    let (redis, _server, client) = single().await;
    suffer("CLIENT PAUSE 2000", &[client], async |load| {
        redis.command(&["CLIENT", "PAUSE", "2000"]).await.unwrap();
        let healed = monotonic() + Duration::from_secs(2);
        load.failed().await;
        healed
    })
    .await;
}

/// Damages the replies of Redis for one second.
async fn spoiled(fault: &str, spoil: fn(&Wire, bool)) {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let wire = Wire::to(redis.port).await;
    let url = format!("redis://127.0.0.1:{}", wire.port);
    let (_server, client) = served(&url).await;
    suffer(fault, &[client], async |load| {
        spoil(&wire, true);
        load.failed().await;
        sleep(Duration::from_secs(1)).await;
        spoil(&wire, false);
        monotonic()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_answers_garbage() {
    spoiled("garbage for answers, for 1 s", Wire::garble).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_closes_connections_within_replies() {
    spoiled("closed in the middle of answers, for 1 s", Wire::tear).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_redis_becomes_a_replica_and_a_primary_again() {
    let (mut redis, mut other) = (OwnRedis::prepare(), OwnRedis::prepare());
    redis.start().await;
    other.start().await;
    let (_server, client) = served(&redis.url()).await;
    // The replica must not copy the other Redis: with a wrong password it keeps its data.
    redis.command(&["CONFIG", "SET", "masterauth", "no"]).await.unwrap();
    other.command(&["CONFIG", "SET", "requirepass", "yes"]).await.unwrap();
    suffer("READONLY for 1 s", &[client], async |load| {
        redis.command(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]).await.unwrap();
        load.failed().await;
        sleep(Duration::from_secs(1)).await;
        redis.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
        monotonic()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_sentinels_fail_over() {
    let mut farm = Watched::start(2).await;
    let (_server, client) = served(&farm.url()).await;
    suffer("Sentinel: the primary is killed", &[client], async |load| {
        farm.nodes[0].kill();
        load.failed().await;
        let leads = async || farm.leads(1).await || farm.leads(2).await;
        eventually("a replica leads", leads).await;
        monotonic()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_a_cluster_fails_over() {
    let mut farm = Cluster::start().await;
    let (_server, client) = served(&farm.url()).await;
    let slot = farm.slot("p").await;
    suffer("Cluster: a primary is killed", &[client], async |load| {
        let (owner, _) = farm.owner(slot).await;
        farm.nodes[owner].kill();
        load.failed().await;
        eventually("a replica leads", async || farm.owned(slot).await.is_some()).await;
        monotonic()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_moves_to_another_node_and_back() {
    let farm = Cluster::start().await;
    let (_server, client) = served(&farm.url()).await;
    let slot = farm.slot("p").await;
    let load = Load::start(&[client], "p");
    // Enough keys that each move of the slot takes a while.
    load.answered(3 * CALM).await;
    let first = farm.owner(slot).await.0;
    let primaries: Vec<usize> = farm.primaries().await;
    let second = *primaries.iter().find(|node| **node != first).unwrap();
    for to in [second, first, second, first] {
        farm.migrate(slot, to).await;
        load.answered(CALM).await;
    }
    let healed = monotonic();
    load.answered(CALM).await;
    let history = load.end().await;
    assert_eq!(history.failed().count(), 0, "no call failed");
    Row { fault: "Cluster: a slot moves, 4 times", history: &history, healed }.write();
}
