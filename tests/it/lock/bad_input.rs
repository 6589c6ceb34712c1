//! Invalid requests about locks, and unreadable state of locks.

use std::time::Duration;

use tollgate_client::pb;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::support::{
    locks::{Keeper, acquire, leased, release, renew, waiting},
    world::{World, admit, seconds},
};

on_both_engines! {
    every_bad_field_is_named_and_nothing_is_written,
    unreadable_state_affects_one_lock_only,
    an_unreadable_queue_affects_one_pool_only,
}

fn fields(status: &Status) -> Vec<String> {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_error_details();
    let violations = &details.bad_request().unwrap().field_violations;
    violations.iter().map(|bad| bad.field.clone()).collect()
}

async fn every_bad_field_is_named_and_nothing_is_written(world: World) {
    let mut client = world.locks.clone();
    let long = "x".repeat(257);
    for (bad, expected) in [
        (acquire("", "a"), &["name"][..]),
        (acquire("l", ""), &["owner"]),
        (acquire(&long, "a\n"), &["name", "owner"]),
        (leased(0.0001, acquire("l", "a")), &[]),
        (leased(2_592_000.0, acquire("l", "a")), &[]),
        (leased(0.0, acquire("l", "a")), &["lease_duration"]),
        (leased(2_592_000.001, acquire("l", "a")), &["lease_duration"]),
        (waiting(60.001, acquire("l", "a")), &["max_wait"]),
        (
            waiting(90.0, leased(0.0, acquire("", ""))),
            &["name", "owner", "lease_duration", "max_wait"],
        ),
    ] {
        let answer = client.acquire_lock(bad.clone()).await;
        match expected {
            [] => {
                answer.unwrap();
                client.release_lock(release("l", "a")).await.unwrap();
                world.tamper(&["DEL", "{}:{lock:l}:lock"]).await;
            }
            expected => assert_eq!(fields(&answer.unwrap_err()), expected, "{bad:?}"),
        }
    }
    let negative = prost_types::Duration { seconds: -1, nanos: 0 };
    let mut bad = acquire("l", "a");
    (bad.lease_duration, bad.max_wait) = (Some(negative), Some(negative));
    let status = client.acquire_lock(bad).await.unwrap_err();
    assert_eq!(fields(&status), ["lease_duration", "max_wait"]);
    let bad = pb::RenewLockRequest { lease_duration: Some(seconds(0.0)), ..renew("\u{7}", "") };
    let status = client.renew_lock(bad).await.unwrap_err();
    assert_eq!(fields(&status), ["name", "owner", "lease_duration"]);
    let status = client.release_lock(release("", &long)).await.unwrap_err();
    assert_eq!(fields(&status), ["name", "owner"]);
    let bad = pb::GetLockRequest { name: long };
    assert_eq!(fields(&client.get_lock(bad).await.unwrap_err()), ["name"]);
    let bad = pb::AdmitTaskRequest { max_wait: Some(seconds(60.001)), ..admit("p", "d", "t") };
    let status = world.client.clone().admit_task(bad).await.unwrap_err();
    assert_eq!(fields(&status), ["max_wait"]);
    assert_eq!(world.keys().await, [] as [String; 0]);
}

async fn unreadable_state_affects_one_lock_only(world: World) {
    let broken: [(&str, &[&str]); 8] = [
        ("text", &["SET", "{}:{lock:text}:lock", "text"]),
        ("state", &["SET", "{}:{lock:state}:lock", "X 1 1 1 1000 a"]),
        ("token", &["SET", "{}:{lock:token}:lock", "H 9007199254740993 1 1 1000 a"]),
        ("digits", &["SET", "{}:{lock:digits}:lock", "H 1 1 99999999999999999999999 1000 a"]),
        ("length", &["SET", "{}:{lock:length}:lock", "H 1 1 1 2592000001 a"]),
        ("hash", &["HSET", "{}:{lock:hash}:lock", "owner", "a"]),
        ("queue", &["SET", "{}:{lock:queue}:queue", "text"]),
        ("score", &["ZADD", "{}:{lock:score}:queue", "inf", "somebody"]),
    ];
    let locks = Keeper::from_world(&world);
    for (name, command) in broken {
        if world.tamper(command).await.is_none() {
            return; // The embedded engine's values cannot be reached.
        }
        if name == "score" {
            // An entry without a waiting call is removed.
            locks.acquired(name, "a").await;
            continue;
        }
        let mut client = world.locks.clone();
        let get = pb::GetLockRequest { name: name.into() };
        let wait = waiting(5.0, acquire(name, "b"));
        let codes = [
            client.acquire_lock(acquire(name, "b")).await.map(drop),
            client.acquire_lock(wait).await.map(drop),
            client.get_lock(get).await.map(drop),
        ];
        for code in codes.map(|answer| answer.map_err(|status| status.code())) {
            assert_eq!(code, Err(Code::Internal), "{name}");
        }
        locks.acquired("other", "a").await;
        for part in ["lock", "queue"] {
            world.tamper(&["DEL", &format!("{{}}:{{lock:{name}}}:{part}")]).await;
        }
        locks.acquired(name, "a").await;
    }
    // With an unreadable `places` key no call can wait, but a free lock can still be acquired.
    locks.acquired("places", "a").await;
    world.tamper(&["SET", "{}:{lock:places}:places", "text"]).await;
    let wait = world.locks.clone().acquire_lock(waiting(5.0, acquire("places", "b"))).await;
    assert_eq!(wait.unwrap_err().code(), Code::Internal);
    assert!(locks.released(release("places", "a")).await);
    locks.acquired("places", "c").await;
}

async fn an_unreadable_queue_affects_one_pool_only(world: World) {
    for command in [
        &["SET", "{}:{admission:p}:queue", "text"][..],
        &["HSET", "{}:{admission:p}:queue", "a", "1"],
    ] {
        world.admit("p", "d0", "t").await;
        if world.tamper(command).await.is_none() {
            return; // The embedded engine's values cannot be reached.
        }
        let mut client = world.client.clone();
        let status = client.admit_task(admit("p", "d1", "t")).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal);
        // A task that holds a slot can still be completed.
        world.complete("p", "d0", "t").await;
        world.admit("other", "d", "t").await;
        let reset =
            pb::ConfigurePoolRequest { reset: Some(true), ..crate::support::world::configure("p") };
        client.configure_pool(reset).await.unwrap();
        let admitted = world.admit("p", "d1", "t").await;
        assert_eq!(admitted.decision(), pb::AdmitDecision::Admitted);
        world.advance(Duration::from_secs(300)).await;
        world.advance(Duration::from_secs(3600)).await;
    }
}
