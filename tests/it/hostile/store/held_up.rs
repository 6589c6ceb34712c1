//! H26: Redis does not answer, and more calls wait for it than a small configured limit.

use std::time::Duration;

use pb::EnqueueStatus;
use tokio::task::JoinSet;
use tollgate_client::Connection;
use tonic::Request;

use super::*;
use crate::support::{
    queue::{batch, queued},
    requests::assert_at_limit,
    sequences::{answering, next, patient, try_next},
    wire::Wire,
    world::Sequences,
};

/// Returns a server with this configuration, on a Redis behind a proxy.
async fn behind_proxy(config: &str) -> (OwnRedis, Wire, Server) {
    behind_proxy_with(&TempFile::new(config)).await
}

async fn behind_proxy_with(file: &TempFile) -> (OwnRedis, Wire, Server) {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let wire = Wire::to(redis.port).await;
    let url = format!("redis://127.0.0.1:{}", wire.port);
    let server = Server::start(&["--engine", &url, "--config", file.path()]).await;
    (redis, wire, server)
}

/// Sends `each` calls for each of these sequences. Returns the remaining calls after `refused`
/// calls were refused at the limit.
async fn burst(
    client: &Sequences,
    names: &[&'static str],
    each: usize,
    refused: usize,
) -> JoinSet<(&'static str, Result<u64, Status>)> {
    let mut calls = JoinSet::new();
    for name in names.iter().flat_map(|name| std::iter::repeat_n(*name, each)) {
        let mut client = client.clone();
        calls.spawn(async move {
            let answer = client.next_sequence(patient(next(name))).await;
            (name, answer.map(|answer| answer.into_inner().first))
        });
    }
    for _ in 0..refused {
        let (name, answer) = calls.join_next().await.unwrap().unwrap();
        assert_at_limit(&answer.expect_err(name), "OVERLOADED");
    }
    calls
}

/// Lets Redis answer. Returns the values of the calls that were not refused.
async fn release(
    wire: &Wire,
    calls: JoinSet<(&'static str, Result<u64, Status>)>,
) -> Vec<(&'static str, u64)> {
    wire.hold(false);
    let answers = calls.join_all().await.into_iter();
    let mut values: Vec<_> =
        answers.filter_map(|(name, value)| Some((name, value.ok()?))).collect();
    values.sort_unstable();
    assert!(values.is_sorted_by(|one, next| one < next), "a value was given twice: {values:?}");
    values
}

#[tokio::test(flavor = "multi_thread")]
async fn h26_next_sequence_calls_above_the_limit_are_refused() {
    // One sequence may have two of them.
    let config = "[limits]\nsequence_waiters = 8\n";
    let (_redis, wire, server) = behind_proxy(config).await;
    let client = answering(&server, "warm").await;

    // A batch of one or two calls is in flight, and up to two calls wait.
    wire.hold(true);
    let calls = burst(&client, &["a"], 16, 12).await;
    let other = burst(&client, &["b"], 1, 0).await;
    let values = release(&wire, calls).await;
    assert!((2..=4).contains(&values.len()), "{values:?}");
    assert_eq!(release(&wire, other).await, [("b", 1)]);

    // Of each sequence at most two are in flight. Eight calls of all sequences wait.
    let names = ["c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"];
    wire.hold(true);
    let calls = burst(&client, &names, 4, 48 - 8 - 24).await;
    release(&wire, calls).await;
    for name in names {
        try_next(&client, next(name)).await.unwrap();
    }
}

/// A reload raises the limit, and lowers it while calls wait: those are still answered.
#[tokio::test(flavor = "multi_thread")]
async fn h26_next_sequence_calls_follow_a_reloaded_limit() {
    let config = |waiters| {
        format!("[redis]\nanswer_timeout = \"60s\"\n[limits]\nsequence_waiters = {waiters}\n")
    };
    let file = TempFile::new(&config(8));
    let (_redis, wire, server) = behind_proxy_with(&file).await;
    let client = answering(&server, "warm").await;
    let operator = Connection::open(&server.address()).await.unwrap();
    let reload = async |waiters| {
        std::fs::write(file.path(), config(waiters)).unwrap();
        operator.reload_config(false).await.unwrap();
    };
    // A quarter of the calls may wait, and at most as many are in flight.
    wire.hold(true);
    let calls = burst(&client, &["a"], 32, 32 - 4).await;
    let values = release(&wire, calls).await;
    assert!((2..=4).contains(&values.len()), "{values:?}");

    reload(32).await;
    wire.hold(true);
    let calls = burst(&client, &["a"], 32, 32 - 16).await;
    reload(4).await;
    let values = release(&wire, calls).await;
    assert!((8..=16).contains(&values.len()), "{values:?}");

    wire.hold(true);
    let calls = burst(&client, &["a"], 32, 32 - 2).await;
    let values = release(&wire, calls).await;
    assert!((1..=2).contains(&values.len()), "{values:?}");
    try_next(&client, next("a")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn h26_decisions_queued_for_redis_above_the_limit_are_refused() {
    const CALLS: usize = 8;
    let config = "workers = 1\n[redis]\nqueued_max = 1000\n";
    let (_redis, wire, server) = behind_proxy(config).await;
    let sequences = answering(&server, "warm").await;
    let client = server.client().await;

    // A call of 1,000 tasks is in flight, and another one waits in the queue.
    wire.hold(true);
    let mut calls = JoinSet::new();
    for call in 0..CALLS {
        let mut client = client.clone();
        let tasks = (0..1_000).map(|task| queued(&format!("d{call}"), &format!("t{task}")));
        let request = batch(&format!("p{call}"), tasks.collect());
        calls.spawn(async move {
            let mut request = Request::new(request);
            request.set_timeout(Duration::from_secs(30));
            client.enqueue_tasks(request).await
        });
    }
    for _ in 0..CALLS - 2 {
        let answer = calls.join_next().await.unwrap().unwrap();
        assert_at_limit(&answer.expect_err("the line is full"), "OVERLOADED");
    }
    wire.hold(false);
    let answers: Vec<_> = calls.join_all().await.into_iter().filter_map(Result::ok).collect();
    assert!(!answers.is_empty(), "the call in flight failed");
    for answer in answers {
        let results = answer.into_inner().results;
        assert_eq!(results.len(), 1_000);
        assert!(results.iter().all(|task| task.status() == EnqueueStatus::Enqueued));
    }
    try_next(&sequences, next("warm")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn h26_a_call_waits_for_redis_as_long_as_configured() {
    let (_redis, wire, server) = behind_proxy("[redis]\nanswer_timeout = \"300ms\"\n").await;
    let sequences = answering(&server, "warm").await;
    wire.hold(true);
    let error = sequences.clone().next_sequence(patient(next("warm"))).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error:?}");
    wire.hold(false);
    answering(&server, "warm").await;
}
