//! Each change of a pool is one event, even the end of a lease that no call causes.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use pb::{Outcome, PoolEventKind as Kind};
use tollgate_client::pb;

use crate::{
    events::watch::Events,
    support::{
        process::{OwnRedis, Server, TempFile},
        queue::{attempts, batch, queued},
        rates::configured,
        stocks::patient,
        world::{START, World, admit, capacity, configure, duration, micros},
    },
};

on_both_engines! {
    every_change_is_an_event,
    leases_end_without_a_call,
    queued_tasks_end_without_a_call,
    a_lease_within_its_grace_has_no_expired_event,
    a_call_without_effect_is_no_event,
}

/// Kind, task, attempt and outcome of the first `number` events.
async fn told(world: &World, pool: &str, number: usize) -> Vec<(Kind, String, u32, Outcome)> {
    let mut events = Events::watch(&world.client, pool, Some("0")).await;
    let mut told = Vec::new();
    for _ in 0..number {
        let event = events.next().await;
        let (kind, outcome) = (event.kind(), event.outcome());
        told.push((kind, event.task_id, event.attempt, outcome));
    }
    told
}

async fn every_change_is_an_event(world: World) {
    const NONE: Outcome = Outcome::Unspecified;
    world.client.clone().configure_pool(attempts("p", 2)).await.unwrap();
    world.enqueue("p", &[("d", "a"), ("d", "b"), ("d", "c")]).await;
    world.report("p", "d").await.unwrap();
    world.renew("p", "d", "a").await;
    world.fail("p", "d", "a").await;
    world.report("p", "d").await.unwrap();
    world.outlive().await;
    // The report ends the last attempt, and dispatches the next task.
    world.report("p", "d").await.unwrap();
    world.evict("p", "d", "b").await;
    world.complete("p", "d", "b").await;
    world.cancel("p", "d", "c").await;
    world.admit("p", "d", "named").await;
    world.complete("p", "d", "named").await;
    let expected = [
        (Kind::Configured, "", 0, NONE),
        (Kind::Enqueued, "a", 0, NONE),
        (Kind::Enqueued, "b", 0, NONE),
        (Kind::Enqueued, "c", 0, NONE),
        (Kind::Admitted, "a", 1, NONE),
        (Kind::Renewed, "a", 1, NONE),
        (Kind::Completed, "a", 1, Outcome::Failed),
        (Kind::Admitted, "a", 2, NONE),
        (Kind::Expired, "a", 2, NONE),
        (Kind::Dead, "a", 2, NONE),
        (Kind::Admitted, "b", 1, NONE),
        (Kind::Evicted, "b", 1, NONE),
        (Kind::Late, "b", 1, Outcome::Succeeded),
        (Kind::Cancelled, "c", 0, NONE),
        (Kind::Admitted, "named", 0, NONE),
        (Kind::Completed, "named", 0, Outcome::Succeeded),
    ];
    let told = told(&world, "p", expected.len()).await;
    let told: Vec<_> = told.iter().map(|(k, task, a, o)| (*k, &**task, *a, *o)).collect();
    assert_eq!(told, expected);
}

async fn a_call_without_effect_is_no_event(world: World) {
    world.client.clone().configure_pool(capacity("p", 1)).await.unwrap();
    world.enqueue("p", &[("d", "a")]).await;
    world.report("p", "d").await.unwrap();
    for _ in 0..2 {
        world.client.clone().configure_pool(capacity("p", 1)).await.unwrap();
        world.client.clone().configure_pool(configure("p")).await.unwrap();
        world.enqueue("p", &[("d", "a")]).await;
        world.report("p", "d").await.unwrap();
        world.report("p", "nobody").await.unwrap_err();
        world.admit("p", "full", "t").await;
        world.complete("p", "nobody", "t").await;
        world.renew("p", "nobody", "t").await;
        world.evict("p", "nobody", "t").await;
        world.cancel("p", "nobody", "t").await;
    }
    world.complete("p", "d", "a").await;
    world.complete("p", "d", "a").await;
    world.cancel("p", "d", "a").await;
    world.admit("p", "d", "a").await;
    world.enqueue("p", &[("d", "last")]).await;
    let kinds: Vec<Kind> = told(&world, "p", 5).await.iter().map(|(kind, ..)| *kind).collect();
    let expected =
        [Kind::Configured, Kind::Enqueued, Kind::Admitted, Kind::Completed, Kind::Enqueued];
    assert_eq!(kinds, expected);
}

async fn leases_end_without_a_call(world: World) {
    let mut events = Events::watch(&world.client, "p", None).await;
    let lease = world.admit("p", "d", "t").await.lease.unwrap();
    assert_eq!(events.next().await.kind(), Kind::Admitted);
    world.outlive().await;
    let expired = events.next().await;
    assert_eq!((expired.kind(), expired.fencing_token), (Kind::Expired, lease.fencing_token));
    // Exactly one event. The sweeper finds the end of the next lease, too.
    world.admit("p", "d", "later").await;
    assert_eq!(events.next().await.task_id, "later");
    world.outlive().await;
    let expired = events.next().await;
    assert_eq!((expired.kind(), &*expired.task_id), (Kind::Expired, "later"));
}

async fn a_lease_within_its_grace_has_no_expired_event(world: World) {
    let grace = pb::ConfigurePoolRequest {
        expiry_grace: Some(duration(Duration::from_secs(60))),
        ..configure("p")
    };
    world.client.clone().configure_pool(grace).await.unwrap();
    world.admit("p", "d", "t").await;
    world.admit("p", "e", "t").await;
    world.outlive().await;
    world.complete("p", "d", "t").await;
    world.advance(Duration::from_secs(60)).await;
    let mut events = Events::watch(&world.client, "p", Some("0")).await;
    let kinds = [Kind::Configured, Kind::Admitted, Kind::Admitted, Kind::Late, Kind::Expired];
    for kind in kinds {
        assert_eq!(events.next().await.kind(), kind);
    }
}

async fn queued_tasks_end_without_a_call(world: World) {
    let mut events = Events::watch(&world.client, "p", None).await;
    world.client.clone().configure_pool(attempts("p", 1)).await.unwrap();
    let in_a_minute = prost_types::Timestamp { seconds: START as i64 / 1_000_000 + 60, nanos: 0 };
    let timed = pb::QueuedTask { expire_time: Some(in_a_minute), ..queued("d", "timed") };
    let tasks = vec![timed, queued("e", "silent")];
    world.client.clone().enqueue_tasks(batch("p", tasks)).await.unwrap();
    world.report("p", "e").await.unwrap();
    for kind in [Kind::Configured, Kind::Enqueued, Kind::Enqueued, Kind::Admitted] {
        assert_eq!(events.next().await.kind(), kind);
    }
    world.advance(Duration::from_secs(60)).await;
    let expired = events.next().await;
    assert_eq!((expired.kind(), &*expired.task_id), (Kind::Expired, "timed"));
    assert_eq!(expired.fencing_token, 0);
    world.outlive().await;
    assert_eq!(events.next().await.kind(), Kind::Expired);
    assert_eq!(events.next().await.kind(), Kind::Dead);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_leases_that_end_together_have_one_event_each() {
    let rules = || configured("[[pool]]\nmatch = \"p\"\ncapacity = 10000\nhistory = 30000\n");
    for world in [World::with_rules(false, rules()).await, World::with_rules(true, rules()).await] {
        let mut client = world.client.clone();
        let tasks: Vec<_> = (0..10_000).map(|device| queued(&format!("d{device}"), "t")).collect();
        for tasks in tasks.chunks(1000) {
            client.enqueue_tasks(patient(batch("p", tasks.to_vec()))).await.unwrap();
        }
        let admits = (0..10_000).map(|device| {
            let mut client = client.clone();
            let report = patient(admit("p", &format!("d{device}"), ""));
            async move { client.admit_task(report).await.unwrap() }
        });
        stream::iter(admits).buffer_unordered(50).collect::<Vec<_>>().await;
        world.outlive().await;
        // The next call works, even if other ended leases are not swept yet.
        let again = world.report("p", "d0").await.unwrap();
        assert_eq!(again.attempt, 2);
        let mut events = Events::watch(&world.client, "p", Some("0")).await;
        let (mut expired, mut running) = (HashSet::new(), 0_u32);
        while expired.len() < 10_000 {
            let event = events.next().await;
            match event.kind() {
                Kind::Admitted => {
                    assert!(running < event.capacity());
                    running += 1;
                }
                Kind::Expired => {
                    assert!(expired.insert(event.fencing_token), "twice");
                    running -= 1;
                }
                kind => assert_eq!(kind, Kind::Enqueued),
            }
        }
        assert_eq!(running, 1);
    }
}

/// Delay of each EXPIRED event after the end of its lease, on the engine's clock.
async fn delays(events: &mut Events, number: usize) -> Vec<Duration> {
    let (mut ends, mut delays) = (HashMap::new(), Vec::new());
    while delays.len() < number {
        let event = events.next().await;
        match event.kind() {
            Kind::Admitted => {
                ends.insert(event.fencing_token, micros(event.event_time) + LEASE_MICROS);
            }
            Kind::Expired => {
                let late = micros(event.event_time) - ends[&event.fencing_token];
                delays.push(Duration::from_micros(late));
            }
            kind => panic!("{kind:?}"),
        }
    }
    delays
}

const LEASE_MICROS: u64 = 1_000_000;
/// Far more than the 2 s of the contract, since the machine may be busy.
const DELAY_MAX: Duration = Duration::from_secs(8);

fn short(pool: &str, device: &str) -> pb::AdmitTaskRequest {
    pb::AdmitTaskRequest {
        lease_duration: Some(duration(Duration::from_micros(LEASE_MICROS))),
        ..admit(pool, device, "t")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_thousands_of_ended_leases_appear_soon_without_a_call() {
    let config = TempFile::new("[[pool]]\nmatch = \"*\"\ncapacity = 10000\n");
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    for engine in ["embedded", &redis.url()] {
        let server = Server::start(&["--engine", engine, "--config", config.path()]).await;
        let client = server.client().await;
        while client.clone().admit_task(short("warm", "d")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let admits = (0..4000).map(|device| {
            let mut client = client.clone();
            let admit = patient(short("p", &format!("d{device}")));
            async move { client.admit_task(admit).await.unwrap() }
        });
        stream::iter(admits).buffer_unordered(50).collect::<Vec<_>>().await;
        let mut events = Events::watch(&client, "p", Some("0")).await;
        let latest = delays(&mut events, 4000).await.into_iter().max().unwrap();
        assert!(latest < DELAY_MAX, "{engine}: {latest:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_without_its_index_is_still_swept() {
    let mut redis = OwnRedis::prepare();
    redis.start_with(&["--appendonly", "no"]).await;
    // Otherwise the pool is held for one lease after the loss.
    let config = TempFile::new("[redis]\non_store_loss = \"continue\"\n");
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    let mut client = server.client().await;
    while client.admit_task(short("p", "before")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    redis.kill();
    redis.start_with(&["--appendonly", "no"]).await;
    while client.admit_task(short("p", "after")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut events = Events::watch(&client, "p", Some("0")).await;
    let delay = delays(&mut events, 1).await[0];
    assert!(delay < DELAY_MAX, "{delay:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_sweeps_when_one_dies() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let sweeper = async || redis.command(&["GET", "tollgate:{index:admission}:sweeper"]).await;
    let first = Server::start(&["--engine", &redis.url()]).await;
    while sweeper().await.unwrap() == ::redis::Value::Nil {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let leader = sweeper().await.unwrap();
    let second = Server::start(&["--engine", &redis.url()]).await;
    let mut client = second.client().await;
    while client.admit_task(short("p", "d")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(sweeper().await.unwrap(), leader, "the first one sweeps");
    drop(first);
    let mut events = Events::watch(&client, "p", Some("0")).await;
    let admitted = events.next().await;
    assert_eq!(admitted.kind(), Kind::Admitted);
    let expired = events.next().await;
    assert_eq!((expired.kind(), expired.fencing_token), (Kind::Expired, admitted.fencing_token));
    assert!(micros(expired.event_time) >= micros(admitted.event_time) + LEASE_MICROS);
    assert_ne!(sweeper().await.unwrap(), leader);
}
