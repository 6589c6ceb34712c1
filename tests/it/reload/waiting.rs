//! Capacities change while tasks run and while calls wait.

use std::time::Duration;

use tollgate_client::pb::{AdmitDecision, AdmitTaskResponse};
use tonic::Request;

use super::{PATIENCE, Reloads, pool};
use crate::support::requests::{admit, duration};

/// Returns a call that waits for a slot.
fn waiter(reloads: &Reloads, task: &str) -> tokio::task::JoinHandle<AdmitTaskResponse> {
    let mut client = reloads.world.client.clone();
    let mut request = Request::new(admit("p", "d", task));
    request.get_mut().max_wait = Some(duration(Duration::from_secs(50)));
    request.set_timeout(PATIENCE);
    tokio::spawn(async move { client.admit_task(request).await.unwrap().into_inner() })
}

/// Waits until the pool has this number of waiters.
async fn waiters(reloads: &Reloads, count: u32) {
    let wait = async {
        while reloads.world.pool("p").await.waiters != count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the calls wait");
}

async fn a_lowered_capacity_drains_and_applies_to_waiting_calls(redis: bool) {
    let reloads = Reloads::start(redis, &pool("p", 3)).await;
    for task in ["one", "two", "three"] {
        let answer = reloads.world.admit("p", "d", task).await;
        assert_eq!(answer.decision(), AdmitDecision::Admitted);
    }
    let waiting = waiter(&reloads, "four");
    waiters(&reloads, 1).await;
    reloads.write(&pool("p", 1));
    reloads.reload().await;
    // Nothing ends: three tasks run in a pool of one.
    assert_eq!(reloads.world.in_use("p").await, 3);
    for (task, left) in [("one", 2), ("two", 1)] {
        reloads.world.complete("p", "d", task).await;
        // Meanwhile the waiting call has heartbeats and wake-ups.
        for _ in 0..20 {
            assert_eq!(reloads.world.in_use("p").await, left, "the waiting call was admitted");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    reloads.world.complete("p", "d", "three").await;
    let answer = tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert_eq!(answer.decision(), AdmitDecision::Admitted);
    assert_eq!(reloads.world.in_use("p").await, 1);
}

async fn a_raised_capacity_admits_waiting_calls(redis: bool) {
    let reloads = Reloads::start(redis, &pool("p", 1)).await;
    reloads.world.admit("p", "d", "one").await;
    let waiting = waiter(&reloads, "two");
    waiters(&reloads, 1).await;
    reloads.write(&pool("p", 2));
    reloads.reload().await;
    let answer = tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert_eq!(answer.decision(), AdmitDecision::Admitted);
    assert_eq!(reloads.world.in_use("p").await, 2);
}

mod embedded {
    #[tokio::test(flavor = "multi_thread")]
    async fn a_lowered_capacity_drains_and_applies_to_waiting_calls() {
        super::a_lowered_capacity_drains_and_applies_to_waiting_calls(false).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_raised_capacity_admits_waiting_calls() {
        super::a_raised_capacity_admits_waiting_calls(false).await;
    }
}

mod redis {
    #[tokio::test(flavor = "multi_thread")]
    async fn a_lowered_capacity_drains_and_applies_to_waiting_calls() {
        super::a_lowered_capacity_drains_and_applies_to_waiting_calls(true).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_raised_capacity_admits_waiting_calls() {
        super::a_raised_capacity_admits_waiting_calls(true).await;
    }
}
