//! Dead tasks that are queued again.

use std::time::Duration;

use pb::{
    AdmitDecision, CancelVerdict, CompleteVerdict, EnqueueStatus, PoolEventKind as Kind,
    RequeueVerdict, TaskState,
};
use tollgate_client::pb;

use crate::{
    events::watch::Events,
    support::{
        queue::{attempts, batch, queued},
        rates::configured,
        world::{START, World, admit, complete},
    },
};

on_both_engines! {
    a_dead_task_is_queued_again_at_the_tail,
    a_large_payload_survives_the_death_of_its_task,
    a_late_result_completes_a_requeued_task,
    a_requeued_task_dies_again,
    a_silent_attempt_that_ended_counts_before_the_sweep,
    a_task_after_its_time_is_not_queued_again,
    only_a_dead_task_is_queued_again,
}

/// Queues the tasks of the device `d` and uses up their only attempts.
async fn dead(world: &World, tasks: &[&str]) {
    world.client.clone().configure_pool(attempts("p", 1)).await.unwrap();
    let tasks: Vec<_> = tasks.iter().map(|task| ("d", *task)).collect();
    world.enqueue("p", &tasks).await;
    for (_, task) in tasks {
        assert_eq!(world.report("p", "d").await.unwrap().task, task);
        world.fail("p", "d", task).await;
    }
}

async fn a_dead_task_is_queued_again_at_the_tail(world: World) {
    dead(&world, &["a", "b"]).await;
    world.enqueue("p", &[("d", "c")]).await;
    let token = world.listed("p", TaskState::Dead).await[0].fencing_token;
    assert_eq!(world.requeue("p", "d", "a").await, RequeueVerdict::Requeued);
    assert_eq!(world.requeue("p", "d", "a").await, RequeueVerdict::AlreadyQueued);
    assert_eq!(world.queued("p").await, 2);
    assert_eq!(world.tasks("p", TaskState::Dead).await.len(), 1);
    let listed = world.listed("p", TaskState::Queued).await;
    let names: Vec<_> = listed.iter().map(|task| (&*task.task_id, task.attempt)).collect();
    assert_eq!(names, [("c", 0), ("a", 0)]);
    assert_eq!(listed[1].fencing_token, token);
    // Each report checks the payload.
    assert_eq!(world.report("p", "d").await.unwrap().task, "c");
    world.complete("p", "d", "c").await;
    let again = world.report("p", "d").await.unwrap();
    assert_eq!((&*again.task, again.attempt), ("a", 1));
    assert!(again.token > token);
    assert_eq!(world.requeue("p", "d", "a").await, RequeueVerdict::AlreadyQueued);
    assert_eq!(world.complete("p", "d", "a").await.verdict(), CompleteVerdict::Completed);
    let expected = [
        (Kind::Enqueued, 0, 0),
        (Kind::Admitted, token, 1),
        (Kind::Completed, token, 1),
        (Kind::Dead, token, 1),
        (Kind::Enqueued, token, 0),
        (Kind::Admitted, again.token, 1),
        (Kind::Completed, again.token, 1),
    ];
    let mut events = Events::watch(&world.client, "p", Some("0")).await;
    for (kind, token, attempt) in expected {
        let mut event = events.next().await;
        while event.task_id != "a" {
            event = events.next().await;
        }
        assert_eq!((event.kind(), event.fencing_token, event.attempt), (kind, token, attempt));
    }
}

async fn a_requeued_task_dies_again(world: World) {
    dead(&world, &["a"]).await;
    world.client.clone().configure_pool(attempts("p", 2)).await.unwrap();
    assert_eq!(world.requeue("p", "d", "a").await, RequeueVerdict::Requeued);
    for attempt in 1..=2 {
        assert_eq!(world.report("p", "d").await.unwrap().attempt, attempt);
        world.fail("p", "d", "a").await;
    }
    assert_eq!(world.tasks("p", TaskState::Dead).await.len(), 1);
    assert_eq!(world.requeue("p", "d", "a").await, RequeueVerdict::Requeued);
    assert_eq!(world.cancel("p", "d", "a").await, (CancelVerdict::Cancelled, false));
    assert_eq!(world.report("p", "d").await, Err(AdmitDecision::NoTask));
    // A requeued task does not end with the retention of the dead one.
    dead(&world, &["b"]).await;
    world.requeue("p", "d", "b").await;
    world.advance(Duration::from_secs(2 * 3600)).await;
    assert_eq!(world.report("p", "d").await.unwrap().task, "b");
}

async fn a_silent_attempt_that_ended_counts_before_the_sweep(world: World) {
    world.client.clone().configure_pool(attempts("p", 1)).await.unwrap();
    world.enqueue("p", &[("d", "a")]).await;
    world.report("p", "d").await.unwrap();
    assert_eq!(world.requeue("p", "d", "a").await, RequeueVerdict::AlreadyQueued);
    world.outlive().await;
    assert_eq!(world.requeue("p", "d", "a").await, RequeueVerdict::Requeued);
    assert_eq!(world.report("p", "d").await.unwrap().attempt, 1);
}

async fn a_late_result_completes_a_requeued_task(world: World) {
    world.client.clone().configure_pool(attempts("p", 1)).await.unwrap();
    world.enqueue("p", &[("d", "a")]).await;
    let token = world.report("p", "d").await.unwrap().token;
    world.outlive().await;
    assert_eq!(world.requeue("p", "d", "a").await, RequeueVerdict::Requeued);
    let late = pb::CompleteTaskRequest { fencing_token: Some(token), ..complete("p", "d", "a") };
    let late = world.client.clone().complete_task(late).await.unwrap().into_inner();
    assert_eq!(late.verdict(), CompleteVerdict::Late);
    assert_eq!(world.report("p", "d").await, Err(AdmitDecision::NoTask));
    assert_eq!(world.requeue("p", "d", "a").await, RequeueVerdict::NotDead);
}

async fn only_a_dead_task_is_queued_again(world: World) {
    assert_eq!(world.requeue("p", "d", "none").await, RequeueVerdict::Unknown);
    world.admit("p", "d", "named").await;
    assert_eq!(world.requeue("p", "d", "named").await, RequeueVerdict::Unknown);
    world.complete("p", "d", "named").await;
    dead(&world, &["a", "b"]).await;
    world.cancel("p", "d", "a").await;
    for task in ["named", "a"] {
        assert_eq!(world.requeue("p", "d", task).await, RequeueVerdict::NotDead, "{task}");
    }
    world.advance(Duration::from_secs(3601)).await;
    for task in ["named", "a", "b"] {
        assert_eq!(world.requeue("p", "d", task).await, RequeueVerdict::Unknown, "{task}");
    }
    assert_eq!(world.queued("p").await, 0);
}

async fn a_task_after_its_time_is_not_queued_again(world: World) {
    world.client.clone().configure_pool(attempts("p", 1)).await.unwrap();
    let expire_time = |seconds: i64| {
        let seconds = START as i64 / 1_000_000 + seconds;
        Some(prost_types::Timestamp { seconds, nanos: 0 })
    };
    let timed =
        |task, seconds| pb::QueuedTask { expire_time: expire_time(seconds), ..queued("d", task) };
    let tasks = vec![timed("a", 100), timed("b", 100), timed("c", 100)];
    world.client.clone().enqueue_tasks(batch("p", tasks)).await.unwrap();
    for task in ["a", "b"] {
        world.report("p", "d").await.unwrap();
        world.fail("p", "d", task).await;
    }
    assert_eq!(world.requeue("p", "d", "a").await, RequeueVerdict::Requeued);
    world.advance(Duration::from_secs(100)).await;
    // One task dead before its time, one queued again, and one queued all the time.
    for task in ["b", "a", "c"] {
        assert_eq!(world.requeue("p", "d", task).await, RequeueVerdict::Expired, "{task}");
    }
    assert_eq!(world.queued("p").await, 0);
}

async fn a_large_payload_survives_the_death_of_its_task(world: World) {
    world.client.clone().configure_pool(attempts("p", 1)).await.unwrap();
    let large = pb::QueuedTask { payload: vec![7; 65_536].into(), ..queued("d", "a") };
    let tasks = batch("p", vec![large.clone()]);
    world.client.clone().enqueue_tasks(tasks.clone()).await.unwrap();
    let run = async || {
        let report = admit("p", "d", "");
        world.client.clone().admit_task(report).await.unwrap().into_inner().task.unwrap().payload
    };
    assert_eq!(run().await, large.payload);
    world.fail("p", "d", "a").await;
    assert_eq!(world.requeue("p", "d", "a").await, RequeueVerdict::Requeued);
    assert_eq!(run().await, large.payload);
    world.fail("p", "d", "a").await;
    // A new task does not get the payload of a forgotten task with the same name, and the payload
    // uses no memory.
    world.advance(Duration::from_secs(3601)).await;
    assert_eq!(world.enqueue("p", &[("d", "a")]).await, [EnqueueStatus::Enqueued]);
    let fields = world.tamper(&["HLEN", "{}:{admission:p}:queued"]).await;
    assert!(fields.is_none_or(|fields| fields == ::redis::Value::Int(1)));
    assert_eq!(world.report("p", "d").await.unwrap().task, "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_leaves_a_task_dead() {
    let rules = || configured("[[pool]]\nmatch = \"p\"\nqueued_max = 1\n");
    for world in [World::with_rules(false, rules()).await, World::with_rules(true, rules()).await] {
        dead(&world, &["a"]).await;
        world.enqueue("p", &[("d", "b")]).await;
        assert_eq!(world.requeue("p", "d", "a").await, RequeueVerdict::Full);
        assert_eq!(world.tasks("p", TaskState::Dead).await.len(), 1);
        world.cancel("p", "d", "b").await;
        assert_eq!(world.requeue("p", "d", "a").await, RequeueVerdict::Requeued);
    }
}
