//! Many concurrent callers, each with distinct numbers.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::task::JoinSet;
use tollgate_client::pb;

use crate::support::{
    process::{OwnRedis, Server},
    sequences::{answering, floor, many, named, next, patient, try_next},
    world::{Sequences, World},
};

const CALLERS: usize = 48;
const VALUES: u64 = 100_000;

on_both_engines! {
    concurrent_callers_get_distinct_values,
}

/// 48 callers allocate 100,000 values each, from several floors. All values are distinct, the
/// values of each caller grow, and none is below the floor.
async fn concurrent_callers_get_distinct_values(world: World) {
    for least in [
        0,
        (1 << 53) - CALLERS as u64 * VALUES / 2,
        // 17 digits of the years 09, 16, 25, 99.
        9_111_812_000_012_345,
        16_022_923_595_999_999,
        25_111_812_000_012_345,
        99_123_123_595_999_999,
    ] {
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let client = Sequences::connect(world.address.clone()).await.unwrap();
            callers.spawn(call(client, format!("from {least}"), least, caller as u64));
        }
        let mut ranges: Vec<(u64, u64)> = callers.join_all().await.concat();
        ranges.sort_unstable();
        assert!(ranges.is_sorted_by(|one, next| one.1 < next.0), "two ranges overlap");
        let values: u64 = ranges.iter().map(|(first, last)| last - first + 1).sum();
        assert_eq!(values, CALLERS as u64 * VALUES);
        assert_eq!(ranges[0].0, least.max(1));
        // Only unanswered calls could leave a gap.
        assert_eq!(ranges[ranges.len() - 1].1, least.max(1) + values - 1);
    }
}

/// Allocates the values of one caller. Returns their ranges.
async fn call(client: Sequences, name: String, least: u64, seed: u64) -> Vec<(u64, u64)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut left, mut ranges, mut last) = (VALUES, Vec::new(), 0);
    while left > 0 {
        let count = random.random_range(1..=4000).min(left);
        let mut request = floor(least, many(count as u32, next(&name)));
        if random.random_bool(0.2) {
            request = named(&format!("{seed} {left}"), request);
        }
        let given = try_next(&client, request).await.unwrap();
        assert!(given.first > last && given.first >= least, "{given:?} after {last}");
        assert_eq!(given.last - given.first + 1, count);
        (left, last) = (left - count, given.last);
        ranges.push((given.first, given.last));
    }
    ranges
}

/// Returns a server on the test's own Redis, and a client, after the server has answered.
async fn server() -> (OwnRedis, Server, Sequences) {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    redis.hold_sweeper().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let client = answering(&server, "warm").await;
    (redis, server, client)
}

async fn counts(client: &Sequences) -> (u64, u64) {
    let request = pb::GetSequenceRequest { name: "any".into() };
    let response = client.clone().get_sequence(request).await.unwrap().into_inner();
    (response.server_values, response.server_script_calls)
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_wait_together_share_a_script_call() {
    let (redis, _server, client) = server().await;
    for (kind, most_calls) in [("plain", 4), ("floor", 4), ("request", 20)] {
        let before = counts(&client).await;
        crate::engine::round_trips::reset(&redis).await;
        // Redis answers no call for a while, so that all calls wait together.
        redis.command(&["CLIENT", "PAUSE", "700", "ALL"]).await.unwrap();
        let mut callers = JoinSet::new();
        for caller in 0..256 {
            let request = match kind {
                "plain" => next(kind),
                "floor" => floor(1 << 60, next(kind)),
                _ => named(&format!("{caller}"), next(kind)),
            };
            let mut client = client.clone();
            callers.spawn(async move {
                client.next_sequence(patient(request)).await.unwrap().into_inner().first
            });
        }
        let mut values = callers.join_all().await;
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), 256, "{kind}: all distinct");
        assert_eq!(values[255] - values[0], 255, "{kind}: no gap");
        let after = counts(&client).await;
        assert_eq!(after.0 - before.0, 256);
        let calls = after.1 - before.1;
        assert!(calls <= most_calls, "{kind}: 256 values took {calls} script calls");
        // Redis counts the same calls, and the call that read the counter.
        let counted = crate::engine::round_trips::calls(&redis).await;
        assert_eq!(counted.get("evalsha"), Some(&(calls + 1)), "{kind}: {counted:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_cancels_no_joined_call() {
    let (redis, _server, client) = server().await;
    redis.command(&["CLIENT", "PAUSE", "700", "ALL"]).await.unwrap();
    // The first call was sent before it is cancelled; the others wait behind it.
    let mut impatient = Vec::new();
    for number in 0..20 {
        let mut client = client.clone();
        let call = tokio::spawn(async move { client.next_sequence(patient(next("a"))).await });
        impatient.push(call);
        if number == 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let patient_ones = (0..20).map(|_| {
        let mut client = client.clone();
        tokio::spawn(async move { client.next_sequence(patient(next("a"))).await })
    });
    let patient_ones: Vec<_> = patient_ones.collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    for call in &impatient {
        call.abort();
    }
    let mut values = Vec::new();
    for call in patient_ones {
        values.push(call.await.unwrap().unwrap().into_inner().first);
    }
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len(), 20);
    // Of the cancelled calls only the first one took a number, since it had been sent.
    assert!(values[19] <= 21, "{values:?}");
    assert!(try_next(&client, next("a")).await.unwrap().first > values[19]);
}

#[tokio::test(flavor = "multi_thread")]
async fn joined_calls_are_refused_separately() {
    let (redis, _server, client) = server().await;
    let most = i64::MAX as u64;
    try_next(&client, floor(most - 10, next("end"))).await.unwrap();
    redis.command(&["CLIENT", "PAUSE", "700", "ALL"]).await.unwrap();
    // Ten values are left, and twenty callers ask for one each at the same time.
    let mut callers = JoinSet::new();
    for _ in 0..20 {
        let mut client = client.clone();
        callers.spawn(async move { client.next_sequence(patient(next("end"))).await });
    }
    let answers = callers.join_all().await;
    let mut given: Vec<u64> =
        answers.iter().filter_map(|answer| Some(answer.as_ref().ok()?.get_ref().first)).collect();
    given.sort_unstable();
    assert_eq!(given, (most - 9..=most).collect::<Vec<_>>());
    for refused in answers.into_iter().filter_map(Result::err) {
        assert_eq!(refused.code(), tonic::Code::OutOfRange);
    }
}
