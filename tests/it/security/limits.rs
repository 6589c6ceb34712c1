//! The limits of `[[namespace]]`. A call above a limit is refused with the name of the limit and a
//! time to retry. Leases can still be renewed and completed.

use std::time::Duration;

use pb::{AdmitDecision, CompleteVerdict, EnqueueStatus, RenewVerdict};
use tokio::time::timeout;
use tollgate_client::pb;
use tonic::Status;
use tonic_types::StatusExt;

use crate::support::{
    queue::{batch, queued},
    rates::configured,
    world::{World, admit, assert_at_limit, renew, seconds},
};

const PATIENCE: Duration = Duration::from_secs(30);

/// Returns a world whose default namespace has these limits.
pub(super) async fn limited(redis: bool, limits: &str) -> World {
    World::with_rules(redis, configured(&format!("[[namespace]]\nmatch = \"\"\n{limits}"))).await
}

pub(super) fn assert_limit(refused: &Status, limit: &str, value: u64) {
    assert_at_limit(refused, "NAMESPACE_LIMIT");
    let details = refused.get_error_details();
    let metadata = &details.error_info().unwrap().metadata;
    assert_eq!((&*metadata["limit"], &*metadata["value"]), (limit, &*value.to_string()));
}

/// Starts a call that waits for a slot of the full pool `p`, and waits until it is in the queue.
async fn wait_in_line(world: &World) {
    let (mut client, max_wait) = (world.client.clone(), Some(seconds(60.0)));
    let request = pb::AdmitTaskRequest { max_wait, ..admit("p", "waiting", "t") };
    tokio::spawn(async move { client.admit_task(request).await });
    let come = async {
        while world.pool("p").await.waiters != 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, come).await.expect("the call never waited");
}

/// Fills the pool `p`.
async fn fill(world: &World) {
    for device in 0..60 {
        let admitted = world.admit("p", &format!("d{device}"), "t").await;
        assert_eq!(admitted.decision(), AdmitDecision::Admitted);
    }
}

/// Renews and completes a lease of the pool `p`.
pub(super) async fn renew_and_complete(world: &World) {
    assert_eq!(world.renew("p", "d0", "t").await.verdict(), RenewVerdict::Renewed);
    assert_eq!(world.complete("p", "d0", "t").await.verdict(), CompleteVerdict::Completed);
}

async fn waiting_calls_have_a_limit(world: World) {
    fill(&world).await;
    wait_in_line(&world).await;
    let request =
        pb::AdmitTaskRequest { max_wait: Some(seconds(60.0)), ..admit("p", "other", "t") };
    let refused = world.client.clone().admit_task(request).await.unwrap_err();
    assert_limit(&refused, "waiting_max", 1);
    renew_and_complete(&world).await;
}

async fn calls_in_flight_have_a_limit(world: World) {
    fill(&world).await;
    // Repeats until it is accepted: the other calls of this test count towards the limit, too.
    let (mut client, max_wait) = (world.client.clone(), Some(seconds(60.0)));
    let request = pb::AdmitTaskRequest { max_wait, ..admit("p", "waiting", "t") };
    tokio::spawn(async move { while client.admit_task(request.clone()).await.is_err() {} });
    let refused = async {
        loop {
            let request = pb::GetPoolRequest { pool: "p".into() };
            match world.client.clone().get_pool(request).await {
                Ok(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(refused) => return refused,
            }
        }
    };
    let refused = timeout(PATIENCE, refused).await.expect("no call was refused");
    assert_limit(&refused, "in_flight_max", 1);
    renew_and_complete(&world).await;
}

async fn calls_per_second_have_a_limit(world: World) {
    let mut refused = None;
    for device in 0..1000 {
        let admit = admit("p", &format!("d{device}"), "t");
        match world.client.clone().admit_task(admit).await {
            Ok(_) => {}
            Err(status) => refused = Some(status),
        }
        if refused.is_some() {
            break;
        }
    }
    assert_limit(&refused.expect("no call was refused"), "calls_per_second", 3);
    renew_and_complete(&world).await;
}

async fn watchers_have_a_limit(world: World) {
    let watch = || pb::WatchPoolRequest { pool: "p".into(), after: None };
    let stream = world.client.clone().watch_pool(watch()).await.unwrap();
    let refused = world.client.clone().watch_pool(watch()).await.unwrap_err();
    assert_limit(&refused, "watchers_max", 1);
    drop(stream);
    let again = async {
        while world.client.clone().watch_pool(watch()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, again).await.expect("the place of an ended watch never becomes free");
}

async fn connections_have_a_limit(world: World) {
    fill(&world).await;
    let mut other = world.connect().await;
    let refused = other.admit_task(admit("p", "d0", "t")).await.unwrap_err();
    assert_limit(&refused, "connections_max", 1);
    // A connection above the limit can still renew leases.
    assert_eq!(
        other.renew_task(renew("p", "d0", "t")).await.unwrap().into_inner().verdict(),
        RenewVerdict::Renewed
    );
}

/// A closed connection does not count towards the limit.
async fn a_closed_connection_makes_room(world: World) {
    let mut first = world.connect().await;
    let mut second = world.connect().await;
    first.admit_task(admit("p", "d0", "t")).await.unwrap();
    let refused = second.admit_task(admit("p", "d1", "t")).await.unwrap_err();
    assert_limit(&refused, "connections_max", 1);
    drop(first);
    let again = async {
        while second.admit_task(admit("p", "d1", "t")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, again).await.expect("a closed connection still counts");
}

macro_rules! on_both_engines {
    ($($name:ident: $limits:literal;)*) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() {
                super::$name(super::limited(false, $limits).await).await
            })*
        }
        mod redis {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() {
                super::$name(super::limited(true, $limits).await).await
            })*
        }
    };
}

on_both_engines! {
    waiting_calls_have_a_limit: "waiting_max = 1";
    calls_in_flight_have_a_limit: "in_flight_max = 1";
    calls_per_second_have_a_limit: "calls_per_second = 3";
    watchers_have_a_limit: "watchers_max = 1";
    connections_have_a_limit: "connections_max = 1";
    a_closed_connection_makes_room: "connections_max = 1";
}

#[tokio::test(flavor = "multi_thread")]
async fn names_have_a_limit_on_the_embedded_engine() {
    let world = limited(false, "names_max = 2").await;
    for pool in ["p", "q"] {
        assert_eq!(world.admit(pool, "d0", "t").await.decision(), AdmitDecision::Admitted);
    }
    let refused = world.client.clone().admit_task(admit("r", "d0", "t")).await.unwrap_err();
    assert_limit(&refused, "names_max", 2);
    let lock = pb::AcquireLockRequest { name: "l".into(), owner: "o".into(), ..Default::default() };
    let refused = world.locks.clone().acquire_lock(lock).await.unwrap_err();
    assert_limit(&refused, "names_max", 2);
    assert_eq!(world.admit("p", "d1", "t").await.decision(), AdmitDecision::Admitted);
    renew_and_complete(&world).await;
    // A name counts until its state has expired.
    assert_eq!(world.complete("q", "d0", "t").await.verdict(), CompleteVerdict::Completed);
    world.advance(Duration::from_secs(3 * 86_400)).await;
    let again = async {
        while world.client.clone().admit_task(admit("r", "d0", "t")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, again).await.expect("a name that is forgotten still counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_have_a_limit_on_the_embedded_engine() {
    let world = limited(false, "leases_max = 2").await;
    assert_eq!(world.admit("p", "d0", "t").await.decision(), AdmitDecision::Admitted);
    assert_eq!(world.admit("q", "d0", "t").await.decision(), AdmitDecision::Admitted);
    let refused = world.client.clone().admit_task(admit("p", "d1", "t")).await.unwrap_err();
    assert_limit(&refused, "leases_max", 2);
    let repeated = world.admit("p", "d0", "t").await;
    assert!(repeated.replayed, "a repeat gets its lease");
    renew_and_complete(&world).await;
    assert_eq!(world.admit("p", "d1", "t").await.decision(), AdmitDecision::Admitted);
    let refused = world.client.clone().admit_task(admit("r", "d1", "t")).await.unwrap_err();
    assert_limit(&refused, "leases_max", 2);
    // Ended leases count until the sweeper has removed them.
    world.advance(Duration::from_secs(301)).await;
    let again = async {
        while world.client.clone().admit_task(admit("r", "d1", "t")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, again).await.expect("an ended lease still counts");
    assert_eq!(world.admit("r", "d2", "t").await.decision(), AdmitDecision::Admitted);
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_tasks_have_a_limit_on_the_embedded_engine() {
    let world = limited(false, "queued_max = 3").await;
    let task = |task: &str| batch("p", vec![queued("d", task)]);
    world.client.clone().enqueue_tasks(task("1")).await.unwrap();
    world.client.clone().enqueue_tasks(batch("q", vec![queued("d", "1")])).await.unwrap();
    world.client.clone().enqueue_tasks(task("2")).await.unwrap();
    let refused = world.client.clone().enqueue_tasks(task("3")).await.unwrap_err();
    assert_limit(&refused, "queued_max", 3);
    assert_eq!(world.enqueue("p", &[("d", "1")]).await, [EnqueueStatus::Duplicate]);
    let cancel =
        pb::CancelTaskRequest { pool: "p".into(), device_id: "d".into(), task_id: "1".into() };
    world.client.clone().cancel_task(cancel).await.unwrap();
    assert_eq!(world.enqueue("p", &[("d", "3")]).await, [EnqueueStatus::Enqueued]);
}
