//! Serial numbers when Redis fails over and loses writes.

use std::time::Duration;

use tollgate_core::{
    acknowledgement::Acknowledgement,
    names::Name,
    sequence::{Allocation, NextSequence, Reserve, ReserveSequence, ReservedBlock, Sequence},
};
use tonic::Code;

use crate::support::{
    process::{OwnRedis, Server, TempFile},
    rates::configured,
    sequences::{LAYOUTS, answering, floor, many, named, next, patient, try_next},
    twins::{States, Twins},
    wire::Wire,
    world::{Sequences, World},
};

const RESERVE: &str = "[[sequence]]\nmatch = \"order*\"\nreserve = 50\n";

/// Fails over to a replica that misses the last `lost` writes. The server is redirected from the
/// primary to the replica. Returns the values before and after the failover.
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
            // Without a replica no further values are reserved.
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
async fn with_reserve_values_stay_distinct_after_a_failover() {
    let plain = "[[sequence]]\nmatch = \"order\"\nreserve = 50\n";
    let day = "[[sequence]]\nmatch = \"order\"\nreserve = 50\nlayout = \"{yyyyMMdd}{n:06}\"\n";
    for (config, key) in [(plain, "order"), (day, "order\x1fday/999999")] {
        let (before, after) = fail_over(config, "order", key, 80).await;
        // The replica has the reservation of all values, but misses the last values.
        assert!((40..80).contains(&before.len()), "{before:?}");
        let all = [&before[..], &after[..]].concat();
        assert!(all.is_sorted_by(|one, next| one < next), "{all:?}");
        // At most the reserved values are skipped.
        assert!(after[0] - before[before.len() - 1] <= 53, "{before:?}, then {after:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_reserve_a_failover_repeats_lost_values_except_past_times() {
    let (before, after) = fail_over("", "order", "order", 20).await;
    assert!(after.iter().any(|value| before.contains(value)), "{before:?}, then {after:?}");
    let key = "stamp\x1fmillisecond/100";
    let (before, after) = fail_over(LAYOUTS, "stamp", key, 20).await;
    let all = [&before[..], &after[..]].concat();
    assert!(all.is_sorted_by(|one, next| one < next), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_reserved_in_another_epoch_are_skipped() {
    let config = "[[sequence]]\nmatch = \"*\"\nreserve = 1000\nwait_replicas = 0\n";
    let world = World::with_rules(true, crate::support::rates::configured(config)).await;
    assert_eq!(world.next(many(10, next("order"))).await.last, 10);
    let key = "{}:{sequence:order}:counter";
    // As after a restart that kept the reservation and lost later writes.
    world.tamper(&["HSET", key, "last", "1", "epoch", "another"]).await;
    // The reservation reached up to 1,020.
    assert_eq!(world.next(next("order")).await.first, 1021);
    assert_eq!(world.next(next("order")).await.first, 1022);
    // A request for more values than a block gets them, and the largest value can be reached.
    assert_eq!(world.next(many(10_000, next("order"))).await.last, 11_022);
    let most = i64::MAX as u64;
    assert_eq!(world.next(floor(most - 1, next("order"))).await.first, most - 1);
    assert_eq!(world.next(next("order")).await.first, most);
    assert_eq!(world.refused(next("order")).await.code(), Code::OutOfRange);
}

/// Waits until the counter of the replica equals the counter of the primary.
async fn in_step(primary: &OwnRedis, replica: &OwnRedis, key: &str) {
    let stored = ["HGETALL", &format!("tollgate:{{sequence:{key}}}:counter")];
    while replica.command(&stored).await != primary.command(&stored).await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_promoted_again_repeats_no_value() {
    let (mut primary, mut replica) = (OwnRedis::prepare(), OwnRedis::prepare());
    primary.start().await;
    replica.start().await;
    let between = Wire::to(primary.port).await;
    follow(&replica, between.port).await;
    let config = TempFile::new(RESERVE);
    let server = Server::start(&["--engine", &primary.url(), "--config", config.path()]).await;
    let client = Sequences::connect(server.address()).await.unwrap();
    let mut values = Vec::new();
    while values.is_empty() {
        values.extend(try_next(&client, next("order")).await.map(|given| given.first));
    }
    in_step(&primary, &replica, "order").await;
    between.cut();
    for _ in 0..20 {
        values.push(try_next(&client, next("order")).await.unwrap().first);
    }
    // The replica is promoted, but gets no call. Then the first primary is promoted again: the same
    // process, on the same connections.
    replica.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    follow(&primary, replica.port).await;
    in_step(&replica, &primary, "order").await;
    primary.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    follow(&replica, primary.port).await;
    while values.len() < 40 {
        values.extend(try_next(&client, next("order")).await.map(|given| given.first));
    }
    assert!(values.is_sorted_by(|one, next| one < next), "{values:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_replicas_delay_only_sequences_that_need_them() {
    let (mut redis, mut replica) = (OwnRedis::prepare(), OwnRedis::prepare());
    redis.start().await;
    let config = TempFile::new(RESERVE);
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    let client = answering(&server, "other").await;
    let orders = |client: &Sequences| {
        let mut waiting = tokio::task::JoinSet::new();
        for number in 0..100 {
            let mut client = client.clone();
            let mut request = tonic::Request::new(next(&format!("order {number}")));
            request.set_timeout(Duration::from_secs(10));
            waiting.spawn(async move { client.next_sequence(request).await });
        }
        waiting
    };
    let waiting = orders(&client);
    for number in 2..200 {
        assert_eq!(try_next(&client, next("other")).await.unwrap().first, number);
    }
    for refused in waiting.join_all().await {
        let status = refused.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    }
    // With a replica, all calls are answered after a short wait.
    replica.start().await;
    follow(&replica, redis.port).await;
    while try_next(&client, next("order 0")).await.is_err() {}
    for given in orders(&client).join_all().await {
        given.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_for_info_nothing_is_reserved() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    redis.command(&["ACL", "SETUSER", "default", "-info"]).await.unwrap();
    let config = TempFile::new(RESERVE);
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    let client = answering(&server, "other").await;
    let status = try_next(&client, next("order")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_with_and_without_reserve_give_out_distinct_values() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let config = TempFile::new(&format!("{RESERVE}wait_replicas = 0\n"));
    let reserving = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    let plain = Server::start(&["--engine", &redis.url()]).await;
    let (mut clients, mut values) = (Vec::new(), Vec::new());
    for server in [&reserving, &plain] {
        clients.push(answering(server, "other").await);
    }
    for turn in 0..20 {
        // Rounds of different lengths, so that some blocks are not used up.
        for _ in 0..=turn % 3 {
            values.push(try_next(&clients[turn % 2], next("order")).await.unwrap().first);
        }
    }
    assert!(values.is_sorted_by(|one, next| one < next), "{values:?}");
    // The reservation reached up to 52: a server without `reserve` skips it.
    assert_eq!(values[..3], [1, 53, 54]);

    // Concurrent calls that cannot be merged still share one reservation.
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..200 {
        let client = clients[0].clone();
        let asked = many(3, named(&format!("{number}"), floor(60, next("order"))));
        calls.spawn(async move { try_next(&client, asked).await.unwrap().first });
    }
    let mut firsts = calls.join_all().await;
    firsts.sort_unstable();
    assert!(firsts.is_sorted_by(|one, next| one + 3 <= *next), "{firsts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_never_dates_a_serial_beyond_ahead_max() {
    let entry = "[[sequence]]\nmatch = \"*\"\nlayout = \"{yyyyMMdd}-{n:02}\"\n";
    let config = format!("{entry}ahead_max = \"0s\"\nreserve = 99\nwait_replicas = 0\n");
    let world = World::with_rules(true, configured(&config)).await;
    assert_eq!(world.next(next("day")).await.serials, ["20260101-01"]);
    // A failover skips the rest of the day's numbers, and no numbers of another day.
    let key = "{}:{sequence:day\x1fday/99}:counter";
    world.tamper(&["HSET", key, "epoch", "another"]).await;
    assert_eq!(world.refused(next("day")).await.code(), Code::OutOfRange);
    world.advance(Duration::from_secs(86_400)).await;
    assert_eq!(world.next(next("day")).await.serials, ["20260102-01"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_reservation_keeps_up_with_the_clock() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let entry = "[[sequence]]\nmatch = \"*\"\nlayout = \"timestamp17\"\n";
    // Even if no serial may be ahead of the clock.
    let rest = "ahead_max = \"0s\"\nreserve = 10\nwait_replicas = 0\n";
    let config = TempFile::new(&format!("{entry}{rest}"));
    // Each reply is delayed, and the clock advances during the delay.
    let slow = Wire::to(redis.port).await;
    slow.delay(Duration::from_millis(3));
    let url = format!("redis://127.0.0.1:{}", slow.port);
    let server = Server::start(&["--engine", &url, "--config", config.path()]).await;
    let mut client = answering(&server, "warm").await;
    let mut last = 0;
    for _ in 0..50 {
        let given = client.next_sequence(patient(next("stamp"))).await.unwrap().into_inner();
        assert!(given.first > last, "{given:?} after {last}");
        last = given.last;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_of_another_epoch_is_invalid() {
    let (twins, mut states) = (Twins::new().await, States::new());
    let sequence = Sequence::new(&Name::parse("order".into()).unwrap(), None);
    let reserve = ReserveSequence {
        sequence: sequence.clone(),
        last: 1,
        ahead: 9,
        acknowledgement: Acknowledgement::NONE,
    };
    let ours = twins.both(&mut states, &reserve).await.1.unwrap();
    let foreign = ReservedBlock { upto: 10, epoch: b"another".to_vec() };
    for (confirmed, given) in [(None, false), (Some(foreign), false), (Some(ours), true)] {
        let next = NextSequence {
            sequence: sequence.clone(),
            count: 1,
            step: 1,
            floor: None,
            request: None,
            reserve: Some(Reserve { block: 5, acknowledgement: Acknowledgement::NONE }),
            confirmed: confirmed.clone(),
        };
        let outcome = twins.both(&mut states, &next).await.1.unwrap();
        let expected = if given {
            matches!(outcome, Allocation::Given { .. })
        } else {
            outcome == Allocation::Unreserved { last: 1 }
        };
        assert!(expected, "{confirmed:?}: {outcome:?}");
    }
}
