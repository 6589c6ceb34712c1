//! Clocks that are set back, unreadable state, and requests far beyond the bounds.

use std::time::Duration;

use pb::{Algorithm, RateVerdict, TierAction};
use tollgate_client::pb;
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{
    process::{OwnRedis, Server},
    rates::{ALGORITHMS, WINDOWS, check, cost, limit, rule, tier},
    wire::Wire,
    world::{Rates, World, length},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

on_both_engines! {
    a_clock_that_is_set_back_prolongs_no_wait,
    unreadable_state_affects_one_key_only,
    a_key_counts_under_32_names,
    a_key_remembers_the_notices_of_few_tiers,
    a_clock_that_is_set_back_suppresses_no_notice,
    alternating_windows_still_release_usage,
    a_window_with_notices_only_accepts_any_length,
    a_large_bucket_keeps_its_usage_when_it_is_raised,
    an_offset_beyond_all_numbers_is_refused,
    many_bad_fields_get_a_short_answer,
}

async fn a_clock_that_is_set_back_prolongs_no_wait(world: World) {
    world.advance(3600 * SECOND).await;
    for algorithm in ALGORITHMS {
        let key = algorithm.as_str_name();
        assert_eq!(world.passes(3, key, &rule([limit(2, MINUTE, algorithm)])).await, 2);
    }
    world.time().set_back(3_000_000_000).await;
    for algorithm in ALGORITHMS {
        let (key, two) = (algorithm.as_str_name(), rule([limit(2, MINUTE, algorithm)]));
        let refused = world.check(key, &two).await;
        assert!(!refused.allowed, "{algorithm:?}: the usage was forgotten");
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

async fn unreadable_state_affects_one_key_only(world: World) {
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

async fn a_key_remembers_the_notices_of_few_tiers(world: World) {
    let mut rule = rule([limit(1_000_000, MINUTE, Algorithm::FixedWindow)]);
    world.ask(cost(5000, check("k", &rule))).await;
    for round in 0..100 {
        let above = |i: u64| 8 * round + i;
        rule.tiers = (0..8).map(|i| tier(above(i), TierAction::Warn, &[])).collect();
        let answer = world.check("k", &rule).await;
        assert!(answer.crossed && answer.allowed, "{round}");
        assert!(!world.check("k", &rule).await.crossed, "{round}");
    }
}

async fn a_clock_that_is_set_back_suppresses_no_notice(world: World) {
    for algorithm in WINDOWS {
        let key = algorithm.as_str_name();
        let mut rule = rule([limit(100, MINUTE, algorithm)]);
        rule.tiers = vec![tier(2, TierAction::Warn, &[])];
        world.advance(3600 * SECOND).await;
        world.passes(5, key, &rule).await;
        world.time().set_back(3_600_000_000).await;
        let mut crossed = 0;
        for _ in 0..30 {
            world.advance(10 * SECOND).await;
            crossed += u32::from(world.check(key, &rule).await.crossed);
        }
        assert!((3..=5).contains(&crossed), "{algorithm:?}: {crossed} in 5 minutes");
    }
}

async fn alternating_windows_still_release_usage(world: World) {
    for (short, long) in [(2000, 2100), (1000, 60_000), (2000, 3000)] {
        let key = format!("{short} {long}");
        let of = |millis| rule([limit(3, Duration::from_millis(millis), Algorithm::SlidingWindow)]);
        assert_eq!(world.passes(3, &key, &of(short)).await, 3);
        // Two servers with different configurations, and a caller that does not wait.
        for step in 0.. {
            assert!(step * 10 <= 2 * short + long, "{key}: not given back");
            world.advance(Duration::from_millis(10)).await;
            world.ask(cost(4, check(&key, &of(long)))).await;
            if world.check(&key, &of(short)).await.allowed {
                break;
            }
        }
    }
}

async fn a_window_with_notices_only_accepts_any_length(world: World) {
    let of = |window, above| {
        let tiers = vec![tier(above, TierAction::Throttle, &[])];
        pb::Rule { tiers, ..rule([limit(9, window, Algorithm::SlidingWindow)]) }
    };
    assert!(world.check("k", &of(SECOND, 3)).await.allowed);
    world.advance(SECOND * 9 / 10).await;
    let refused = async |rule: &pb::Rule| {
        let response = world.ask(cost(5, check("k", rule))).await;
        assert!(!response.allowed, "{response:?}");
        response.crossed
    };
    assert!(refused(&of(SECOND, 3)).await);
    // The counted calls have left the window. The last notice is still stored, and further ones are
    // added.
    world.advance(SECOND / 2).await;
    assert!(refused(&of(SECOND, 4)).await);
    assert!(refused(&of(3600 * SECOND, 2)).await);
    assert!(!refused(&of(3600 * SECOND, 2)).await);
}

async fn a_large_bucket_keeps_its_usage_when_it_is_raised(world: World) {
    let of = |max| rule([limit(max, 1440 * MINUTE, Algorithm::TokenBucket)]);
    world.ask(cost(150_000, check("k", &of(1_000_000)))).await;
    let answer = world.ask(cost(0, check("k", &of(2_000_000)))).await;
    assert_eq!((answer.allowed, answer.limits[0].count), (true, 150_000));
    let answer = world.ask(cost(0, check("k", &of(100_000)))).await;
    assert_eq!((answer.allowed, answer.limits[0].remaining), (false, 0));
}

async fn an_offset_beyond_all_numbers_is_refused(world: World) {
    for seconds in [i64::MIN, i64::from(i32::MIN) * 60, i64::from(i32::MAX) * 60, i64::MAX] {
        let offset = Some(prost_types::Duration { seconds, nanos: 0 });
        let rule = rule([limit(1, MINUTE, Algorithm::CalendarWindow)]);
        let request = check("k", &pb::Rule { utc_offset: offset, ..rule });
        let status = world.rates.clone().check_rate(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{seconds}");
        assert!(status.message().starts_with("rule.utc_offset"), "{status:?}");
    }
}

async fn many_bad_fields_get_a_short_answer(world: World) {
    let bad = pb::Limit { algorithm: 99, ..pb::Limit::default() };
    let many = pb::Rule { limits: vec![bad; 200_000], ..pb::Rule::default() };
    let mut long = rule([limit(1, MINUTE, Algorithm::FixedWindow)]);
    long.tiers = vec![tier(1, TierAction::Ban, &[Duration::ZERO; 300_000])];
    for rule in [many, long] {
        let status = world.rates.clone().check_rate(check("k", &rule)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    }
    // The answer contains as many violations as fit into the headers that clients accept, and
    // counts the rest.
    let empty = pb::CheckRateRequest::default();
    let checks = pb::CheckRatesRequest { checks: vec![empty; 100] };
    let status = world.rates.clone().check_rates(checks).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().ends_with("and 192 more"), "{status:?}");
    let named = status.get_details_bad_request().unwrap().field_violations.len();
    assert_eq!(named, 20);
    assert!(world.check("k", &rule([limit(1, MINUTE, Algorithm::FixedWindow)])).await.allowed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_is_repeated_only_with_a_request_id() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let wire = Wire::to(redis.port).await;
    let engine = format!("redis://127.0.0.1:{}", wire.port);
    let server = Server::start(&["--engine", &engine]).await;
    let mut rates = Rates::connect(server.address()).await.unwrap();
    let one = rule([limit(1, MINUTE, Algorithm::FixedWindow)]);
    // The reply is lost. Without a request id, a second attempt at the only call would be refused.
    for (key, id) in [("without", ""), ("with", "id")] {
        // After an answered call the server sends no probe for a while.
        while rates.check_rate(check("warm", &one)).await.is_err() {
            tokio::time::sleep(SECOND / 50).await;
        }
        wire.lose_decision();
        let request = pb::CheckRateRequest { request_id: id.into(), ..check(key, &one) };
        let answer = rates.check_rate(request).await;
        match (id, answer) {
            ("", answer) => assert_eq!(answer.unwrap_err().code(), Code::DeadlineExceeded),
            (_, answer) => {
                let answer = answer.unwrap().into_inner();
                assert!(answer.allowed && answer.limits[0].count == 1, "{answer:?}");
            }
        }
    }
}
