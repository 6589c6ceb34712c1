//! H6: a disk that hangs. The changes that wait for it are bounded, in bytes and in number.

use std::{collections::HashSet, sync::Arc, time::Duration};

use tollgate::server::Rules;
use tollgate_client::pb::{self, EnqueueStatus};
use tollgate_core::time::Clock;
use tollgate_engine::{
    Engine,
    budget::CallerLimits,
    embedded::{Durability, Embedded},
};
use tonic::{Code, Request, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::hanging::Hanging;
use crate::support::{
    farm::eventually,
    queue::batch,
    requests::assert_at_limit,
    world::{World, embedded_engine},
};

const LIMIT: usize = 1 << 20;
const PAYLOAD: usize = 16 << 10;
const CALLERS: usize = 16;
/// Deadline of a call while the disk hangs.
const IMPATIENT: Duration = Duration::from_millis(300);
const PATIENT: Duration = Duration::from_secs(20);

async fn health(world: &World) -> ServingStatus {
    let channel = Channel::from_shared(world.address.clone()).unwrap().connect().await.unwrap();
    let request = HealthCheckRequest { service: String::new() };
    HealthClient::new(channel).check(request).await.unwrap().into_inner().status()
}

/// Queues a task with a payload of 16 KiB. Returns `None` if the call failed and may have been
/// executed.
async fn enqueue(
    world: &World,
    task: &str,
    within: Duration,
) -> Option<Result<EnqueueStatus, tonic::Status>> {
    let payload = vec![b'x'; PAYLOAD].into();
    let (device_id, task_id) = ("d".to_owned(), task.to_owned());
    let task = pb::QueuedTask { device_id, task_id, payload, expire_time: None };
    let mut request = Request::new(batch("p", vec![task]));
    request.set_timeout(within);
    match world.client.clone().enqueue_tasks(request).await {
        Ok(answer) => Some(Ok(answer.into_inner().results[0].status())),
        Err(status) if [Code::DeadlineExceeded, Code::Cancelled].contains(&status.code()) => None,
        Err(status) => Some(Err(status)),
    }
}

/// A disk hangs under load. The number of tasks that wait for it is bounded, further calls are
/// refused with the expected reason, and health is NOT_SERVING. After the hang, calls and health
/// recover.
async fn hang(durability: Durability, limits: CallerLimits, expected: &str, tasks: usize) {
    let disk = Hanging::default();
    let engine = Embedded::open(Clock::system(), disk.disk(), durability).unwrap();
    let engine = Arc::new(Engine::Embedded(engine.with_limits(&limits)));
    let world = Arc::new(World::on(engine.clone(), embedded_engine().1, Rules::default()).await);
    assert_eq!(enqueue(&world, "before", PATIENT).await.unwrap().unwrap(), EnqueueStatus::Enqueued);
    assert_eq!(health(&world).await, ServingStatus::Serving);

    let hung = disk.hang();
    // Each caller queues tasks until it is refused.
    let callers = (0..CALLERS).map(|caller| {
        let world = world.clone();
        tokio::spawn(async move {
            for number in 0.. {
                let task = format!("{caller}-{number}");
                if let Some(Err(status)) = enqueue(&world, &task, IMPATIENT).await {
                    return (task, status);
                }
            }
            unreachable!("the disk hangs")
        })
    });
    let callers: Vec<_> = callers.collect();
    let mut refused = HashSet::new();
    for caller in callers {
        let (task, status) = caller.await.unwrap();
        assert_at_limit(&status, expected);
        let is_named = status.message().contains("limits.unsynced_bytes");
        assert_eq!(is_named, expected == "DISK_TOO_SLOW", "{status:?}");
        refused.insert(task);
    }
    eventually("health NOT_SERVING", async || health(&world).await == ServingStatus::NotServing)
        .await;

    drop(hung);
    eventually("health SERVING", async || health(&world).await == ServingStatus::Serving).await;
    // Tasks that were accepted while the disk hung: up to the limit, and one more per caller.
    let taken = world.queued("p").await as usize;
    assert!(taken <= 1 + tasks + CALLERS, "{durability:?}: {taken} tasks accepted");
    for task in refused {
        let again = enqueue(&world, &task, PATIENT).await;
        assert_eq!(again.unwrap().unwrap(), EnqueueStatus::Enqueued, "a refused task was queued");
    }
    engine.close();
}

/// Queues tasks until one is refused with this reason. Returns how many were not refused.
async fn fill(world: &World, name: &str, reason: &str) -> usize {
    for number in 0.. {
        if let Some(Err(status)) = enqueue(world, &format!("{name}-{number}"), IMPATIENT).await {
            assert_at_limit(&status, reason);
            return number;
        }
    }
    unreachable!("the disk hangs")
}

/// The limits change while the disk hangs: a higher one accepts more calls, a lower one none until
/// the disk has written the changes.
async fn hang_with_changed(limits: [CallerLimits; 2], reason: &str) {
    let [low, high] = limits;
    let disk = Hanging::default();
    let engine = Embedded::open(Clock::system(), disk.disk(), Durability::Interval).unwrap();
    let engine = Arc::new(Engine::Embedded(engine.with_limits(&low)));
    let world = World::on(engine.clone(), embedded_engine().1, Rules::default()).await;
    assert_eq!(enqueue(&world, "before", PATIENT).await.unwrap().unwrap(), EnqueueStatus::Enqueued);
    let hung = disk.hang();
    let first = fill(&world, "low", reason).await;
    engine.set_limits(&high);
    let more = fill(&world, "high", reason).await;
    assert!(first > 0 && more > 0, "{first} and {more} tasks");
    engine.set_limits(&low);
    assert_eq!(fill(&world, "low again", reason).await, 0);
    drop(hung);
    eventually("a task is queued", async || {
        matches!(enqueue(&world, "after", PATIENT).await, Some(Ok(_)))
    })
    .await;
    // A call whose deadline has passed may have been executed or not.
    assert!(world.queued("p").await as usize <= 2 + first + more);
    engine.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn h6_a_changed_limit_on_unsynced_bytes_applies_while_the_disk_hangs() {
    let limits = |bytes| CallerLimits { unsynced_bytes: bytes, ..CallerLimits::DEFAULT };
    hang_with_changed([limits(LIMIT / 8), limits(LIMIT / 4)], "DISK_TOO_SLOW").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h6_a_changed_limit_on_unsynced_changes_applies_while_the_disk_hangs() {
    let limits = |changes| CallerLimits { unsynced_changes: changes, ..CallerLimits::DEFAULT };
    hang_with_changed([limits(8), limits(20)], "OVERLOADED").await;
}

async fn hang_with_bytes(durability: Durability) {
    let limits = CallerLimits { unsynced_bytes: LIMIT, ..CallerLimits::DEFAULT };
    hang(durability, limits, "DISK_TOO_SLOW", LIMIT / PAYLOAD).await;
}

/// Changes that are being written do not count in the limit, so up to twice the number is accepted.
async fn hang_with_changes(durability: Durability) {
    let limits = CallerLimits { unsynced_changes: 40, ..CallerLimits::DEFAULT };
    hang(durability, limits, "OVERLOADED", 2 * 40).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h6_a_hanging_disk_bounds_unsynced_bytes_and_fails_health_interval() {
    hang_with_bytes(Durability::Interval).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h6_a_hanging_disk_bounds_unsynced_bytes_and_fails_health_always() {
    hang_with_bytes(Durability::Always).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h6_a_hanging_disk_bounds_unsynced_changes_and_fails_health_interval() {
    hang_with_changes(Durability::Interval).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h6_a_hanging_disk_bounds_unsynced_changes_and_fails_health_always() {
    hang_with_changes(Durability::Always).await;
}
