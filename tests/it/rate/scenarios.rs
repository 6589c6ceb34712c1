//! Scenarios B and C: rate checks.

use std::time::Duration;

use pb::{Algorithm, RateVerdict, TierAction};
use tokio::task::JoinSet;
use tollgate_client::pb;
use tonic::Code;

use crate::support::{
    rates::{ALGORITHMS, WINDOWS, check, configured, cost, crawlers, limit, rule, tier, under},
    world::{World, length},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

on_both_engines! {
    b1_max_0_allows_no_call,
    b2_a_counter_without_ttl_is_repaired,
    b3_windows_below_a_second_work_and_zero_is_refused,
    b6_never_more_than_max_around_a_boundary,
    c2_hits_do_not_move_a_window,
    c3_a_burst_around_the_minute_is_banned,
    c4_each_tier_is_crossed_once,
    c6_a_refused_call_spends_nothing,
    c7_concurrent_calls_pass_up_to_the_remaining_number,
    c8_an_omitted_cost_counts_one,
    c9_waits_are_rounded_up_and_never_0,
    c10_different_keys_share_no_counter,
    c11_a_raised_limit_and_a_reset_apply_immediately,
}

async fn b1_max_0_allows_no_call(world: World) {
    for algorithm in ALGORITHMS {
        let none = rule([limit(0, MINUTE, algorithm)]);
        for _ in 0..3 {
            let answer = world.check(algorithm.as_str_name(), &none).await;
            assert_eq!(answer.verdict(), RateVerdict::Throttle, "{algorithm:?}");
            assert_eq!(length(answer.retry_after), MINUTE);
            assert_eq!((answer.limits[0].count, answer.limits[0].remaining), (0, 0));
        }
    }
    assert_eq!(world.keys().await, Vec::<String>::new());
}

async fn b2_a_counter_without_ttl_is_repaired(world: World) {
    for algorithm in ALGORITHMS {
        let key = algorithm.as_str_name();
        let two = rule([limit(2, MINUTE, algorithm)]);
        assert_eq!(world.passes(3, key, &two).await, 2, "{algorithm:?}");
        let stored = format!("{{}}:{{rate:\x1f{key}}}:usage");
        world.tamper(&["PERSIST", &stored]).await;
        // The key is not limited forever, and the next write sets the TTL again.
        world.advance(2 * MINUTE).await;
        assert!(world.check(key, &two).await.allowed, "{algorithm:?}");
        let ttl = world.tamper(&["PTTL", &stored]).await;
        assert!(matches!(ttl, None | Some(::redis::Value::Int(1..))), "{algorithm:?} {ttl:?}");
    }
}

async fn b3_windows_below_a_second_work_and_zero_is_refused(world: World) {
    let half = Duration::from_millis(500);
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::TokenBucket] {
        let two = rule([limit(2, half, algorithm)]);
        let key = algorithm.as_str_name();
        assert_eq!(world.passes(5, key, &two).await, 2, "{algorithm:?}");
        world.advance(half + half / 60).await;
        assert_eq!(world.passes(5, key, &two).await, 2, "{algorithm:?}");
    }
    let before = world.keys().await;
    for (seconds, nanos) in [(0, 0), (-1, 0), (0, -500_000_000), (30 * 86_400, 1)] {
        for algorithm in ALGORITHMS {
            let mut bad = limit(2, SECOND, algorithm);
            bad.window = Some(prost_types::Duration { seconds, nanos });
            let status =
                world.rates.clone().check_rate(check("bad", &rule([bad]))).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.message().contains("rule.limits[0].window must be"), "{status:?}");
        }
    }
    assert_eq!(world.keys().await, before);
}

async fn b6_never_more_than_max_around_a_boundary(world: World) {
    let three = rule([limit(3, 2 * SECOND, Algorithm::SlidingWindow)]);
    world.advance(1900 * SECOND / 1000).await;
    assert_eq!(world.passes(1, "k", &three).await, 1);
    world.advance(SECOND / 20).await;
    assert_eq!(world.passes(2, "k", &three).await, 2);
    // A boundary of a calendar window lies in between.
    world.advance(SECOND / 10).await;
    assert_eq!(world.passes(5, "k", &three).await, 0);
}

async fn c2_hits_do_not_move_a_window(world: World) {
    let two = rule([limit(2, SECOND, Algorithm::FixedWindow)]);
    let mut allowed = Vec::new();
    for _ in 0..12 {
        allowed.push(world.check("k", &two).await.allowed);
        world.advance(SECOND / 4).await;
    }
    let window = [true, true, false, false];
    assert_eq!(allowed, [window, window, window].concat());
}

async fn c3_a_burst_around_the_minute_is_banned(world: World) {
    world.advance(MINUTE - SECOND / 10).await;
    let sliding = crawlers(Algorithm::SlidingWindow);
    assert_eq!(world.passes(20, "k", &sliding).await, 20);
    world.advance(SECOND / 5).await;
    let answer = world.check("k", &sliding).await;
    assert_eq!(answer.verdict(), RateVerdict::Ban);
    assert!(answer.crossed && !answer.allowed);
}

async fn c4_each_tier_is_crossed_once(world: World) {
    for algorithm in WINDOWS {
        let key = algorithm.as_str_name();
        let (mut verdicts, mut crossed) = (Vec::new(), Vec::new());
        for call in 1..=25 {
            let answer = world.check(key, &crawlers(algorithm)).await;
            verdicts.push(answer.verdict());
            crossed.extend(answer.crossed.then_some(call));
            assert_eq!(answer.allowed, call <= 20);
            assert_eq!(answer.ban.is_some(), call > 20);
        }
        use RateVerdict::{Allow, Ban, Warn};
        let expected = [vec![Allow; 10], vec![Warn; 10], vec![Ban; 5]].concat();
        assert_eq!(verdicts, expected, "{algorithm:?}");
        assert_eq!(crossed, [11, 21], "{algorithm:?}");
    }
    // With a THROTTLE tier in between, refused calls count too, so that the ban is reached.
    let mut three = crawlers(Algorithm::FixedWindow);
    three.tiers.insert(1, tier(15, TierAction::Throttle, &[]));
    let mut crossed = Vec::new();
    for call in 1..=25 {
        crossed.extend(world.check("three", &three).await.crossed.then_some(call));
    }
    assert_eq!(crossed, [11, 16, 21]);
}

async fn c6_a_refused_call_spends_nothing(world: World) {
    for algorithm in ALGORITHMS {
        let wide = pb::Limit { name: "wide".into(), ..limit(10, MINUTE, algorithm) };
        let narrow = pb::Limit { name: "narrow".into(), ..limit(2, MINUTE, algorithm) };
        let both = rule([wide, narrow]);
        let key = algorithm.as_str_name();
        assert_eq!(world.passes(6, key, &both).await, 2, "{algorithm:?}");
        let answer = world.check(key, &both).await;
        let counts: Vec<u64> = answer.limits.iter().map(|limit| limit.count).collect();
        assert_eq!((answer.verdict(), counts), (RateVerdict::Throttle, vec![2, 2]));
    }
}

async fn c7_concurrent_calls_pass_up_to_the_remaining_number(world: World) {
    for algorithm in ALGORITHMS {
        let ten = rule([limit(10, MINUTE, algorithm)]);
        let mut calls = JoinSet::new();
        for _ in 0..1000 {
            let (mut client, request) = (world.rates.clone(), check(algorithm.as_str_name(), &ten));
            let mut request = tonic::Request::new(request);
            request.set_timeout(30 * SECOND);
            calls.spawn(async move { client.check_rate(request).await.unwrap().into_inner() });
        }
        let answers = calls.join_all().await;
        let allowed = answers.iter().filter(|answer| answer.allowed).count();
        assert_eq!(allowed, 10, "{algorithm:?}");
    }
}

async fn c8_an_omitted_cost_counts_one(world: World) {
    for algorithm in ALGORITHMS {
        let three = rule([limit(3, MINUTE, algorithm)]);
        let key = algorithm.as_str_name();
        assert_eq!(world.check(key, &three).await.limits[0].count, 1);
        // A check with the cost 0 changes nothing.
        for _ in 0..5 {
            let look = world.ask(cost(0, check(key, &three))).await;
            assert_eq!((look.allowed, look.limits[0].count), (true, 1), "{algorithm:?}");
        }
        assert_eq!(world.passes(5, key, &three).await, 2);
        let look = world.ask(cost(0, check(key, &three))).await;
        assert_eq!(look.verdict(), RateVerdict::Throttle);
    }
}

async fn c9_waits_are_rounded_up_and_never_0(world: World) {
    let one = rule([limit(1, SECOND, Algorithm::FixedWindow)]);
    assert!(world.check("k", &one).await.allowed);
    for (pass, left) in [(600_000, 400), (1, 400), (399_000, 1), (998, 1)] {
        world.advance(Duration::from_micros(pass)).await;
        let answer = world.check("k", &one).await;
        assert_eq!(length(answer.retry_after), Duration::from_millis(left));
    }
    world.advance(Duration::from_micros(1)).await;
    let answer = world.check("k", &one).await;
    assert!(answer.allowed && answer.retry_after.is_none());
}

async fn c10_different_keys_share_no_counter(world: World) {
    let one = rule([limit(1, MINUTE, Algorithm::FixedWindow)]);
    let keys = ["a", "a}", "a%7D", "{a}", "*", "a:b", "a_b", "a b", "%", "b_c", "c"];
    for key in keys {
        assert!(world.check(key, &one).await.allowed, "{key}");
    }
    let policies = ["a", "a_b", "a}", "a:b"];
    let text = policies.map(|name| {
        format!("[[policy]]\nname = \"{name}\"\nlimit = [{{ max = 1, window = \"1m\" }}]\n")
    });
    let world = World::with_rules(world.is_redis(), configured(&text.concat())).await;
    for policy in policies {
        for key in keys {
            assert!(world.ask(under(key, policy)).await.allowed, "{policy} {key}");
        }
    }
}

async fn c11_a_raised_limit_and_a_reset_apply_immediately(world: World) {
    for algorithm in ALGORITHMS {
        let key = algorithm.as_str_name();
        let up_to = |max| rule([limit(max, MINUTE, algorithm)]);
        assert_eq!(world.passes(9, key, &up_to(5)).await, 5, "{algorithm:?}");
        // Counted calls stay counted.
        assert_eq!(world.passes(9, key, &up_to(8)).await, 3, "{algorithm:?}");
        let answer = world.check(key, &up_to(3)).await;
        assert_eq!((answer.allowed, answer.limits[0].remaining), (false, 0), "{algorithm:?}");
        assert!(world.reset(key, "").await);
        assert_eq!(world.passes(9, key, &up_to(5)).await, 5, "{algorithm:?}");
        assert!(world.reset(key, "").await && !world.reset(key, "").await);
        // A longer window includes the same calls.
        let longer = rule([limit(5, 2 * MINUTE, algorithm)]);
        assert_eq!(world.passes(4, key, &up_to(5)).await, 4);
        world.advance(3 * SECOND).await;
        let left = world.passes(9, key, &longer).await;
        assert_eq!(left, 1, "{algorithm:?}");
    }
}
