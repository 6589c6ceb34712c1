//! Serial numbers under faults: lost replies, restarts, damaged state.

use std::{collections::BTreeSet, time::Duration};

use tollgate_client::pb;
use tonic::Code;

use crate::support::{
    process::{OwnRedis, Server, TempFile, free_port},
    sequences::{LAYOUTS, answering, floor, many, named, next, try_next},
    wire::Wire,
    world::{Sequences, World},
};

on_both_engines! {
    a_clock_that_is_set_back_repeats_no_serial,
}

#[tokio::test(flavor = "multi_thread")]
async fn e11_all_keys_of_a_call_are_in_one_slot_of_a_cluster() {
    let mut redis = OwnRedis::prepare();
    // The default bus port may be in use by the socket of a client.
    let bus = free_port().to_string();
    redis.start_with(&["--cluster-enabled", "yes", "--cluster-port", &bus]).await;
    redis.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await.unwrap();
    let server = Server::start(&["--engine", &redis.url()]).await;
    let client = answering(&server, "warm").await;
    for (i, name) in ["order", "a}b", "{}", "ar:0571", "*"].iter().enumerate() {
        let asked = many(3, named(&format!("request {i}"), next(name)));
        let given = try_next(&client, asked.clone()).await.unwrap();
        let again = try_next(&client, asked).await.unwrap();
        assert_eq!((again.first, again.last, again.replayed), (given.first, given.last, true));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e22_a_repeat_after_a_lost_reply_gets_the_same_number() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let wire = Wire::to(redis.port).await;
    let server = Server::start(&["--engine", &format!("redis://127.0.0.1:{}", wire.port)]).await;
    let client = answering(&server, "warm").await;
    let last = try_next(&client, next("order")).await.unwrap().last;
    // Lost between Redis and the server: the server repeats the call immediately.
    wire.lose_decision();
    let given = try_next(&client, named("one", next("order"))).await.unwrap();
    assert_eq!((given.first, given.replayed), (last + 1, true));
    // Without a request id the first number is a gap.
    wire.lose_decision();
    assert_eq!(try_next(&client, next("order")).await.unwrap().first, last + 3);
    assert_eq!(try_next(&client, next("order")).await.unwrap().first, last + 4);

    // Lost between the server and its caller: a repeat gets the number.
    let near = Wire::to(server.port).await;
    let address = format!("http://127.0.0.1:{}", near.port);
    let lossy = Sequences::connect(address).await.unwrap();
    // After this answer the connection is set up: the next reply belongs to a call.
    assert_eq!(try_next(&lossy, next("other")).await.unwrap().first, 1);
    near.lose_one();
    let lost = try_next(&lossy, named("two", next("order"))).await;
    assert!(lost.is_err(), "{lost:?}");
    let again = try_next(&client, named("two", next("order"))).await.unwrap();
    assert_eq!(again.first, last + 5);
    assert_eq!(try_next(&client, next("order")).await.unwrap().first, last + 6);
}

async fn a_clock_that_is_set_back_repeats_no_serial(world: World) {
    let world =
        World::with_rules(world.is_redis(), crate::support::rates::configured(LAYOUTS)).await;
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
async fn a_restart_of_server_and_redis_repeats_no_value() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let file = TempFile::new(LAYOUTS);
    let mut last = [0; 3];
    for round in 0..3 {
        let url = redis.url();
        let arguments = ["--engine", url.as_str(), "--config", file.path()];
        let servers = [Server::start(&arguments).await, Server::start(&arguments).await];
        for server in &servers {
            let client = answering(server, "warm").await;
            for (name, last) in ["plain", "day", "stamp"].iter().zip(&mut last) {
                let given = try_next(&client, many(100, next(name))).await.unwrap();
                assert!(given.first > *last, "{name}, round {round}: {given:?} after {last}");
                *last = given.last;
            }
        }
        // The servers and Redis are killed.
        drop(servers);
        redis.kill();
        redis.start().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_sequence_is_an_error_and_is_not_changed() {
    let world = World::with_rules(true, crate::support::rates::configured(LAYOUTS)).await;
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
            assert!(status.message().contains("above all values given out"), "{status:?}");
        }
    }
    world.tamper(&["DEL", key]).await;
    world.tamper(&["SET", key, "5"]).await;
    let status = world.refused(next("order")).await;
    assert!(status.message().contains("above all values given out"), "{status:?}");
    assert_eq!(world.one(next("other")).await, 1);
    // After a repair by hand, the sequence continues.
    world.tamper(&["DEL", key]).await;
    world.tamper(&["HSET", key, "last", "41"]).await;
    assert_eq!(world.one(named("r", next("order"))).await, 42);
    // An unreadable replay entry is ignored: the caller gets new numbers.
    let bad_replays = [
        "junk",
        "9999999999999999 42 1 1 7",
        "9999999999999999 42 1 1",
        "9999999999999999 42 0 1 0",
        "9999999999999999 42 1 0 0",
        "9999999999999999 20000 1 10001 0",
        "9999999999999999 9223372036854775808 1 1 0",
    ];
    for bad in bad_replays {
        world.tamper(&["SET", "{}:{sequence:order}:replay:r", bad]).await;
        assert!(!world.next(named("r", next("order"))).await.replayed, "{bad}");
    }
    assert_eq!(world.one(next("order")).await, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_value_outside_the_calendar_is_an_error() {
    let world = World::with_rules(true, crate::support::rates::configured(LAYOUTS)).await;
    let key = "{}:{sequence:day\x1fday/999999}:counter";
    world.next(next("day")).await;
    // The digits of a serial, as someone may set them by hand, and other invalid values.
    for (field, bad) in [
        ("last", "20261121000001"),
        ("last", "9223372036854775807"),
        ("time", "253402300800000000"),
        ("reserved", "9223372036854775807"),
    ] {
        world.tamper(&["HSET", key, "last", "1", "time", "1", field, bad]).await;
        let status = world.refused(next("day")).await;
        assert_eq!(status.code(), Code::Internal, "{field} {bad}: {status:?}");
        let status = world.sequences.clone().get_sequence(get("day")).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{field} {bad}: {status:?}");
    }
}

fn get(name: &str) -> pb::GetSequenceRequest {
    pb::GetSequenceRequest { name: name.into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_second_attempt_leaves_the_outcome_unknown() {
    let (mut redis, mut replica) = (OwnRedis::prepare(), OwnRedis::prepare());
    redis.start().await;
    replica.start().await;
    let wire = Wire::to(redis.port).await;
    let server = Server::start(&["--engine", &format!("redis://127.0.0.1:{}", wire.port)]).await;
    let client = answering(&server, "warm").await;
    let most = i64::MAX as u64;
    try_next(&client, floor(most - 2, next("order"))).await.unwrap();
    // The second to last number is allocated, and its reply is lost. A repeat with the request id
    // finds it.
    wire.lose_decision();
    let named_one = try_next(&client, named("one", next("order"))).await.unwrap();
    assert_eq!((named_one.first, named_one.replayed), (most - 1, true));
    wire.lose_decision();
    let status = try_next(&client, next("order")).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    assert_eq!(try_next(&client, next("order")).await.unwrap_err().code(), Code::OutOfRange);

    // The second attempt reaches a replica.
    replica.command(&["REPLICAOF", "127.0.0.1", &redis.port.to_string()]).await.unwrap();
    let stored = ["HGET", "tollgate:{sequence:order}:counter", "last"];
    while replica.command(&stored).await != redis.command(&stored).await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    try_next(&client, next("other")).await.unwrap();
    wire.lead_to(replica.port);
    wire.lose_decision();
    let status = try_next(&client, next("other")).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    // The server also leaves a primary that was demoted on an open connection: by then its address
    // belongs to the successor.
    assert_eq!(try_next(&client, next("other")).await.unwrap_err().code(), Code::Unavailable);
    wire.lead_to(redis.port);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    while try_next(&client, next("other")).await.is_err() {}
}
