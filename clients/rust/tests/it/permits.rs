//! Permits: expiry, keeper, lost signal, guard.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tollgate_client::{
    Admission, CompleteVerdict, Error, Outcome, Permit, Pool, QueuedTask, RenewVerdict, Work,
};

use crate::support::{Proxy, Server, eventually};

const SECOND: Duration = Duration::from_secs(1);

async fn permit(pool: &Pool, device: &str) -> Permit {
    match pool.admit(device, "task").lease(SECOND).await.unwrap() {
        Admission::Admitted(permit) => permit,
        refused => panic!("{refused:?}"),
    }
}

/// Fails if the signal does not come.
async fn lost(permit: &Permit) {
    timeout(Duration::from_secs(60), permit.lost()).await.expect("the permit is lost");
    assert!(permit.is_lost() && !permit.is_valid());
    assert_eq!(permit.valid_for(), Duration::ZERO);
}

async fn keeps_and_completes(server: &Server) {
    let pool = server.connection().await.pool("keeper");
    let permit = permit(&pool, "camera").await;
    assert!(permit.is_valid() && !permit.replayed());
    assert!(permit.valid_for() < SECOND, "{:?}", permit.valid_for());
    // Longer than the lease: the keeper has renewed it.
    sleep(SECOND * 3).await;
    assert!(permit.is_valid(), "{permit:?}");
    let verdict = permit.complete(Outcome::Succeeded, "done").await;
    assert_eq!(verdict, Ok(CompleteVerdict::Completed));
    assert_eq!(pool.usage().await.unwrap().in_use, 0);
    let again = pool.admit("camera", "task").await.unwrap();
    assert!(matches!(again, Admission::AlreadyCompleted), "{again:?}");
}

#[tokio::test]
async fn a_keeper_renews_until_the_task_is_completed() {
    keeps_and_completes(&Server::start().await).await;
}

#[tokio::test]
async fn a_keeper_renews_leases_in_redis() {
    keeps_and_completes(&Server::with_redis().await).await;
}

#[tokio::test]
async fn a_permit_without_a_keeper_is_lost_before_its_lease_ends() {
    let server = Server::start().await;
    let pool = server.connection().await.pool("p");
    let Ok(Admission::Admitted(permit)) =
        pool.admit("camera", "task").lease(SECOND * 2).keeper(false).await
    else {
        panic!("not admitted")
    };
    lost(&permit).await;
    // The server still counts the lease: the margin is not over.
    let verdict = permit.complete(Outcome::Succeeded, "").await.unwrap();
    assert!(matches!(verdict, CompleteVerdict::Completed | CompleteVerdict::Late), "{verdict:?}");
}

#[tokio::test]
async fn an_evicted_task_loses_its_permit() {
    let server = Server::start().await;
    let pool = server.connection().await.pool("p");
    let permit = permit(&pool, "camera").await;
    pool.evict("camera", "task", "operator").await.unwrap();
    lost(&permit).await;
    let verdict = permit.complete(Outcome::Succeeded, "").await;
    assert_eq!(verdict, Ok(CompleteVerdict::Late));
}

#[tokio::test]
async fn a_permit_is_lost_when_the_server_is_silent() {
    let server = Server::start().await;
    let proxy = Proxy::start(&server.address).await;
    let options = tollgate_client::Options::new([&proxy.address]);
    let pool = options.open().await.unwrap().pool("p");
    let permit = permit(&pool, "camera").await;
    proxy.swallow(true);
    lost(&permit).await;
    // The report is repeated over a new connection until its verdict is known.
    let report = tokio::spawn(permit.complete(Outcome::Succeeded, "result"));
    sleep(SECOND).await;
    proxy.swallow(false);
    let verdict = timeout(SECOND * 60, report).await.expect("a verdict").unwrap();
    assert_eq!(verdict, Ok(CompleteVerdict::Late));
}

#[tokio::test]
async fn a_dropped_permit_is_not_renewed_and_a_failed_run_is_reported() {
    let server = Server::start().await;
    let pool = server.connection().await.pool("p");
    drop(permit(&pool, "dropped").await);
    eventually("the lease ends", async || pool.usage().await.unwrap().in_use == 0).await;

    let failed = permit(&pool, "failed").await;
    let error = failed
        .run(|held| async move {
            assert!(held.is_valid());
            Err::<String, _>(Error { message: "broken".to_owned(), ..Error::default() })
        })
        .await;
    assert_eq!(error.unwrap_err().message, "broken");
    let token = None;
    let again = pool.renew_task("failed", "task", token, None).await.unwrap();
    assert_eq!(again, (RenewVerdict::Completed, None));

    let done = permit(&pool, "done").await.run(|_| async { Ok::<_, Error>("result") }).await;
    assert_eq!(done, Ok(CompleteVerdict::Completed));
}

#[tokio::test]
async fn a_panic_reports_the_task_as_failed() {
    let server = Server::start().await;
    let pool = server.connection().await.pool("p");
    let permit = permit(&pool, "camera").await;
    let task = tokio::spawn(async move {
        let _permit = permit;
        panic!("of the test");
    });
    assert!(task.await.unwrap_err().is_panic());
    eventually("the result is reported", async || {
        pool.renew_task("camera", "task", None, None).await.unwrap().0 == RenewVerdict::Completed
    })
    .await;
}

#[tokio::test]
async fn a_wait_ends_with_a_permit_of_full_length() {
    let server = Server::start().await;
    let pool = server.connection().await.pool("p");
    pool.configure(Some(1), None).await.unwrap();
    let first = permit(&pool, "first").await;
    let waiter = pool.admit("second", "task").lease(SECOND * 30).wait(SECOND * 60);
    let waiter = tokio::spawn(async move { waiter.await });
    eventually("the call waits", async || pool.state().await.unwrap().waiters == 1).await;
    // If the time were counted from before the wait, less than a tenth of the lease would be left.
    sleep(SECOND * 3).await;
    first.complete(Outcome::Succeeded, "").await.unwrap();
    let Ok(Admission::Admitted(second)) = waiter.await.unwrap() else { panic!("not admitted") };
    assert!(second.is_valid());
    assert_eq!(pool.usage().await.unwrap().in_use, 1);
}

#[tokio::test]
async fn waiting_calls_do_not_starve_renewals() {
    let server = Server::start().await;
    let pool = server.connection().await.pool("p");
    pool.configure(Some(1), None).await.unwrap();
    let first = permit(&pool, "first").await;
    // More than a connection of the server may carry.
    let waiters: Vec<_> = (0..300)
        .map(|number| {
            let waiter = pool.admit(&format!("d-{number}"), "task").wait(SECOND * 60);
            tokio::spawn(async move { waiter.await })
        })
        .collect();
    eventually("all calls wait", async || pool.state().await.unwrap().waiters == 300).await;
    sleep(SECOND * 2).await;
    assert!(first.is_valid());
    for waiter in waiters {
        waiter.abort();
    }
}

#[tokio::test]
async fn a_worker_runs_repeats_and_drains() {
    let server = Server::start().await;
    let pool = server.connection().await.pool("p");
    let task = |name: &str| QueuedTask {
        device_id: "camera".to_owned(),
        task_id: name.to_owned(),
        payload: "payload".into(),
        expire_time: None,
    };
    pool.enqueue(vec![task("flaky"), task("good")]).await.unwrap();
    let (sender, mut verdicts) = tokio::sync::mpsc::unbounded_channel();
    let worker = pool
        .worker("camera")
        .lease(SECOND)
        .idle(Duration::from_millis(50))
        .on_done(move |name, verdict| sender.send((name.to_owned(), verdict)).unwrap())
        .start(|work: Work| async move {
            assert_eq!(work.task.payload, "payload");
            if &*work.task.task_id == "flaky" && work.task.attempt == 1 {
                Err("the first attempt")
            } else {
                Ok("result")
            }
        });
    let mut names = Vec::new();
    for _ in 0..3 {
        let (name, verdict) = verdicts.recv().await.unwrap();
        assert_eq!(verdict, Ok(CompleteVerdict::Completed));
        names.push(name);
    }
    names.sort();
    assert_eq!(names, ["flaky", "flaky", "good"]);
    assert_eq!(worker.stop().await.unwrap(), 3);
    assert_eq!(pool.state().await.unwrap().queued, 0);
}
