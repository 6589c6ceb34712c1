use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::{register::LEFT_MAX, unreceived::TASKS_MAX, *};
use crate::redis::{Redis, RedisOptions};
use tollgate_core::{lock::AcquireLock, names::Name};

fn acquire(owner: &str) -> AcquireLock {
    let name = |text: &str| Name::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap();
    let lease_duration = Millis(1000);
    AcquireLock { name: name("lock"), owner: name(owner), lease_duration, waiting: None }
}

/// Returns an engine whose Redis is unreachable, since it does not connect.
fn unreachable() -> Arc<Engine> {
    let redis = Redis::new(&RedisOptions::new("redis://127.0.0.1:1")).unwrap();
    Arc::new(Engine::Redis(redis))
}

#[tokio::test]
async fn j7_the_tasks_that_revoke_grants_are_bounded() {
    let (engine, started) = (unreachable(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..TASKS_MAX + 100 {
        let started = started.clone();
        unreceived::spawn_bounded(&engine, async move {
            started.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        });
    }
    while started.load(Ordering::Relaxed) < TASKS_MAX {
        yield_now().await;
    }
    // One thread runs the tasks in order, so any further one would also have run by now.
    yield_now().await;
    assert_eq!(started.load(Ordering::Relaxed), TASKS_MAX);
}

#[tokio::test]
async fn j10_calls_that_were_certainly_not_executed_leave_nothing() {
    let engine = unreachable();
    for number in 0..500 {
        let deadline = monotonic() + Duration::from_secs(60);
        let asked = acquire(&format!("owner {number}"));
        let failed = wait(&engine, asked, Millis(1000), deadline).await.unwrap_err();
        assert!(matches!(failed, Error::Unavailable(_)), "{failed:?}");
    }
    let register = engine.hub().by_type(Arc::<Register<AcquireLock>>::default);
    assert_eq!(register.left(), 0);
}

#[test]
fn j10_each_waiter_leaves_once_and_the_number_of_them_is_bounded() {
    let register = Register::default();
    let leave = |owner: &str, number| {
        let asked = acquire(owner);
        let waiter = asked.waiter().into();
        register.leave(asked, waiter, number);
    };
    (0..100).for_each(|number| leave("owner", number));
    assert_eq!(register.left(), 1);
    (0..LEFT_MAX as u64 + 100).for_each(|number| leave(&format!("owner {number}"), number));
    assert_eq!(register.left(), LEFT_MAX);
}
