//! How queued tasks end, and how they are listed.

use std::time::Duration;

use pb::{
    AdmitDecision, AttemptEnd, CancelVerdict, CompleteVerdict, EnqueueStatus, RenewVerdict,
    RequeueVerdict, TaskState,
};
use tollgate_client::pb;
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{
    queue::{attempts, batch, listing, queued},
    rates::configured,
    world::{World, duration, renew},
};

on_both_engines! {
    a_cancelled_task_is_not_dispatched,
    a_dead_task_is_listed_until_it_is_forgotten,
    a_running_task_can_be_cancelled,
    a_task_is_not_dispatched_after_its_time,
    the_end_of_the_last_attempt_is_listed,
    tasks_are_listed_in_pages,
}

async fn a_cancelled_task_is_not_dispatched(world: World) {
    world.enqueue("p", &[("d", "a"), ("d", "b")]).await;
    assert_eq!(world.cancel("p", "d", "a").await, (CancelVerdict::Cancelled, false));
    assert_eq!(world.cancel("p", "d", "a").await, (CancelVerdict::Cancelled, true));
    assert_eq!(world.cancel("p", "d", "none").await, (CancelVerdict::Unknown, false));
    assert_eq!(world.admit_queued("p", "d", "a").await, Err(AdmitDecision::AlreadyCompleted));
    assert_eq!(world.report("p", "d").await.unwrap().task, "b");
    world.complete("p", "d", "b").await;
    assert_eq!(world.cancel("p", "d", "b").await, (CancelVerdict::Completed, false));
    assert_eq!(world.complete("p", "d", "a").await.verdict(), CompleteVerdict::Unknown);
    // CancelTask applies to queued tasks only.
    world.admit("p", "d", "named").await;
    assert_eq!(world.cancel("p", "d", "named").await, (CancelVerdict::Unknown, false));
}

async fn a_dead_task_is_listed_until_it_is_forgotten(world: World) {
    world.client.clone().configure_pool(attempts("p", 1)).await.unwrap();
    world.enqueue("p", &[("d", "a"), ("d", "b")]).await;
    for task in ["a", "b"] {
        assert_eq!(world.report("p", "d").await.unwrap().task, task);
        world.fail("p", "d", task).await;
    }
    assert_eq!(world.tasks("p", TaskState::Dead).await.len(), 2);
    assert_eq!(world.cancel("p", "d", "a").await, (CancelVerdict::Cancelled, false));
    assert_eq!(world.tasks("p", TaskState::Dead).await.len(), 1);
    assert_eq!(world.tasks("p", TaskState::Cancelled).await.len(), 1);
    world.advance(Duration::from_secs(3601)).await;
    assert!(world.tasks("p", TaskState::Dead).await.is_empty());
    assert_eq!(world.cancel("p", "d", "b").await, (CancelVerdict::Unknown, false));
}

async fn a_running_task_can_be_cancelled(world: World) {
    world.enqueue("p", &[("d", "a"), ("e", "b")]).await;
    world.report("p", "d").await.unwrap();
    world.report("p", "e").await.unwrap();
    for replayed in [false, true] {
        assert_eq!(world.cancel("p", "d", "a").await, (CancelVerdict::Running, replayed));
        assert_eq!(world.cancel("p", "e", "b").await, (CancelVerdict::Running, replayed));
    }
    assert_eq!(world.view("p").await.usage.unwrap().in_use, 2);
    // A repeated admission of a running task gets its lease again.
    assert!(world.admit("p", "d", "a").await.replayed);
    assert_eq!(world.complete("p", "d", "a").await.verdict(), CompleteVerdict::Completed);
    assert_eq!(world.renew("p", "e", "b").await.verdict(), RenewVerdict::Renewed);
    world.outlive().await;
    assert_eq!(world.cancel("p", "e", "b").await, (CancelVerdict::Cancelled, true));
    assert_eq!(world.report("p", "e").await, Err(AdmitDecision::NoTask));
    assert_eq!(world.complete("p", "e", "b").await.verdict(), CompleteVerdict::Late);
}

async fn a_task_is_not_dispatched_after_its_time(world: World) {
    let ends = |seconds: i64| {
        let start = crate::support::world::START as i64 / 1_000_000;
        Some(prost_types::Timestamp { seconds: start + seconds, nanos: 0 })
    };
    let timed = |task, seconds| pb::QueuedTask { expire_time: ends(seconds), ..queued("d", task) };
    let tasks = vec![timed("past", 0), timed("a", 10), timed("b", 1000), timed("c", 1000)];
    let response = world.client.clone().enqueue_tasks(batch("p", tasks)).await.unwrap();
    let statuses: Vec<_> = response.into_inner().results.iter().map(|r| r.status()).collect();
    assert_eq!(statuses[0], EnqueueStatus::Expired);
    assert_eq!(statuses[1..], [EnqueueStatus::Enqueued; 3]);
    world.advance(Duration::from_secs(10)).await;
    // A running attempt may continue after the task's time, and is the last one.
    assert_eq!(world.report("p", "d").await.unwrap().task, "b");
    assert_eq!(world.tasks("p", TaskState::Expired).await.len(), 1);
    world.advance(Duration::from_secs(200)).await;
    world.renew("p", "d", "b").await;
    world.advance(Duration::from_secs(290)).await;
    world.client.clone().renew_task(renew("p", "d", "b")).await.unwrap();
    world.advance(Duration::from_secs(290)).await;
    world.renew("p", "d", "b").await;
    world.advance(Duration::from_secs(290)).await;
    assert_eq!(world.report("p", "d").await.unwrap().task, "b");
    world.outlive().await;
    assert_eq!(world.report("p", "d").await, Err(AdmitDecision::NoTask));
    assert_eq!(world.tasks("p", TaskState::Expired).await.len(), 3);
    assert_eq!(world.complete("p", "d", "b").await.verdict(), CompleteVerdict::Late);
    assert_eq!(world.complete("p", "d", "c").await.verdict(), CompleteVerdict::Unknown);
}

/// Returns how the last attempts of the devices' tasks ended, in the order of the devices.
async fn last_ends(world: &World, state: TaskState) -> Vec<AttemptEnd> {
    let mut tasks = world.listed("p", state).await;
    tasks.sort_by(|one, other| one.device_id.cmp(&other.device_id));
    tasks.iter().map(pb::Task::last_attempt_end).collect()
}

async fn the_end_of_the_last_attempt_is_listed(world: World) {
    const NONE: AttemptEnd = AttemptEnd::Unspecified;
    let grace = Some(duration(Duration::from_secs(10)));
    let settings = pb::ConfigurePoolRequest { expiry_grace: grace, ..attempts("p", 2) };
    world.client.clone().configure_pool(settings).await.unwrap();
    let devices = ["evicted", "failed", "late", "silent"];
    world.enqueue("p", &devices.map(|device| (device, "t"))).await;
    let ends = [AttemptEnd::Evicted, AttemptEnd::Failed, AttemptEnd::Failed, AttemptEnd::Expired];
    assert_eq!(last_ends(&world, TaskState::Queued).await, [NONE; 4]);
    for state in [TaskState::Queued, TaskState::Dead] {
        for device in devices {
            world.report("p", device).await.unwrap();
        }
        assert_eq!(last_ends(&world, TaskState::Running).await, [NONE; 4]);
        world.evict("p", "evicted", "t").await;
        world.fail("p", "failed", "t").await;
        // A lease in its grace still holds its slot.
        world.outlive().await;
        assert_eq!(last_ends(&world, TaskState::Running).await, [NONE; 2]);
        world.advance(Duration::from_secs(10)).await;
        if state == TaskState::Queued {
            let expired = [AttemptEnd::Expired; 2];
            assert_eq!(last_ends(&world, state).await, [&ends[..2], &expired].concat());
        }
        assert_eq!(world.fail("p", "late", "t").await.verdict(), CompleteVerdict::Late);
        // The report of the device, or the sweeper, moves the task out of the queue.
        if state == TaskState::Dead {
            assert_eq!(world.report("p", "silent").await, Err(AdmitDecision::NoTask));
        }
        assert_eq!(last_ends(&world, state).await, ends);
    }
    // The previous attempt stays the last one until the next dispatch.
    for device in devices {
        assert_eq!(world.requeue("p", device, "t").await, RequeueVerdict::Requeued);
    }
    assert_eq!(last_ends(&world, TaskState::Queued).await, ends);
    world.report("p", "failed").await.unwrap();
    assert_eq!(last_ends(&world, TaskState::Running).await, [NONE]);
    // A cancelled task whose lease still runs.
    world.cancel("p", "failed", "t").await;
    assert_eq!(last_ends(&world, TaskState::Cancelled).await, [NONE]);
    world.advance(Duration::from_secs(311)).await;
    assert_eq!(last_ends(&world, TaskState::Cancelled).await, [AttemptEnd::Expired]);
}

async fn tasks_are_listed_in_pages(world: World) {
    world.client.clone().configure_pool(attempts("p", 1)).await.unwrap();
    for device in ["b", "a", "c"] {
        for task in ["3", "1", "2", "4"] {
            world.enqueue("p", &[(device, task)]).await;
        }
    }
    let all = world.tasks("p", TaskState::Unspecified).await;
    let names: Vec<String> =
        all.iter().map(|(device, task, _)| format!("{device}{task}")).collect();
    assert_eq!(names.join(" "), "a3 a1 a2 a4 b3 b1 b2 b4 c3 c1 c2 c4");
    for device in ["a", "b", "c"] {
        world.report("p", device).await.unwrap();
        world.fail("p", device, "3").await;
        world.report("p", device).await.unwrap();
        world.cancel("p", device, "2").await;
    }
    for (state, tasks) in [
        (TaskState::Running, "1"),
        (TaskState::Queued, "4"),
        (TaskState::Dead, "3"),
        (TaskState::Cancelled, "2"),
        (TaskState::Expired, ""),
    ] {
        let listed = world.tasks("p", state).await;
        assert!(listed.iter().all(|(_, task, is)| (&**task, *is) == (tasks, state)), "{listed:?}");
        assert_eq!(listed.len(), if tasks.is_empty() { 0 } else { 3 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_queues_at_most_queued_max_tasks() {
    let rules = || configured("[[pool]]\nmatch = \"p\"\nqueued_max = 2\nmax_attempts = 1\n");
    for world in [World::with_rules(false, rules()).await, World::with_rules(true, rules()).await] {
        let statuses = world.enqueue("p", &[("d", "a"), ("d", "b"), ("d", "c"), ("d", "a")]).await;
        let (enqueued, full) = (EnqueueStatus::Enqueued, EnqueueStatus::Full);
        assert_eq!(statuses, [enqueued, enqueued, full, EnqueueStatus::Duplicate]);
        world.report("p", "d").await.unwrap();
        world.fail("p", "d", "a").await;
        assert_eq!(world.enqueue("p", &[("d", "c")]).await, [enqueued]);
        let config = world.view("p").await.config.unwrap();
        assert_eq!((config.queued_max, config.max_attempts, config.history), (2, 1, 10_000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_field_of_a_batch_is_named_and_nothing_is_queued() {
    for world in [World::embedded().await, World::redis().await] {
        let enqueue = async |tasks: Vec<pb::QueuedTask>| {
            let refused = world.client.clone().enqueue_tasks(batch("p", tasks)).await.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument);
            let bad = refused.get_details_bad_request().unwrap().field_violations;
            bad.into_iter().map(|violation| violation.field).collect::<Vec<_>>()
        };
        assert_eq!(enqueue(vec![]).await, ["tasks"]);
        assert_eq!(enqueue(vec![queued("d", "t"); 1001]).await, ["tasks"]);
        let before = |seconds, nanos| pb::QueuedTask {
            expire_time: Some(prost_types::Timestamp { seconds, nanos }),
            ..queued("d", "t")
        };
        let large = pb::QueuedTask { payload: vec![0; 65_537].into(), ..queued("d", "t") };
        let tasks = vec![
            queued("good", "good"),
            queued("", "a\nb"),
            large,
            before(-1, 0),
            before(0, 0),
            before(4_481_049_600, 0),
            before(1, 1_000_000_000),
        ];
        let bad = [
            "tasks[1].device_id",
            "tasks[1].task_id",
            "tasks[2].payload",
            "tasks[3].expire_time",
            "tasks[4].expire_time",
            "tasks[5].expire_time",
            "tasks[6].expire_time",
        ];
        assert_eq!(enqueue(tasks).await, bad);
        assert!(world.keys().await.is_empty() && world.queued("p").await == 0);
        // The earliest and the latest accepted time.
        let most = vec![before(0, 1), before(4_481_049_599, 999_999_000)];
        let statuses = world.client.clone().enqueue_tasks(batch("p", most)).await.unwrap();
        let statuses: Vec<_> = statuses.get_ref().results.iter().map(|r| r.status()).collect();
        assert_eq!(statuses, [EnqueueStatus::Expired, EnqueueStatus::Enqueued]);
        // A page token is valid for its own listing only.
        world.enqueue("p", &[("d", "u"), ("d", "v")]).await;
        let mut page = listing("p", TaskState::Queued);
        page.page_size = Some(1);
        let first = world.client.clone().list_tasks(page).await.unwrap().into_inner();
        let mut dead = listing("p", TaskState::Dead);
        dead.page_token = first.next_page_token;
        let refused = world.client.clone().list_tasks(dead).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
}
