//! Calls that wait through several servers on one Redis, and the faults of these servers.

use std::time::Duration;

use tokio::time::timeout;

use crate::{
    lock::waiting::wait,
    support::{
        farm::eventually,
        locks::{Keeper, acquire, granted, leased, release, waiting},
        process::{OwnRedis, Server, TempFile},
    },
};

const PATIENCE: Duration = Duration::from_secs(30);

async fn two_servers(redis: &OwnRedis) -> [(Server, Keeper); 2] {
    let one = Server::start(&["--engine", &redis.url()]).await;
    let other = Server::start(&["--engine", &redis.url()]).await;
    let (to_one, to_other) = (Keeper::to(&one).await, Keeper::to(&other).await);
    [(one, to_one), (other, to_other)]
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_two_servers_are_served_in_order_of_arrival() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let servers = two_servers(&redis).await;
    let keepers = [&servers[0].1, &servers[1].1];
    keepers[0].acquired("l", "first").await;
    let mut calls = Vec::new();
    for turn in 0..100 {
        // Not alternating: calls of one server also come in runs.
        let keeper = keepers[usize::from(turn % 7 < 3)];
        calls.push(wait(keeper, "l", &format!("o{turn}")));
        keepers[0].waiters("l", turn + 1).await;
    }
    let mut holder = "first".to_owned();
    for (turn, call) in calls.into_iter().enumerate() {
        assert!(keepers[turn % 2].released(release("l", &holder)).await);
        let lease = granted(&timeout(PATIENCE, call).await.unwrap().unwrap());
        holder = format!("o{turn}");
        assert_eq!(lease.owner, holder);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_entries_of_a_dead_server_expire() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let [(mut dying, theirs), (_alive, ours)] = two_servers(&redis).await;
    ours.acquired("l", "a").await;
    let lost: Vec<_> = (0..20).map(|call| wait(&theirs, "l", &format!("o{call}"))).collect();
    ours.waiters("l", 20).await;
    let next = wait(&ours, "l", "b");
    ours.waiters("l", 21).await;
    dying.process.signal("-KILL");
    dying.process.end(PATIENCE).await;
    assert!(ours.released(release("l", "a")).await);
    let lease = granted(&timeout(PATIENCE, next).await.expect("b is served").unwrap());
    assert_eq!((&*lease.owner, ours.get("l").await.waiters), ("b", 0));
    lost.into_iter().for_each(|call| call.abort());
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_calls_use_no_connection_to_redis() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let config = "[redis]\nconnections = 2\n[limits]\nconnection_streams = 1000";
    let config = TempFile::new(config);
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    let locks = Keeper::to(&server).await;
    let clients = async || {
        let info: String =
            redis::from_redis_value(redis.command(&["INFO", "clients"]).await.unwrap()).unwrap();
        let connected = info.lines().find_map(|line| line.strip_prefix("connected_clients:"));
        connected.unwrap().parse::<u32>().unwrap()
    };
    locks.acquired("l", "a").await;
    let calls: Vec<_> = (0..500).map(|call| wait(&locks, "l", &format!("o{call}"))).collect();
    locks.waiters("l", 500).await;
    // One connection for the decisions of calls, two for the sweeper, which uses the second one from its
    // first page on, one each for probes and wake-ups, and the one of the test. Redis may see the end of
    // a closed one late.
    eventually("at most six connections", async || clients().await <= 6).await;
    locks.acquired("other", "a").await;
    calls.into_iter().for_each(|call| call.abort());
    locks.waiters("l", 0).await;
}

/// No wake-up arrives: the server may not subscribe, and its scripts may not publish.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_served_without_wake_ups() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let user = ["ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all", "resetchannels"];
    redis.command(&user).await.unwrap();
    let url = format!("redis://deaf:secret@127.0.0.1:{}", redis.port);
    let server = Server::start(&["--engine", &url]).await;
    let locks = Keeper::to(&server).await;
    locks.acquired("l", "a").await;
    let mut calls = Vec::new();
    for turn in 0..5 {
        calls.push(wait(&locks, "l", &format!("o{turn}")));
        locks.waiters("l", turn + 1).await;
    }
    let mut holder = "a".to_owned();
    for (turn, call) in calls.into_iter().enumerate() {
        assert!(locks.released(release("l", &holder)).await);
        holder = format!("o{turn}");
        assert_eq!(granted(&timeout(PATIENCE, call).await.unwrap().unwrap()).owner, holder);
    }
}

/// A place whose call has ended, before its server has reported the end.
#[tokio::test(flavor = "multi_thread")]
async fn d20_a_queue_entry_without_a_call_is_removed_when_it_is_first() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let locks = Keeper::to(&server).await;
    locks.acquired("l", "a").await;
    let next = wait(&locks, "l", "b");
    locks.waiters("l", 1).await;
    let channels = redis.command(&["PUBSUB", "CHANNELS", "tollgate:hints:*"]).await.unwrap();
    let [channel]: [String; 1] =
        redis::from_redis_value::<Vec<String>>(channels).unwrap().try_into().unwrap();
    let place = format!("4000000000 4000000000000000 {channel}");
    redis.command(&["HSET", "tollgate:{lock:l}:places", "pghost", &place]).await.unwrap();
    redis.command(&["ZADD", "tollgate:{lock:l}:queue", "1", "ghost"]).await.unwrap();
    assert!(locks.released(release("l", "a")).await);
    assert_eq!(granted(&timeout(PATIENCE, next).await.expect("b is served").unwrap()).owner, "b");
    locks.waiters("l", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_entries_lost_by_redis_are_restored_in_order() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let servers = two_servers(&redis).await;
    servers[0].1.acquired("l", "a").await;
    let mut calls = Vec::new();
    for turn in 0..10 {
        calls.push(wait(&servers[turn % 2].1, "l", &format!("o{turn}")));
        servers[0].1.waiters("l", turn as u32 + 1).await;
    }
    for part in ["queue", "places"] {
        redis.command(&["DEL", &format!("tollgate:{{lock:l}}:{part}")]).await.unwrap();
    }
    servers[0].1.waiters("l", 10).await;
    let mut holder = "a".to_owned();
    for (turn, call) in calls.into_iter().enumerate() {
        assert!(servers[0].1.released(release("l", &holder)).await);
        holder = format!("o{turn}");
        assert_eq!(granted(&timeout(PATIENCE, call).await.unwrap().unwrap()).owner, holder);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_refuses_its_waiters_as_unavailable() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let [(mut ending, theirs), (_other, ours)] = two_servers(&redis).await;
    ours.acquired("l", "a").await;
    let mut calls = Vec::new();
    for turn in 0..20 {
        let mut client = theirs.0.clone();
        let request = waiting(60.0, acquire("l", &format!("o{turn}")));
        calls.push(tokio::spawn(async move { client.acquire_lock(request).await }));
    }
    ours.waiters("l", 20).await;
    ending.process.signal("-TERM");
    for call in calls {
        let status =
            timeout(PATIENCE, call).await.expect("the call got no answer").unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
    }
    assert_eq!(ours.get("l").await.waiters, 0);
    assert_eq!(ending.process.end(PATIENCE).await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_get_an_error_when_redis_becomes_unreachable() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let locks = Keeper::to(&server).await;
    granted(&locks.ask(leased(60.0, acquire("l", "a"))).await);
    let mut calls = Vec::new();
    for turn in 0..10 {
        let (mut client, request) =
            (locks.0.clone(), waiting(60.0, acquire("l", &format!("o{turn}"))));
        calls.push(tokio::spawn(async move { client.acquire_lock(request).await }));
    }
    locks.waiters("l", 10).await;
    redis.kill();
    for call in calls {
        let status =
            timeout(PATIENCE, call).await.expect("the call got no answer").unwrap().unwrap_err();
        let code = status.code();
        assert!(matches!(code, tonic::Code::Unavailable | tonic::Code::DeadlineExceeded), "{code}");
    }
    // After Redis is back, the lease is still in force.
    redis.start().await;
    Keeper::to(&server).await;
    assert_eq!(locks.held("l", "b").await, "a", "the holder keeps its lease");
}
