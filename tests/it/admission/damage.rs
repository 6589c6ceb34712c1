//! Stored values that the scripts did not write: A9 and A10.

use std::{collections::HashSet, time::Duration};

use pb::{CompleteVerdict, EnqueueStatus, RenewVerdict};
use tollgate_client::pb;
use tonic::Code;

use crate::{
    admission::scenarios::fill,
    support::world::{World, admit, complete, configure, duration, evict},
};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(300);

on_both_engines! {
    a9_an_unreadable_queued_task_can_be_dropped,
    a9_an_unreadable_record_of_an_ended_lease_blocks_no_call,
    a9_a_decision_that_cannot_write_everything_writes_nothing,
    a9_an_unreadable_value_affects_one_pool_only,
    a10_state_restored_without_ttls_heals,
    a10_a_lost_token_record_shortens_no_lease,
}

async fn a9_an_unreadable_value_affects_one_pool_only(world: World) {
    let broken: [(&str, &[&str]); 18] = [
        ("attempts", &["SET", "{}:{admission:attempts}:settings", ",,,,0"]),
        ("events", &["SET", "{}:{admission:events}:events", "7"]),
        ("queued", &["SET", "{}:{admission:queued}:queued", "7"]),
        ("backlog", &["SET", "{}:{admission:backlog}:backlog", "7"]),
        ("text", &["SET", "{}:{admission:text}:settings", "sixty"]),
        ("capacity", &["SET", "{}:{admission:capacity}:settings", "99999999999999999999,,,"]),
        ("large", &["SET", "{}:{admission:large}:settings", "5000000000,,,"]),
        ("lease", &["SET", "{}:{admission:lease}:settings", "5,99999999999999999999,,"]),
        ("short", &["SET", "{}:{admission:short}:settings", "5,0,,"]),
        ("paused", &["SET", "{}:{admission:paused}:settings", ",,,7"]),
        ("hash", &["HSET", "{}:{admission:hash}:settings", "capacity", "2"]),
        ("token", &["SET", "{}:{admission:token}:token", "text"]),
        ("digits", &["SET", "{}:{admission:digits}:token", "99999999999999999999 5"]),
        ("exact", &["SET", "{}:{admission:exact}:token", "9007199254740993 5"]),
        ("set", &["SADD", "{}:{admission:set}:token", "1"]),
        ("kind", &["SET", "{}:{admission:kind}:leases", "60"]),
        ("list", &["RPUSH", "{}:{admission:list}:leases", "1", "2"]),
        (
            "member",
            &[
                "ZADD",
                "{}:{admission:member}:leases",
                "9e15",
                "a\x1ft\x1f1\x1f1\x1f99999999999999999999999",
            ],
        ),
    ];
    for (pool, command) in broken {
        if world.tamper(command).await.is_none() {
            continue; // The embedded engine's values cannot be reached.
        }
        let mut client = world.client.clone();
        let calls = [
            client.admit_task(admit(pool, "d0", "t")).await.map(drop),
            client.get_pool(pb::GetPoolRequest { pool: pool.into() }).await.map(drop),
        ];
        let failed = calls.iter().filter_map(|call| call.as_ref().err());
        let codes: HashSet<Code> = failed.map(|status| status.code()).collect();
        assert_eq!(codes, HashSet::from([Code::Internal]), "{pool}");
        // A call that fails with INTERNAL has written nothing.
        let leases =
            world.tamper(&["EXISTS", &format!("{{}}:{{admission:{pool}}}:task:d0\x1ft")]).await;
        let granted = calls[0].is_ok();
        assert_eq!(leases, Some(::redis::Value::Int(granted.into())), "{pool}");
        fill(&world, "other", 0..1).await;
        let listed = client.list_pools(pb::ListPoolsRequest::default()).await.unwrap();
        assert!(listed.get_ref().pools.iter().any(|listed| listed.pool == "other"));
        world.configure(pb::ConfigurePoolRequest { reset: Some(true), ..configure(pool) }).await;
        fill(&world, pool, 0..1).await;
        assert_eq!(world.in_use(pool).await, 1, "{pool}");
    }

    let record = "{}:{admission:p}:task:d0\x1ft";
    for command in [&["SET", record, "text"][..], &["RPUSH", record, "1"]] {
        fill(&world, "p", 0..2).await;
        if world.tamper(&["DEL", record]).await.is_none() {
            return;
        }
        world.tamper(command).await;
        let mut client = world.client.clone();
        let status = client.complete_task(complete("p", "d0", "t")).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal);
        assert_eq!(world.renew("p", "d1", "t").await.verdict(), RenewVerdict::Renewed);
        client.evict_task(evict("p", "d0", "t")).await.unwrap();
        assert_eq!(world.complete("p", "d0", "t").await.verdict(), CompleteVerdict::Unknown);
    }
}

async fn a9_a_decision_that_cannot_write_everything_writes_nothing(world: World) {
    for part in ["due", "backlog"] {
        let pool = part;
        world.enqueue(pool, &[("d", "t"), ("d", "next")]).await;
        world.report(pool, "d").await.unwrap();
        let key = format!("{{}}:{{admission:{pool}}}:{part}");
        if world.tamper(&["DEL", &key]).await.is_none() {
            return; // The embedded engine's values cannot be reached.
        }
        world.tamper(&["SET", &key, "7"]).await;
        let before = left(&world, pool).await;
        let mut client = world.client.clone();
        let tasks = vec![crate::support::queue::queued("e", "t")];
        let batch = client.enqueue_tasks(crate::support::queue::batch(pool, tasks)).await.unwrap();
        assert_eq!(batch.get_ref().results[0].status(), EnqueueStatus::Unreadable);
        let cancel =
            pb::CancelTaskRequest { pool: pool.into(), device_id: "d".into(), task_id: "t".into() };
        let requeue = pb::RequeueTaskRequest {
            pool: pool.into(),
            device_id: "d".into(),
            task_id: "t".into(),
        };
        let calls = [
            client.requeue_task(requeue).await.map(drop),
            client.cancel_task(cancel).await.map(drop),
            client.complete_task(complete(pool, "d", "t")).await.map(drop),
            client.renew_task(crate::support::world::renew(pool, "d", "t")).await.map(drop),
        ];
        for call in calls {
            assert_eq!(call.unwrap_err().code(), Code::Internal, "{part}");
        }
        assert_eq!(left(&world, pool).await, before, "{part}: a failed call wrote something");
    }
}

/// Returns the number of events, leases and queued tasks; `None` on the embedded engine.
async fn left(world: &World, pool: &str) -> Vec<Option<::redis::Value>> {
    let mut left = Vec::new();
    for (command, part) in [("LLEN", "events"), ("ZCARD", "leases"), ("HLEN", "queued")] {
        left.push(world.tamper(&[command, &format!("{{}}:{{admission:{pool}}}:{part}")]).await);
    }
    left
}

async fn a9_an_unreadable_record_of_an_ended_lease_blocks_no_call(world: World) {
    world.enqueue("p", &[("d", "t")]).await;
    world.report("p", "d").await.unwrap();
    let broken = ["HSET", "{}:{admission:p}:queued", "d\x1ft", "text"];
    if world.tamper(&broken).await.is_none() {
        return; // The embedded engine's values cannot be reached.
    }
    world.outlive().await;
    fill(&world, "p", 0..1).await;
    assert_eq!(world.in_use("p").await, 1);
}

async fn a9_an_unreadable_queued_task_can_be_dropped(world: World) {
    world.enqueue("p", &[("d", "t"), ("d", "next"), ("e", "t")]).await;
    let broken = ["HSET", "{}:{admission:p}:queued", "d\x1ft", "text"];
    if world.tamper(&broken).await.is_none() {
        return; // The embedded engine's values cannot be reached.
    }
    let mut client = world.client.clone();
    let status = client.admit_task(admit("p", "d", "")).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert_eq!(world.report("p", "e").await.unwrap().task, "t");
    client.evict_task(evict("p", "d", "t")).await.unwrap();
    assert_eq!(world.report("p", "d").await.unwrap().task, "next");
    assert_eq!(world.queued("p").await, 2);
}

async fn a10_state_restored_without_ttls_heals(world: World) {
    fill(&world, "p", 0..60).await;
    for key in world.keys().await {
        world.tamper(&["PERSIST", &format!("{{}}:{key}")]).await;
    }
    world.advance(LEASE).await;
    fill(&world, "p", 60..61).await;
    assert_eq!(world.in_use("p").await, 1);
    for part in ["leases", "token"] {
        let ttl = world.tamper(&["PTTL", &format!("{{}}:{{admission:p}}:{part}")]).await;
        assert!(matches!(ttl, None | Some(::redis::Value::Int(1..))), "{part} {ttl:?}");
    }
}

async fn a10_a_lost_token_record_shortens_no_lease(world: World) {
    let day = Some(duration(86_400 * SECOND));
    let long = pb::AdmitTaskRequest { lease_duration: day, ..admit("p", "long", "t") };
    world.client.clone().admit_task(long).await.unwrap();
    world.tamper(&["DEL", "{}:{admission:p}:token"]).await;
    let short = Some(duration(SECOND));
    let short = pb::AdmitTaskRequest { lease_duration: short, ..admit("p", "short", "t") };
    world.client.clone().admit_task(short).await.unwrap();
    let ttl = world.tamper(&["PTTL", "{}:{admission:p}:leases"]).await;
    assert!(matches!(ttl, None | Some(::redis::Value::Int(86_400_000..))), "{ttl:?}");
}
