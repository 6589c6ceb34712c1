//! H26: Redis does not answer, and more calls wait for it than a small configured limit.

use tokio::task::JoinSet;

use super::*;
use crate::support::{
    requests::assert_at_limit,
    sequences::{answering, next, patient, try_next},
    wire::Wire,
    world::Sequences,
};

/// A server with this configuration, on a Redis behind a proxy.
async fn behind_proxy(config: &str) -> (OwnRedis, Wire, Server) {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let (wire, file) = (Wire::to(redis.port).await, TempFile::new(config));
    let url = format!("redis://127.0.0.1:{}", wire.port);
    let server = Server::start(&["--engine", &url, "--config", file.path()]).await;
    (redis, wire, server)
}

/// Sends `each` calls for each of these sequences. Returns those that are under way after `refused`
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

    // One batch of one or two calls is in flight, and two calls wait.
    wire.hold(true);
    let calls = burst(&client, &["a"], 16, 12).await;
    let other = burst(&client, &["b"], 1, 0).await;
    let values = release(&wire, calls).await;
    assert!((3..=4).contains(&values.len()), "{values:?}");
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
