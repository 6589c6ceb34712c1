//! J3: the first answer to a call is lost, and its caller asks another server, which has a cached
//! refusal of the pool.

use std::time::Duration;

use pb::AdmitDecision;
use tollgate_client::pb;

use super::denials::LONG;
use crate::support::{
    rates::configured,
    world::{Undated, World, length},
};

/// The longest `retry_after` of a refusal that may be wrong for its task.
const SOON: Duration = Duration::from_secs(1);

/// Returns two servers on one Redis, with this configuration.
async fn servers(config: &str) -> [World; 2] {
    let here = World::with_rules(true, configured(config)).await;
    let there = beside(&here, config).await;
    [here, there]
}

/// Returns a further server on the same Redis. It knows nothing about the decisions of the others.
async fn beside(world: &World, config: &str) -> World {
    World::on(world.time().engine_beside(), world.time().clone(), configured(config)).await
}

/// Makes a server cache the refusal of a pool.
async fn cache(world: &World, pool: &str) {
    let refused = world.admit(pool, "stranger", "t").await;
    assert_eq!(refused.decision(), AdmitDecision::Full, "{refused:?}");
    let cached = world.admit(pool, "another stranger", "t").await;
    assert!(cached.usage.unwrap().cached, "{cached:?}");
}

/// Whether a repeat is answered with this lease. A refusal must ask the caller to repeat soon.
fn is_replayed(answer: &pb::AdmitTaskResponse, lease: &pb::Lease) -> bool {
    if answer.decision() == AdmitDecision::Full {
        assert!(length(answer.retry_after) <= SOON, "{answer:?}");
        return false;
    }
    assert!(answer.replayed, "{answer:?}");
    assert_eq!(answer.lease.undated(), Some(lease.undated()));
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn j3_a_repeat_at_another_server_is_answered_with_its_lease() {
    let [first, second] = servers(LONG).await;
    let lease = first.admit("p", "dev", "job").await.lease.unwrap();
    cache(&second, "p").await;
    let repeat = second.admit("p", "dev", "job").await;
    assert!(is_replayed(&repeat, &lease), "{repeat:?}");
    // A server that was restarted no longer knows to whom it granted leases.
    drop(first);
    let restarted = beside(&second, LONG).await;
    cache(&restarted, "p").await;
    let repeat = restarted.admit("p", "dev", "job").await;
    assert!(is_replayed(&repeat, &lease), "{repeat:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn j3_a_repeat_at_another_server_is_answered_with_its_lease_among_a_hundred() {
    let [first, second] = servers(&LONG.replace("capacity = 1\n", "capacity = 128\n")).await;
    // The longest names.
    let (device, task) = (|number| format!("{number:d>256}"), "j".repeat(256));
    let mut leases = Vec::new();
    for number in 0..128 {
        leases.push(first.admit("p", &device(number), &task).await.lease.unwrap());
    }
    cache(&second, "p").await;
    for (number, lease) in leases.iter().enumerate() {
        let repeat = second.admit("p", &device(number), &task).await;
        assert!(is_replayed(&repeat, lease), "{repeat:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j3_a_repeat_for_a_large_pool_is_answered_within_a_second() {
    let [first, second] = servers(&LONG.replace("capacity = 1\n", "capacity = 300\n")).await;
    let lease = first.admit("p", "dev", "job").await.lease.unwrap();
    for device in 1..300 {
        first.admit("p", &format!("d{device}"), "job").await;
    }
    cache(&second, "p").await;
    let mut repeat = second.admit("p", "dev", "job").await;
    if !is_replayed(&repeat, &lease) {
        second.advance(SOON).await;
        repeat = second.admit("p", "dev", "job").await;
    }
    assert!(is_replayed(&repeat, &lease), "{repeat:?}");
}
