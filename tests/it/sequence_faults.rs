//! Serial numbers when something goes wrong: lost replies, restarts, a failover that
//! loses writes, damage.

use std::{collections::BTreeSet, time::Duration};

use tollgate::grpc::client::pb;
use tonic::Code;

use crate::{
    process::{OwnRedis, Server, TempFile, Wire},
    sequences::{LAYOUTS, floor, many, named, next, try_next},
    world::{Sequences, World},
};

on_both_engines! {
    a_clock_that_is_set_back_repeats_nothing,
}

#[tokio::test(flavor = "multi_thread")]
async fn e11_all_keys_of_a_call_are_in_one_slot_of_a_cluster() {
    let mut redis = OwnRedis::prepare();
    redis.start_with(&["--cluster-enabled", "yes"]).await;
    redis.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await.unwrap();
    let server = Server::start(&["--engine", &redis.url()]).await;
    let client = answering(&server).await;
    for (i, name) in ["order", "a}b", "{}", "ar:0571", "*"].iter().enumerate() {
        let asked = many(3, named(&format!("request {i}"), next(name)));
        let given = try_next(&client, asked.clone()).await.unwrap();
        let again = try_next(&client, asked).await.unwrap();
        assert_eq!((again.first, again.last, again.replayed), (given.first, given.last, true));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e22_a_reply_that_is_lost_costs_no_second_number() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let wire = Wire::to(redis.port).await;
    let server = Server::start(&["--engine", &format!("redis://127.0.0.1:{}", wire.port)]).await;
    let client = answering(&server).await;
    let last = try_next(&client, next("order")).await.unwrap().last;
    // Lost between Redis and the server, it is asked for again at once.
    wire.lose_one();
    let given = try_next(&client, named("one", next("order"))).await.unwrap();
    assert_eq!((given.first, given.replayed), (last + 1, true));
    // Without a name the first number is a gap.
    wire.lose_one();
    assert_eq!(try_next(&client, next("order")).await.unwrap().first, last + 3);
    assert_eq!(try_next(&client, next("order")).await.unwrap().first, last + 4);

    // Lost between the server and its caller, the repeat gets it.
    let near = Wire::to(server.port).await;
    let address = format!("http://127.0.0.1:{}", near.port);
    let lossy = Sequences::connect(address).await.unwrap();
    // With this answer all is said that opens a connection.
    assert_eq!(try_next(&lossy, next("other")).await.unwrap().first, 1);
    near.lose_one();
    let lost = try_next(&lossy, named("two", next("order"))).await;
    assert!(lost.is_err(), "{lost:?}");
    let again = try_next(&client, named("two", next("order"))).await.unwrap();
    assert_eq!(again.first, last + 5);
    assert_eq!(try_next(&client, next("order")).await.unwrap().first, last + 6);
}

/// A client to a server, once that answers.
async fn answering(server: &Server) -> Sequences {
    let client = Sequences::connect(server.address()).await.unwrap();
    while try_next(&client, next("warm")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client
}

async fn a_clock_that_is_set_back_repeats_nothing(world: World) {
    let world = World::with_rules(world.is_redis(), crate::rates::configured(LAYOUTS)).await;
    for name in ["stamp", "day", "month", "year", "east"] {
        let (mut seen, mut last) = (BTreeSet::new(), 0);
        for back in [0, 1, 1_000, 86_400_000_000, 40 * 86_400_000_000, 0] {
            world.time().set_back(back).await;
            for _ in 0..3 {
                let response = world.next(many(7, next(name))).await;
                assert!(response.first > last, "{name}: {} after {last}", response.first);
                last = response.last;
                seen.extend(response.serials);
            }
        }
        assert_eq!(seen.len(), 6 * 3 * 7, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_server_and_redis_repeats_nothing() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let file = TempFile::new(LAYOUTS);
    let mut last = [0; 3];
    for round in 0..3 {
        let url = redis.url();
        let arguments = ["--engine", url.as_str(), "--config", file.path()];
        let servers = [Server::start(&arguments).await, Server::start(&arguments).await];
        for server in &servers {
            let client = answering(server).await;
            for (name, last) in ["plain", "day", "stamp"].iter().zip(&mut last) {
                let given = try_next(&client, many(100, next(name))).await.unwrap();
                assert!(given.first > *last, "{name}, round {round}: {given:?} after {last}");
                *last = given.last;
            }
        }
        // All of them end without a word.
        drop(servers);
        redis.kill();
        redis.start().await;
    }
}

/// A primary whose last writes its replica never gets, and a server that is led from
/// one to the other: the values before and after.
async fn fail_over(config: &str, name: &str, key: &str, lost: u32) -> (Vec<u64>, Vec<u64>) {
    let mut redises = [OwnRedis::prepare(), OwnRedis::prepare(), OwnRedis::prepare()];
    for redis in &mut redises {
        redis.start().await;
    }
    let [mut primary, replica, second] = redises;
    let (between, wire) = (Wire::to(primary.port).await, Wire::to(primary.port).await);
    follow(&replica, between.port).await;
    let file = TempFile::new(config);
    let url = format!("redis://127.0.0.1:{}", wire.port);
    let server = Server::start(&["--engine", &url, "--config", file.path()]).await;
    let client = Sequences::connect(server.address()).await.unwrap();
    let mut before = Vec::new();
    while before.is_empty() {
        before.extend(try_next(&client, next(name)).await.map(|given| given.first));
    }
    let stored = ["HGET", &format!("tollgate:{{sequence:{key}}}:counter"), "last"];
    while replica.command(&stored).await != primary.command(&stored).await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    between.cut();
    for _ in 0..lost {
        match try_next(&client, next(name)).await {
            Ok(given) => before.push(given.first),
            // Without a replica nothing more is reserved.
            Err(status) => {
                assert_eq!(status.code(), Code::Unavailable, "{status:?}");
                break;
            }
        }
    }
    primary.kill();
    replica.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    follow(&second, replica.port).await;
    wire.lead_to(replica.port);
    let mut after = Vec::new();
    while after.len() < 30 {
        after.extend(try_next(&client, next(name)).await.map(|given| given.first));
    }
    (before, after)
}

async fn follow(redis: &OwnRedis, port: u16) {
    redis.command(&["REPLICAOF", "127.0.0.1", &port.to_string()]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_reserved_stays_distinct_when_a_failover_loses_the_last_writes() {
    let plain = "[[sequence]]\nmatch = \"order\"\nreserve = 50\n";
    let day = "[[sequence]]\nmatch = \"order\"\nreserve = 50\nlayout = \"{yyyyMMdd}{n:06}\"\n";
    for (config, key) in [(plain, "order"), (day, "order\x1fday/999999")] {
        let (before, after) = fail_over(config, "order", key, 80).await;
        // A block was given out that the replica knew nothing of but its reservation.
        assert!((40..80).contains(&before.len()), "{before:?}");
        let all = [&before[..], &after[..]].concat();
        assert!(all.is_sorted_by(|one, next| one < next), "{all:?}");
        // No more is skipped than was reserved.
        assert!(after[0] - before[before.len() - 1] <= 52, "{before:?}, then {after:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_reserve_a_failover_repeats_what_it_lost_but_for_times_that_are_over() {
    let (before, after) = fail_over("", "order", "order", 20).await;
    assert!(after.iter().any(|value| before.contains(value)), "{before:?}, then {after:?}");
    let key = "stamp\x1fmillisecond/100";
    let (before, after) = fail_over(LAYOUTS, "stamp", key, 20).await;
    let all = [&before[..], &after[..]].concat();
    assert!(all.is_sorted_by(|one, next| one < next), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_process_of_redis_reserved_is_passed_over() {
    let config = "[[sequence]]\nmatch = \"*\"\nreserve = 1000\nwait_replicas = 0\n";
    let world = World::with_rules(true, crate::rates::configured(config)).await;
    assert_eq!(world.next(many(10, next("order"))).await.last, 10);
    let key = "{}:{sequence:order}:counter";
    // As a restart that kept the reservation and lost what came after it.
    world.tamper(&["HSET", key, "last", "1", "instance", "another"]).await;
    assert_eq!(world.next(next("order")).await.first, 1011);
    assert_eq!(world.next(next("order")).await.first, 1012);
    // A request that needs more than a block gets it, and the largest value too.
    assert_eq!(world.next(many(10_000, next("order"))).await.last, 11_012);
    let most = i64::MAX as u64;
    assert_eq!(world.next(floor(most - 1, next("order"))).await.first, most - 1);
    assert_eq!(world.next(next("order")).await.first, most);
    assert_eq!(world.refused(next("order")).await.code(), Code::OutOfRange);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_sequence_is_told_and_changes_nothing() {
    let world = World::with_rules(true, crate::rates::configured(LAYOUTS)).await;
    let key = "{}:{sequence:order}:counter";
    world.next(next("order")).await;
    for bad in ["", "abc", "-1", "007", "1.5", "9223372036854775808", "99999999999999999999"] {
        world.tamper(&["HSET", key, "last", bad]).await;
        for status in [
            world.refused(next("order")).await,
            world.refused(floor(5, next("order"))).await,
            world.sequences.clone().get_sequence(get("order")).await.unwrap_err(),
        ] {
            assert_eq!(status.code(), Code::Internal, "{bad}: {status:?}");
            assert!(status.message().contains("has to be set above all"), "{status:?}");
        }
    }
    world.tamper(&["DEL", key]).await;
    world.tamper(&["SET", key, "5"]).await;
    let status = world.refused(next("order")).await;
    assert!(status.message().contains("has to be set above all"), "{status:?}");
    assert_eq!(world.one(next("other")).await, 1);
    // Set right by hand, it goes on.
    world.tamper(&["DEL", key]).await;
    world.tamper(&["HSET", key, "last", "41"]).await;
    assert_eq!(world.one(named("r", next("order"))).await, 42);
    // An answer that cannot be read is none: the caller gets further numbers.
    for bad in ["junk", "9999999999999999 42 1 1 7", "9999999999999999 42 1 1"] {
        world.tamper(&["SET", "{}:{sequence:order}:replay:r", bad]).await;
        assert!(!world.next(named("r", next("order"))).await.replayed, "{bad}");
    }
    assert_eq!(world.one(next("order")).await, 46);
}

fn get(name: &str) -> pb::GetSequenceRequest {
    pb::GetSequenceRequest { name: name.into() }
}
