//! Clocks that are set back, values that are not what the scripts wrote, and
//! more names than a key may have.

use std::time::Duration;

use pb::{Algorithm, RateVerdict};
use tollgate::grpc::client::pb;
use tonic::Code;

use crate::{
    rates::{ALGORITHMS, check, limit, rule},
    world::{World, length},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

on_both_engines! {
    a_clock_that_is_set_back_holds_nobody_up_for_longer,
    what_cannot_be_read_is_one_keys_trouble,
    a_key_counts_under_32_names,
}

async fn a_clock_that_is_set_back_holds_nobody_up_for_longer(world: World) {
    world.advance(3600 * SECOND).await;
    for algorithm in ALGORITHMS {
        let key = algorithm.as_str_name();
        assert_eq!(world.passes(3, key, &rule([limit(2, MINUTE, algorithm)])).await, 2);
    }
    world.time().set_back(3_000_000_000).await;
    for algorithm in ALGORITHMS {
        let (key, two) = (algorithm.as_str_name(), rule([limit(2, MINUTE, algorithm)]));
        let refused = world.check(key, &two).await;
        assert!(!refused.allowed, "{algorithm:?}: what was counted stays counted");
        let wait = length(refused.retry_after);
        assert!(wait <= MINUTE + SECOND, "{algorithm:?}: {wait:?}");
    }
    world.advance(MINUTE + SECOND).await;
    for algorithm in ALGORITHMS {
        assert!(
            world
                .check(algorithm.as_str_name(), &rule([limit(2, MINUTE, algorithm)]))
                .await
                .allowed
        );
    }
}

async fn what_cannot_be_read_is_one_keys_trouble(world: World) {
    let two = rule([limit(2, MINUTE, Algorithm::SlidingWindow)]);
    let broken: [&[&str]; 4] = [
        &["SET", "{}:{rate:\x1ftext}:usage", "sixty"],
        &["HSET", "{}:{rate:\x1fhash}:usage", "count", "2"],
        &["SET", "{}:{rate:\x1fban}:ban", "text"],
        &["RPUSH", "{}:{rate:\x1flist}:ban", "1"],
    ];
    for (key, command) in ["text", "hash", "ban", "list"].into_iter().zip(broken) {
        if world.tamper(command).await.is_none() {
            return; // The embedded engine's values cannot be reached.
        }
        let status = world.rates.clone().check_rate(check(key, &two)).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{key}");
        let checks = vec![check("other", &two), check(key, &two), check("other", &two)];
        let batch = world.rates.clone().check_rates(pb::CheckRatesRequest { checks }).await;
        let results = batch.unwrap().into_inner().results;
        assert!(results[0].allowed && results[2].allowed);
        assert_eq!(results[1].verdict(), RateVerdict::Unspecified);
        assert!(!results[1].allowed && !results[1].error.is_empty());
        world.reset("other", "").await;
        if ["text", "hash"].contains(&key) {
            assert!(world.reset(key, "").await);
        } else {
            assert!(world.unban(key).await);
        }
        assert_eq!(world.passes(3, key, &two).await, 2, "{key}");
    }
}

async fn a_key_counts_under_32_names(world: World) {
    let of = |i: usize| {
        let named = limit(1, MINUTE, Algorithm::FixedWindow);
        rule([pb::Limit { name: format!("name {i}"), ..named }])
    };
    for i in 0..32 {
        assert!(world.check("k", &of(i)).await.allowed);
    }
    let status = world.rates.clone().check_rate(check("k", &of(32))).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(!world.check("k", &of(7)).await.allowed);
    world.advance(MINUTE).await;
    assert!(world.check("k", &of(32)).await.allowed);
}
