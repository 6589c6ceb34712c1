use bytes::Bytes;

use super::{register::LEFT_MAX, *};
use crate::{
    decision::names::Name,
    engine::redis::{Redis, RedisOptions},
    lock::AcquireLock,
};

fn acquire(owner: &str) -> AcquireLock {
    let name = |text: &str| Name::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap();
    let lease_duration = Millis(1000);
    AcquireLock { name: name("lock"), owner: name(owner), lease_duration, waiting: None }
}

#[tokio::test]
async fn j10_calls_that_were_certainly_not_executed_leave_nothing() {
    // Not connected, so it is unreachable.
    let redis = Redis::new(&RedisOptions::new("redis://127.0.0.1:1")).unwrap();
    let engine = Arc::new(Engine::Redis(redis));
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
