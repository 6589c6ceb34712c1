//! Each verb against a server.

use std::time::Duration;

use tollgate_client::{
    Admission, CancelOutcome, ConfirmOutcome, EnqueueStatus, Error, Health, Locking, Order,
    Outcome, PoolEvent, PoolEventKind, QueuedTask, ReleaseLockOutcome, RenewVerdict,
    ReservationState, Reserving, Watch, Watched, pb,
};

use crate::support::{Server, eventually};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn plain_calls_of_tasks() {
    let server = Server::start().await;
    let pool = server.connection().await.pool("p");
    let (Admission::Admitted(grant), usage) =
        pool.admit_task("d", "t", Some(SECOND * 60)).await.unwrap()
    else {
        panic!("not admitted")
    };
    assert_eq!((grant.lease, grant.replayed, usage.in_use), (SECOND * 60, false, 1));
    let (verdict, left) = pool.renew_task("d", "t", grant.fencing_token, None).await.unwrap();
    assert_eq!(verdict, RenewVerdict::Renewed);
    assert!(left.unwrap() <= SECOND * 300);
    let stale = pool.renew_task("d", "t", grant.fencing_token + 1, None).await.unwrap();
    assert_eq!(stale, (RenewVerdict::StaleToken, None));
    let done = pool.complete_task("d", "t", None, Outcome::Succeeded, "result").await.unwrap();
    assert_eq!(done.0, pb::CompleteVerdict::Completed);
    let error = pool.complete_task("", "t", None, Outcome::Succeeded, "").await.unwrap_err();
    assert_eq!((error.code, &*error.violations[0].field), ("INVALID_ARGUMENT", "device_id"));
}

#[tokio::test]
async fn queued_tasks() {
    let server = Server::start().await;
    let connection = server.connection().await;
    let pool = connection.pool("p");
    let task = QueuedTask {
        device_id: "d".to_owned(),
        task_id: "t".to_owned(),
        payload: "payload".into(),
        expire_time: None,
    };
    let queued = pool.enqueue(vec![task.clone()]).await.unwrap();
    assert_eq!(queued, [EnqueueStatus::Enqueued]);
    assert_eq!(pool.enqueue(vec![task]).await.unwrap(), [EnqueueStatus::Duplicate]);
    let Admission::Admitted(permit) = pool.poll("d").await.unwrap() else { panic!("no task") };
    let task = permit.task().unwrap();
    assert_eq!((&*task.task_id, &*task.payload, task.attempt), ("t", &b"payload"[..], 1));
    assert_eq!(pool.cancel("d", "t").await.unwrap().verdict(), pb::CancelVerdict::Running);
    assert_eq!(pool.evict("d", "t", "test").await.unwrap().verdict(), pb::EvictVerdict::Evicted);
    let requeued = pool.requeue("d", "t").await.unwrap().verdict();
    assert_eq!(requeued, pb::RequeueVerdict::NotDead);
    assert!(matches!(pool.poll("other").await.unwrap(), Admission::NoTask));
    let (pools, next) = connection.list_pools(10, "").await.unwrap();
    assert!(next.is_empty() && pools.len() <= 1, "{pools:?}");
}

#[tokio::test]
async fn a_paused_pool_says_when_to_come_back() {
    let server = Server::start().await;
    let pool = server.connection().await.pool("p");
    let change = pb::ConfigurePoolRequest { paused: Some(true), ..Default::default() };
    assert!(pool.change(change).await.unwrap().config.unwrap().paused);
    match pool.admit("d", "t").await.unwrap() {
        Admission::Paused { retry_after } => assert!(retry_after > Duration::ZERO),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_lock_is_kept_lost_and_released() {
    let server = Server::start().await;
    let connection = server.connection().await;
    let Locking::Acquired(first) = connection.lock("l").lease(SECOND).await.unwrap() else {
        panic!("not acquired")
    };
    match connection.lock("l").wait(SECOND * 2).await.unwrap() {
        Locking::Held { holder, .. } => assert_eq!(holder, first.owner()),
        Locking::Acquired(second) => panic!("{second:?} beside {first:?}"),
    }
    assert!(first.is_valid(), "the keeper renews it");
    let waiter = connection.lock("l").owner("second").wait(SECOND * 60);
    let waiter = tokio::spawn(async move { waiter.await });
    let token = first.token();
    assert_eq!(first.release().await, Ok(ReleaseLockOutcome::Released));
    let Ok(Locking::Acquired(second)) = waiter.await.unwrap() else { panic!("not acquired") };
    assert!(second.token() > token && second.owner() == "second");
    drop(second);
    eventually("a dropped guard releases the lock", async || {
        let free = connection.call(pb::GetLockRequest { name: "l".to_owned() }).await.unwrap();
        !free.held
    })
    .await;

    let lease = Duration::from_millis(300);
    let Ok(Locking::Acquired(lost)) = connection.lock("l").lease(lease).keeper(false).await else {
        panic!("not acquired")
    };
    tokio::time::timeout(SECOND * 60, lost.lost()).await.expect("the lock is lost");
    eventually("the lease ends", async || {
        !connection.call(pb::GetLockRequest { name: "l".to_owned() }).await.unwrap().held
    })
    .await;
    assert_eq!(lost.release().await, Ok(ReleaseLockOutcome::NotHeld));
}

#[tokio::test]
async fn values_of_an_allocator_are_distinct_and_rise() {
    let server = Server::start().await;
    let connection = server.connection().await;
    let allocator = std::sync::Arc::new(connection.allocator("s").block(8));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let allocator = allocator.clone();
            tokio::spawn(async move {
                let mut values = Vec::new();
                for _ in 0..50 {
                    values.push(allocator.next().await.unwrap().value);
                }
                assert!(values.is_sorted(), "{values:?}");
                values
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 200);
    let serial = connection.allocator("orders").block(2).next().await.unwrap();
    let text = serial.text.unwrap();
    assert!(text.starts_with("ORD-") && text.ends_with("-000001"), "{text}");
    let again = connection.take("s", 2, 5, None, Some("id")).await.unwrap();
    let repeat = connection.take("s", 2, 5, None, Some("id")).await.unwrap();
    assert_eq!((again.first, repeat.replayed), (repeat.first, true));
}

#[tokio::test]
async fn a_reservation_is_confirmed_or_cancelled() {
    let server = Server::start().await;
    let connection = server.connection().await;
    let order = |order| Order {
        sku: "s",
        order,
        quantity: 2,
        hold: Some(SECOND * 60),
        buyer: "",
        buyer_limit: None,
    };
    connection.set_stock("s", 4).await.unwrap();
    connection.add_stock("s", 1, None).await.unwrap();
    let reserve = async |name| match connection.reserve(&order(name)).await.unwrap() {
        Reserving::Reserved(reservation) => reservation,
        other => panic!("{other:?}"),
    };
    let sold = reserve("sold").await;
    assert!(sold.valid_for() > Duration::ZERO && !sold.replayed());
    let sold = sold.run(|| async { Ok::<(), Error>(()) }).await.unwrap();
    assert_eq!(sold.outcome(), ConfirmOutcome::Confirmed);
    let failed = reserve("failed").await.run(|| async { Err(Error::default()) }).await;
    assert_eq!(failed.unwrap_err().code, "UNKNOWN");
    match connection.reserve(&order("failed")).await.unwrap() {
        Reserving::AlreadySettled { state } => assert_eq!(state, ReservationState::Cancelled),
        other => panic!("{other:?}"),
    }
    drop(reserve("dropped").await);
    eventually("a dropped reservation is cancelled", async || {
        connection.get_stock("s").await.unwrap().0.available == 3
    })
    .await;
    let holding = reserve("holding").await;
    assert_eq!(connection.get_stock("s").await.unwrap().1, 1);
    assert_eq!(holding.cancel().await, Ok(CancelOutcome::Cancelled));
    assert_eq!(reserve("last").await.cancel().await, Ok(CancelOutcome::Cancelled));
    let many = Order { quantity: 9, ..order("many") };
    assert!(matches!(connection.reserve(&many).await.unwrap(), Reserving::Short { .. }));
}

#[tokio::test]
async fn a_watch_resumes_at_its_cursor_and_reports_gaps() {
    let server = Server::start().await;
    let connection = server.connection().await;
    let pool = connection.pool("p");
    pool.configure(Some(3), None).await.unwrap();
    pool.admit_task("d", "t", None).await.unwrap();
    let open = async |after: &str| {
        Watch::<PoolEvent>::open(connection.clone(), "p", Some(after.to_owned())).await.unwrap()
    };
    let next = async |watch: &mut Watch<PoolEvent>| match watch.next().await.unwrap() {
        Watched::Event(event) => event,
        other => panic!("{other:?}"),
    };
    let mut watch = open("0").await;
    let first = next(&mut watch).await;
    assert_eq!(first.kind(), PoolEventKind::Configured);
    assert_eq!(next(&mut watch).await.kind(), PoolEventKind::Admitted);
    let mut resumed = open(&first.cursor).await;
    assert_eq!(next(&mut resumed).await.kind(), PoolEventKind::Admitted);
    let mut unknown = open("1").await;
    assert_eq!(next(&mut unknown).await.kind(), PoolEventKind::Gap);
}

#[tokio::test]
async fn rates_count_once_and_health_is_serving() {
    let server = Server::start().await;
    let connection = server.connection().await;
    let limiter = connection.limiter("api");
    let first = limiter.check_cost("k", 1, Some("id")).await.unwrap();
    let repeat = limiter.check_cost("k", 1, Some("id")).await.unwrap();
    assert!(first.allowed && !first.replayed && repeat.replayed);
    assert!(limiter.check("k").await.unwrap().allowed);
    let refused = limiter.check("k").await.unwrap();
    assert!(!refused.allowed && refused.retry_after.unwrap() > Duration::ZERO);
    let open = connection.limiter("unknown").fail_open().check("k").await.unwrap();
    assert!(open.allowed && open.degraded && open.verdict.is_none());
    let unknown = connection.limiter("unknown").fail_closed().check("k").await.unwrap_err();
    assert_eq!((unknown.code, &*unknown.reason), ("NOT_FOUND", "POLICY_NOT_FOUND"));
    assert_eq!(connection.health("", SECOND * 5).await, Ok(Health::Serving));
}

#[tokio::test]
async fn batches_have_a_result_for_each_item() {
    let server = Server::start().await;
    let connection = server.connection().await;
    connection.pool("p").configure(Some(1_500), None).await.unwrap();
    let request = |number: usize| pb::AdmitTaskRequest {
        pool: "p".to_owned(),
        // The last item has no device.
        device_id: if number == 1_200 { String::new() } else { format!("d-{number}") },
        task_id: "t".to_owned(),
        ..Default::default()
    };
    // Two calls: the server takes 1,000 items.
    let admitted = connection.admit_many((0..=1_200).map(request).collect(), true).await;
    assert_eq!(admitted.len(), 1_201);
    let mut permits = Vec::new();
    let mut errors = Vec::new();
    for result in admitted {
        match result {
            Ok(Admission::Admitted(permit)) => permits.push(permit),
            Ok(refused) => panic!("{refused:?}"),
            Err(error) => errors.push(error),
        }
    }
    assert!(permits.len() == 1_200 && permits.iter().all(|permit| permit.is_valid()));
    assert_eq!((errors.len(), errors[0].code), (1, "INVALID_ARGUMENT"));
    assert!(errors[0].violations[0].field.ends_with("device_id"), "{errors:?}");

    let task = |number: usize| (format!("d-{number}"), "p".to_owned(), "t".to_owned());
    let renewals = (0..2).map(task).map(|(device_id, pool, task_id)| pb::RenewTaskRequest {
        pool,
        device_id,
        task_id,
        ..Default::default()
    });
    let renewed = connection.renew_many(renewals.collect()).await;
    assert_eq!(renewed, [Ok(RenewVerdict::Renewed), Ok(RenewVerdict::Renewed)]);
    let results = (0..2).map(task).map(|(device_id, pool, task_id)| pb::CompleteTaskRequest {
        pool,
        device_id,
        task_id,
        ..Default::default()
    });
    let completed = connection.complete_many(results.collect()).await;
    assert!(completed.iter().all(|it| *it == Ok(pb::CompleteVerdict::Completed)), "{completed:?}");
    assert!(connection.admit_many(Vec::new(), true).await.is_empty());
}

#[tokio::test]
async fn names_are_listed_by_prefix() {
    let server = Server::start().await;
    let connection = server.connection().await;
    for name in ["a:1", "a:2", "b"] {
        let locked = connection.lock(name).await.unwrap();
        let Locking::Acquired(guard) = locked else { panic!("not acquired") };
        connection.next(name, 3, 1, None, None).await.unwrap();
        connection.set_stock(name, 7).await.unwrap();
        let page = connection.list_locks(name, "").await.unwrap();
        assert_eq!((page.locks.len(), &*page.next_page_token), (1, ""));
        let lease = page.locks[0].lease.as_ref().unwrap();
        assert_eq!((&*lease.owner, lease.fencing_token), (guard.owner(), guard.held().token()));
    }
    let page = connection.list_sequences("a:", "").await.unwrap();
    let mut last: Vec<(&str, u64)> =
        page.sequences.iter().map(|one| (&*one.name, one.last)).collect();
    last.sort_unstable();
    assert_eq!(last, [("a:1", 3), ("a:2", 3)]);
    let page = connection.list_stock("b", "").await.unwrap();
    assert_eq!((&*page.stock[0].sku, page.stock[0].available), ("b", 7));
    assert_eq!(page.unreadable, [""; 0]);
}
