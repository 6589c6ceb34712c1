//! Queued tasks: the reports of a device dispatch them until they are done.

use std::time::Duration;

use pb::{AdmitDecision, CompleteVerdict, EnqueueStatus, EvictVerdict, RenewVerdict, TaskState};
use tollgate_client::pb;

use crate::support::{
    queue::{Dispatch, attempts},
    world::{World, capacity, complete},
};

on_both_engines! {
    a_batch_is_queued_once,
    a_device_out_of_attempts_waits_for_its_slot,
    a_failed_task_is_dispatched_again,
    a_full_pool_leaves_a_task_queued,
    a_late_result_ends_a_queued_task,
    a_named_task_is_dispatched_too,
    a_report_gets_the_oldest_task_of_the_device,
    a_repeated_report_gets_the_same_task,
    a_task_of_a_silent_device_is_dispatched_again_until_it_is_dead,
    an_evicted_task_is_dispatched_again,
    attempts_can_be_set_at_run_time,
    devices_do_not_share_a_queue,
    a_known_task_is_not_queued_again,
}

async fn a_report_gets_the_oldest_task_of_the_device(world: World) {
    let tasks = [("d", "c"), ("e", "x"), ("d", "a"), ("d", "b")];
    assert_eq!(world.enqueue("p", &tasks).await, [EnqueueStatus::Enqueued; 4]);
    assert_eq!(world.queued("p").await, 4);
    for task in ["c", "a", "b"] {
        let dispatch = world.report("p", "d").await.unwrap();
        assert_eq!((&*dispatch.task, dispatch.attempt), (task, 1));
        world.complete("p", "d", task).await;
    }
    assert_eq!(world.report("p", "d").await, Err(AdmitDecision::NoTask));
    assert_eq!(world.queued("p").await, 1);
}

async fn a_repeated_report_gets_the_same_task(world: World) {
    world.enqueue("p", &[("d", "a"), ("d", "b")]).await;
    let first = world.report("p", "d").await.unwrap();
    let second = world.report("p", "d").await.unwrap();
    assert_eq!(second, Dispatch { replayed: true, ..first });
    assert_eq!(world.report("p", "other").await, Err(AdmitDecision::NoTask));
}

async fn a_batch_is_queued_once(world: World) {
    let names: Vec<String> = (0..1000).map(|i| format!("d{i:03}")).collect();
    let tasks: Vec<_> = names.iter().map(|device| (&**device, "t")).collect();
    assert_eq!(world.enqueue("p", &tasks).await, [EnqueueStatus::Enqueued; 1000]);
    assert_eq!(world.enqueue("p", &tasks).await, [EnqueueStatus::Duplicate; 1000]);
    assert_eq!(world.queued("p").await, 1000);
    // Even if one batch contains the task twice.
    let twice = world.enqueue("p", &[("d", "t"), ("d", "t")]).await;
    assert_eq!(twice, [EnqueueStatus::Enqueued, EnqueueStatus::Duplicate]);
    let pools = world.client.clone().list_pools(pb::ListPoolsRequest::default()).await;
    assert_eq!(pools.unwrap().into_inner().pools.len(), 1);
}

async fn a_known_task_is_not_queued_again(world: World) {
    world.admit("p", "d", "named").await;
    world.enqueue("p", &[("d", "done"), ("d", "cancelled")]).await;
    world.report("p", "d").await.unwrap();
    world.complete("p", "d", "done").await;
    world.cancel("p", "d", "cancelled").await;
    let known = [("d", "named"), ("d", "done"), ("d", "cancelled")];
    assert_eq!(world.enqueue("p", &known).await, [EnqueueStatus::Duplicate; 3]);
    assert_eq!(world.report("p", "d").await, Err(AdmitDecision::NoTask));
    world.advance(Duration::from_secs(2 * 3600)).await;
    assert_eq!(world.enqueue("p", &known).await, [EnqueueStatus::Enqueued; 3]);
}

async fn a_task_of_a_silent_device_is_dispatched_again_until_it_is_dead(world: World) {
    world.enqueue("p", &[("d", "a"), ("d", "b")]).await;
    let mut tokens = Vec::new();
    for attempt in 1..=3 {
        let dispatch = world.report("p", "d").await.unwrap();
        assert_eq!((&*dispatch.task, dispatch.attempt, dispatch.replayed), ("a", attempt, false));
        tokens.push(dispatch.token);
        world.outlive().await;
    }
    assert!(tokens.is_sorted_by(|one, other| one < other));
    assert_eq!(world.report("p", "d").await.unwrap().task, "b");
    let dead = ("d".to_owned(), "a".to_owned(), TaskState::Dead);
    assert_eq!(world.tasks("p", TaskState::Dead).await, [dead]);
    assert_eq!(world.admit_queued("p", "d", "a").await, Err(AdmitDecision::AlreadyCompleted));
    assert_eq!(world.queued("p").await, 1);
}

async fn a_failed_task_is_dispatched_again(world: World) {
    world.enqueue("p", &[("d", "a")]).await;
    for attempt in 1..=3 {
        let dispatch = world.report("p", "d").await.unwrap();
        assert_eq!(dispatch.attempt, attempt);
        let failed = world.fail("p", "d", "a").await;
        assert_eq!(failed.verdict(), CompleteVerdict::Completed);
        assert_eq!(failed.usage.unwrap().in_use, 0);
        // The first result of an attempt is final.
        assert_eq!(world.fail("p", "d", "a").await.verdict(), CompleteVerdict::AlreadyCompleted);
        let done = world.complete("p", "d", "a").await.verdict();
        assert_eq!(done, CompleteVerdict::AlreadyCompleted);
        assert_eq!(world.renew("p", "d", "a").await.verdict(), RenewVerdict::Completed);
    }
    assert_eq!(world.report("p", "d").await, Err(AdmitDecision::NoTask));
    assert_eq!(world.tasks("p", TaskState::Dead).await.len(), 1);
}

async fn a_late_result_ends_a_queued_task(world: World) {
    world.enqueue("p", &[("d", "a"), ("d", "b")]).await;
    let first = world.report("p", "d").await.unwrap();
    world.outlive().await;
    assert_eq!(world.complete("p", "d", "a").await.verdict(), CompleteVerdict::Late);
    let next = world.report("p", "d").await.unwrap();
    assert_eq!(next.task, "b");
    // The token of an earlier attempt does not end a later one.
    world.outlive().await;
    let again = world.report("p", "d").await.unwrap();
    assert_eq!((&*again.task, again.attempt), ("b", 2));
    for token in [first.token, next.token] {
        let stale =
            pb::CompleteTaskRequest { fencing_token: Some(token), ..complete("p", "d", "b") };
        let stale = world.client.clone().complete_task(stale).await.unwrap().into_inner();
        assert_eq!(stale.verdict(), CompleteVerdict::StaleToken);
    }
    // A late result also ends a dead task.
    world.outlive().await;
    assert_eq!(world.report("p", "d").await.unwrap().attempt, 3);
    world.outlive().await;
    assert_eq!(world.report("p", "d").await, Err(AdmitDecision::NoTask));
    assert_eq!(world.complete("p", "d", "b").await.verdict(), CompleteVerdict::Late);
    assert!(world.tasks("p", TaskState::Dead).await.is_empty());
    assert_eq!(world.complete("p", "d", "b").await.verdict(), CompleteVerdict::AlreadyCompleted);
}

async fn a_full_pool_leaves_a_task_queued(world: World) {
    world.client.clone().configure_pool(capacity("p", 1)).await.unwrap();
    world.enqueue("p", &[("d", "a"), ("e", "b")]).await;
    world.report("p", "d").await.unwrap();
    assert_eq!(world.report("p", "e").await, Err(AdmitDecision::Full));
    assert_eq!(world.report("p", "none").await, Err(AdmitDecision::NoTask));
    world.client.clone().configure_pool(capacity("p", 0)).await.unwrap();
    assert_eq!(world.report("p", "e").await, Err(AdmitDecision::Paused));
    assert!(world.report("p", "d").await.unwrap().replayed);
    world.client.clone().configure_pool(capacity("p", 1)).await.unwrap();
    world.complete("p", "d", "a").await;
    assert_eq!(world.report("p", "e").await.unwrap().attempt, 1);
}

async fn a_device_out_of_attempts_waits_for_its_slot(world: World) {
    let grace = pb::ConfigurePoolRequest {
        expiry_grace: Some(crate::support::world::duration(Duration::from_secs(60))),
        ..attempts("p", 2)
    };
    world.client.clone().configure_pool(grace).await.unwrap();
    world.enqueue("p", &[("d", "a"), ("d", "b")]).await;
    let first = world.report("p", "d").await.unwrap();
    // Within the grace the task gets its own slot again.
    world.outlive().await;
    let second = world.report("p", "d").await.unwrap();
    assert_eq!((second.attempt, second.replayed), (2, false));
    assert!(second.token > first.token);
    assert_eq!(world.view("p").await.usage.unwrap().in_use, 1);
    world.outlive().await;
    assert_eq!(world.report("p", "d").await, Err(AdmitDecision::Full));
    assert_eq!(world.tasks("p", TaskState::Running).await.len(), 1);
    world.advance(Duration::from_secs(60)).await;
    assert_eq!(world.report("p", "d").await.unwrap().task, "b");
}

async fn an_evicted_task_is_dispatched_again(world: World) {
    world.client.clone().configure_pool(attempts("p", 2)).await.unwrap();
    world.enqueue("p", &[("d", "a")]).await;
    assert_eq!(world.evict("p", "d", "a").await.verdict(), EvictVerdict::Unknown);
    world.report("p", "d").await.unwrap();
    for replayed in [false, true] {
        let evicted = world.evict("p", "d", "a").await;
        assert_eq!((evicted.verdict(), evicted.replayed), (EvictVerdict::Evicted, replayed));
    }
    assert_eq!(world.renew("p", "d", "a").await.verdict(), RenewVerdict::Expired);
    assert_eq!(world.report("p", "d").await.unwrap().attempt, 2);
    assert_eq!(world.evict("p", "d", "a").await.verdict(), EvictVerdict::Evicted);
    assert_eq!(world.tasks("p", TaskState::Dead).await.len(), 1);
    assert_eq!(world.complete("p", "d", "a").await.verdict(), CompleteVerdict::Late);
}

async fn a_named_task_is_dispatched_too(world: World) {
    world.enqueue("p", &[("d", "a"), ("d", "b")]).await;
    assert_eq!(world.admit_queued("p", "d", "b").await.unwrap().attempt, 1);
    assert_eq!(world.report("p", "d").await.unwrap().task, "a");
    assert!(world.admit_queued("p", "d", "b").await.unwrap().replayed);
    for task in ["b", "a"] {
        assert_eq!(world.complete("p", "d", task).await.verdict(), CompleteVerdict::Completed);
    }
    assert_eq!(world.queued("p").await, 0);
}

async fn attempts_can_be_set_at_run_time(world: World) {
    let pool = world.client.clone().configure_pool(attempts("p", 1)).await.unwrap();
    let config = pool.into_inner().pool.unwrap().config.unwrap();
    assert_eq!((config.max_attempts, &*config.overrides), (1, &["max_attempts".to_owned()][..]));
    world.enqueue("p", &[("d", "a"), ("d", "b")]).await;
    world.report("p", "d").await.unwrap();
    world.outlive().await;
    assert_eq!(world.report("p", "d").await.unwrap().task, "b");
    let reset =
        pb::ConfigurePoolRequest { pool: "p".into(), reset: Some(true), ..Default::default() };
    world.client.clone().configure_pool(reset).await.unwrap();
    assert_eq!(world.view("p").await.config.unwrap().max_attempts, 3);
    world.outlive().await;
    assert_eq!(world.report("p", "d").await.unwrap().attempt, 2);
}

async fn devices_do_not_share_a_queue(world: World) {
    let devices = ["a", "a b", "ab", "a ", "b", "é", "a}", "a%7D", "*", "ab:", "é1"];
    for device in devices {
        world.enqueue("p", &[(device, "t"), (device, "t 2")]).await;
    }
    for device in devices {
        assert_eq!(world.report("p", device).await.unwrap().task, "t", "{device}");
        world.complete("p", device, "t").await;
    }
    assert_eq!(world.report("p", "a b c").await, Err(AdmitDecision::NoTask));
    assert_eq!(world.report("q", "a").await, Err(AdmitDecision::NoTask));
    assert_eq!(world.queued("p").await, devices.len() as u64);
}
