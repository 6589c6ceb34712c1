//! Retries, several servers and limiters without a server.

use std::time::Duration;

use tollgate_client::{Connection, Options, RetryBudget, Token, pb};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::support::{Fake, Proxy, Server, eventually, free_port, serve};

fn allowed() -> pb::CheckRateResponse {
    pb::CheckRateResponse {
        verdict: pb::RateVerdict::Allow.into(),
        allowed: true,
        ..Default::default()
    }
}

fn busy(retry_after: Option<Duration>) -> Status {
    let mut details = ErrorDetails::new();
    if retry_after.is_some() {
        details.set_retry_info(retry_after);
    }
    Status::with_error_details(Code::ResourceExhausted, "busy", details)
}

async fn connected(fake: &Fake, retries: RetryBudget) -> Connection {
    let address = serve(fake.router()).await;
    Options::new([address]).retries(retries).open().await.unwrap()
}

#[tokio::test]
async fn attempts_of_a_check_have_one_id() {
    let (sender, ids) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let fake = Fake::new(move |attempt, request| {
        sender.lock().unwrap().send(request.request_id.clone()).unwrap();
        if attempt < 3 { Err(Status::unavailable("restarting")) } else { Ok(allowed()) }
    });
    let connection = connected(&fake, RetryBudget::default()).await;
    assert!(connection.limiter("api").check("k").await.unwrap().allowed);
    let ids: Vec<_> = ids.try_iter().collect();
    assert!(ids.len() == 3 && !ids[0].is_empty() && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(connection.requests_sent(), 3);
}

#[tokio::test]
async fn an_overloaded_server_is_asked_again_only_with_retry_info() {
    let moment = Duration::from_millis(50);
    for (after, expected) in [(Some(moment), 2), (None, 1), (Some(Duration::from_secs(3600)), 1)] {
        let fake = Fake::new(move |attempt, _| match attempt {
            1 => Err(busy(after)),
            _ => Ok(allowed()),
        });
        let connection = connected(&fake, RetryBudget::default()).await;
        let answer = connection.limiter("api").check("k").await;
        assert_eq!((fake.attempts(), answer.is_ok()), (expected, expected == 2), "{after:?}");
        if let Err(error) = answer {
            assert_eq!((error.code, error.retry_after), ("RESOURCE_EXHAUSTED", after));
        }
    }
}

#[tokio::test]
async fn retries_end_with_the_budget() {
    let fake = Fake::new(|_, _| Err(Status::unavailable("down")));
    let connection = connected(&fake, RetryBudget { share: 0.0, reserve: 2 }).await;
    for _ in 0..5 {
        assert_eq!(connection.limiter("api").check("k").await.unwrap_err().code, "UNAVAILABLE");
    }
    assert_eq!(fake.attempts(), 7, "five calls and two retries");
    let final_error = Fake::new(|_, _| Err(Status::invalid_argument("wrong")));
    let connection = connected(&final_error, RetryBudget::default()).await;
    assert!(connection.limiter("api").fail_open().check("k").await.is_err());
    assert_eq!(final_error.attempts(), 1);
}

#[tokio::test]
async fn set_stock_is_never_repeated() {
    let nowhere = format!("127.0.0.1:{}", free_port());
    let connection = Options::new([nowhere]).lazy().unwrap();
    let error = connection.set_stock("s", 1).await.unwrap_err();
    assert_eq!((error.code, error.may_have_run()), ("UNAVAILABLE", false), "{error}");
    assert_eq!(connection.requests_sent(), 1);
    let plain = pb::AddStockRequest { sku: "s".to_owned(), delta: 1, ..Default::default() };
    assert_eq!(connection.call(plain).await.unwrap_err().code, "UNAVAILABLE");
    assert_eq!(connection.requests_sent(), 2);
    // With an id it is.
    assert_eq!(connection.add_stock("s", 1, None).await.unwrap_err().code, "UNAVAILABLE");
    assert_eq!(connection.requests_sent(), 7);
}

#[tokio::test]
async fn a_limiter_fails_as_configured() {
    let nowhere = format!("127.0.0.1:{}", free_port());
    let connection = Options::new([nowhere]).retries(RetryBudget::NONE).lazy().unwrap();
    let limiter = connection.limiter("api");
    assert_eq!(limiter.check("k").await.unwrap_err().code, "UNAVAILABLE");
    let open = limiter.clone().fail_open().check("k").await.unwrap();
    assert!(open.allowed && open.degraded && open.verdict.is_none());
    let closed = limiter.fail_closed().check("k").await.unwrap();
    assert!(!closed.allowed && closed.degraded);
    assert_eq!(closed.retry_after, Some(Duration::from_secs(1)));
}

#[tokio::test]
async fn a_limiter_decides_after_one_deadline_although_its_call_is_queued() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let deadline = Duration::from_millis(50);
    let address = silent.local_addr().unwrap().to_string();
    let connection = Options::new([address]).deadline(deadline).lazy().unwrap();
    for _ in 0..200 {
        let (connection, hour) = (connection.clone(), Duration::from_secs(3600));
        let message = pb::GetKeyRequest::default();
        tokio::spawn(async move { connection.call_within(hour, message).await });
    }
    eventually("the calls are sent", async || connection.requests_sent() == 200).await;
    let limiter = connection.limiter("api");
    let open = limiter.clone().fail_open().check("k").await.unwrap();
    assert!(open.allowed && open.degraded);
    let closed = limiter.fail_closed().check("k").await.unwrap();
    assert!(!closed.allowed && closed.degraded);
    assert_eq!(connection.requests_sent(), 200);
}

#[tokio::test]
async fn calls_go_to_the_servers_that_answer() {
    let server = Server::start().await;
    let nowhere = format!("127.0.0.1:{}", free_port());
    let connection = Options::new([nowhere, server.address.clone()]).open().await.unwrap();
    for number in 0..20 {
        connection.set_stock(&format!("s-{number}"), 1).await.ok();
    }
    // The first call may meet the dead server; then it gets none.
    let mut failures = 0;
    for number in 0..20 {
        let outcome = connection.set_stock(&format!("t-{number}"), 1).await;
        failures += u32::from(outcome.is_err());
    }
    assert_eq!(failures, 0);
}

#[tokio::test]
async fn a_dead_connection_is_replaced() {
    let server = Server::start().await;
    let proxy = Proxy::start(&server.address).await;
    let deadline = Duration::from_millis(300);
    let connection = Options::new([&proxy.address]).deadline(deadline).open().await.unwrap();
    connection.get_stock("s").await.unwrap_err();
    proxy.swallow(true);
    // The proxy swallows a moment later.
    eventually("no answer comes", async || {
        connection.set_stock("s", 1).await.is_err_and(|error| error.code == "DEADLINE_EXCEEDED")
    })
    .await;
    proxy.swallow(false);
    eventually("a new connection works", async || connection.set_stock("s", 1).await.is_ok()).await;
}

#[tokio::test]
async fn a_callback_that_fails_is_an_error_of_the_call() {
    let server = Server::start().await;
    let token = Token::callback(|| Err::<String, _>("the vault is sealed"));
    let connection = Options::new([&server.address]).token(token).open().await.unwrap();
    let error = connection.pool("p").usage().await.unwrap_err();
    assert_eq!(error.code, "UNAUTHENTICATED");
    assert!(error.message.contains("sealed"), "{error}");
}
