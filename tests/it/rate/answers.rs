//! Answers of the rate contract that no scenario covers, on both engines.

use std::time::Duration;

use pb::{Algorithm, RateVerdict, TierAction};
use tollgate_client::pb;
use tonic::{Code, Request};

use crate::support::{
    rates::{WINDOWS, check, configured, cost, crawlers, limit, rule, tier, under},
    world::{START, World, duration, length, micros},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

on_both_engines! {
    ban_durations_grow_with_strikes_until_strikes_are_forgotten,
    an_operator_bans_and_unbans,
    bans_are_listed_in_pages,
    a_banned_key_touches_no_counter,
    a_repeated_request_gets_the_first_answer,
    a_check_of_cost_0_writes_nothing_and_returns_the_next_verdict,
    a_tier_at_max_replaces_the_throttle_of_max,
    an_answer_names_the_limits_that_refused,
    calendar_windows_follow_the_clock_of_their_offset,
    a_token_bucket_lets_a_burst_pass_and_refills_evenly,
    rates_beyond_one_per_microsecond_are_exact,
    policies_have_overrides_by_key,
    batches_are_answered_in_order,
}

async fn ban_durations_grow_with_strikes_until_strikes_are_forgotten(world: World) {
    let rule =
        pb::Rule { ban_memory: Some(duration(10 * MINUTE)), ..crawlers(Algorithm::FixedWindow) };
    for (strike, minutes, wait) in [(1, 5, 5), (2, 60, 60), (3, 60, 71), (1, 5, 5)] {
        assert_eq!(world.passes(20, "k", &rule).await, 20);
        let answer = world.check("k", &rule).await;
        let ban = answer.ban.unwrap();
        assert_eq!((ban.strikes, answer.crossed), (strike, true));
        assert_eq!(length(answer.retry_after), minutes * MINUTE);
        assert_eq!((ban.key.as_str(), ban.reason.as_str()), ("k", "above 20"));
        assert!(ban.actor.is_empty());
        world.advance(minutes * MINUTE - SECOND).await;
        assert_eq!(world.check("k", &rule).await.verdict(), RateVerdict::Ban);
        world.advance(SECOND + (wait - minutes) * MINUTE).await;
    }
}

async fn an_operator_bans_and_unbans(world: World) {
    let rule = rule([limit(5, MINUTE, Algorithm::SlidingWindow)]);
    let mut request = Request::new(pb::BanRequest {
        key: "k".into(),
        duration: Some(duration(MINUTE)),
        reason: "scraping".into(),
        ..pb::BanRequest::default()
    });
    request.metadata_mut().insert("x-tollgate-actor", "alice".parse().unwrap());
    let ban = world.rates.clone().ban(request).await.unwrap().into_inner().ban.unwrap();
    assert_eq!((ban.actor.as_str(), ban.reason.as_str(), ban.strikes), ("alice", "scraping", 1));
    assert_eq!(micros(ban.until), START + 60_000_000);
    let answer = world.check("k", &rule).await;
    assert_eq!((answer.verdict(), answer.ban), (RateVerdict::Ban, Some(ban)));
    assert_eq!(length(answer.retry_after), MINUTE);
    // A ban during a ban replaces it; a ban after its end is a further strike.
    assert_eq!(world.ban("k", 2 * MINUTE).await.strikes, 1);
    world.advance(2 * MINUTE).await;
    assert!(world.check("k", &rule).await.allowed);
    assert_eq!(world.ban("k", MINUTE).await.strikes, 2);

    assert!(world.unban("k").await && !world.unban("k").await);
    assert_eq!(world.passes(9, "k", &rule).await, 5, "unban deletes the usage");
    assert_eq!(world.ban("k", MINUTE).await.strikes, 1, "unban deletes the strikes");
    assert!(!world.reset("other", "").await);
}

async fn bans_are_listed_in_pages(world: World) {
    assert_eq!(world.bans().await, []);
    for (key, minutes) in [("c", 3), ("a", 1), ("e", 5), ("b", 2), ("d", 4), ("gone", 4)] {
        world.ban(key, minutes * MINUTE).await;
    }
    world.unban("gone").await;
    let (mut keys, mut token) = (Vec::new(), String::new());
    for page in 0..3 {
        let request = pb::ListBansRequest {
            page_size: Some(2),
            page_token: token,
            ..pb::ListBansRequest::default()
        };
        let response = world.rates.clone().list_bans(request).await.unwrap().into_inner();
        keys.extend(response.bans.into_iter().map(|ban| ban.key));
        token = response.next_page_token;
        assert_eq!(token.is_empty(), page == 2);
    }
    assert_eq!(keys, ["a", "b", "c", "d", "e"]);
    world.advance(2 * MINUTE).await;
    let left: Vec<String> = world.bans().await.into_iter().map(|ban| ban.key).collect();
    assert_eq!(left, ["c", "d", "e"]);
    // An unreadable ban does not hide the other bans.
    if world.tamper(&["SET", "{}:{rate:\x1fd}:ban", "text"]).await.is_some() {
        let mut left: Vec<String> = world.bans().await.into_iter().map(|ban| ban.key).collect();
        left.sort();
        assert_eq!(left, ["c", "d", "e"]);
    }
}

async fn a_banned_key_touches_no_counter(world: World) {
    for algorithm in WINDOWS {
        let key = algorithm.as_str_name();
        let five = rule([limit(5, MINUTE, algorithm)]);
        assert_eq!(world.passes(2, key, &five).await, 2);
        world.ban(key, 10 * SECOND).await;
        assert_eq!(world.passes(9, key, &five).await, 0);
        let answer = world.check(key, &five).await;
        assert_eq!(answer.limits[0].count, 2, "{algorithm:?}");
        world.advance(10 * SECOND).await;
        assert_eq!(world.passes(9, key, &five).await, 3, "{algorithm:?}");
    }
    // If the window outlasts the ban, the wait lasts until the window ends.
    let mut rule = crawlers(Algorithm::FixedWindow);
    rule.tiers[1] = tier(20, TierAction::Ban, &[SECOND]);
    assert_eq!(world.passes(20, "k", &rule).await, 20);
    let answer = world.check("k", &rule).await;
    assert_eq!(length(answer.retry_after), MINUTE);
    world.advance(SECOND).await;
    let again = world.check("k", &rule).await;
    assert_eq!((again.verdict(), again.crossed), (RateVerdict::Ban, false));
    assert_eq!(again.ban.unwrap().strikes, 2);
}

async fn a_repeated_request_gets_the_first_answer(world: World) {
    let two = rule([limit(2, MINUTE, Algorithm::FixedWindow)]);
    let ask = |id: &str, rule: &pb::Rule| {
        let request = pb::CheckRateRequest { request_id: id.into(), ..check("k", rule) };
        world.ask(request)
    };
    let first = ask("one", &two).await;
    assert!(first.allowed && !first.replayed);
    for _ in 0..5 {
        let again = ask("one", &two).await;
        assert_eq!(again, pb::CheckRateResponse { replayed: true, ..first.clone() });
    }
    assert!(ask("two", &two).await.allowed);
    // A refusal has changed nothing, so it is decided anew.
    assert!(!ask("three", &two).await.allowed);
    world.advance(MINUTE).await;
    let third = ask("three", &two).await;
    assert!(third.allowed && !third.replayed);
    world.advance(5 * MINUTE).await;
    assert!(!ask("one", &two).await.replayed, "forgotten after 5 minutes");

    // A refusal is replayed only while the call would still be refused.
    let mut notice = rule([limit(2, MINUTE, Algorithm::FixedWindow)]);
    notice.tiers = vec![tier(2, TierAction::Throttle, &[])];
    assert!(ask("four", &two).await.allowed);
    let first = ask("refused", &notice).await;
    assert!(first.crossed && !first.allowed);
    assert!(ask("refused", &notice).await.replayed);
    notice.limits[0].max = Some(9);
    notice.tiers[0].above = Some(9);
    assert!(ask("refused", &notice).await.allowed, "the limit was raised");

    // A repeat gets the notice of a lost answer.
    let crawlers = crawlers(Algorithm::SlidingWindow);
    world.ask(cost(20, check("k", &crawlers))).await;
    let banned = ask("ban", &crawlers).await;
    assert!(banned.crossed && banned.ban.is_some());
    let again = ask("ban", &crawlers).await;
    assert_eq!(again, pb::CheckRateResponse { replayed: true, ..banned });
    world.unban("k").await;
    assert!(ask("ban", &crawlers).await.allowed);
}

async fn a_check_of_cost_0_writes_nothing_and_returns_the_next_verdict(world: World) {
    let rule = crawlers(Algorithm::SlidingWindow);
    let look = || world.ask(cost(0, check("k", &rule)));
    assert_eq!(look().await.verdict(), RateVerdict::Allow);
    assert_eq!(world.keys().await, Vec::<String>::new());
    for (calls, verdict) in [(10, RateVerdict::Warn), (10, RateVerdict::Ban)] {
        world.passes(calls, "k", &rule).await;
        let seen = look().await;
        assert_eq!((seen.verdict(), seen.crossed), (verdict, false));
        assert_eq!(seen, look().await);
    }
    let seen = look().await;
    assert!(seen.ban.is_none() && !seen.allowed);
    assert_eq!(length(seen.retry_after), 5 * MINUTE);
    assert!(world.check("k", &rule).await.crossed);
    assert!(look().await.ban.is_some());
}

async fn a_tier_at_max_replaces_the_throttle_of_max(world: World) {
    let warn = |above| vec![tier(above, TierAction::Warn, &[])];
    let rule_of =
        |max, tiers| pb::Rule { tiers, ..rule([limit(max, MINUTE, Algorithm::FixedWindow)]) };
    // Below `max`: calls above `max` are throttled.
    assert_eq!(world.passes(9, "below", &rule_of(5, warn(3))).await, 5);
    assert_eq!(world.check("below", &rule_of(5, warn(3))).await.verdict(), RateVerdict::Throttle);
    // At `max`: calls above it only get a warning.
    let only = rule_of(5, warn(5));
    assert_eq!(world.passes(9, "at", &only).await, 9);
    let answer = world.check("at", &only).await;
    assert_eq!((answer.verdict(), answer.limits[0].remaining), (RateVerdict::Warn, 0));
    // Beyond `max`: the tier is never reached, and refused calls spend nothing.
    assert_eq!(world.passes(9, "beyond", &rule_of(5, warn(7))).await, 5);
    assert_eq!(world.check("beyond", &rule_of(5, warn(7))).await.limits[0].count, 5);
    // A BAN tier beyond `max` is reached by throttled calls.
    let ban = rule_of(5, vec![tier(7, TierAction::Ban, &[MINUTE])]);
    assert_eq!(world.passes(7, "ban", &ban).await, 5);
    assert_eq!(world.check("ban", &ban).await.verdict(), RateVerdict::Ban);
    // With `max` 0 no call passes.
    assert_eq!(world.passes(3, "none", &rule_of(0, warn(5))).await, 0);
    // A THROTTLE tier with no tier above it: refused calls spend nothing.
    let throttle = rule_of(100, vec![tier(3, TierAction::Throttle, &[])]);
    assert_eq!(world.passes(9, "throttle", &throttle).await, 3);
    assert_eq!(world.check("throttle", &throttle).await.limits[0].count, 3);
}

async fn an_answer_names_the_limits_that_refused(world: World) {
    let named = |name: &str, max, window| pb::Limit {
        name: name.into(),
        ..limit(max, window, Algorithm::SlidingWindow)
    };
    let two = rule([named("minute", 3, MINUTE), named("second", 2, SECOND)]);
    let refused = async |asked| {
        let answer = world.rates.clone().check_rate(asked).await.unwrap().into_inner();
        let windows: Vec<_> = answer.limits.iter().map(|used| length(used.window)).collect();
        assert_eq!(windows, [MINUTE, SECOND]);
        let refused = answer.limits.into_iter().filter(|used| used.refused);
        refused.map(|used| used.name).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(refused(cost(2, check("k", &two))).await, none);
    assert_eq!(refused(check("k", &two)).await, ["second"]);
    assert_eq!(refused(cost(0, check("k", &two))).await, ["second"]);
    assert_eq!(refused(cost(2, check("k", &two))).await, ["minute", "second"]);
    world.advance(2 * SECOND).await;
    assert_eq!(refused(cost(2, check("k", &two))).await, ["minute"]);
    assert_eq!(refused(check("k", &two)).await, none);

    // A ban refuses by itself.
    let ban = pb::Rule { tiers: vec![tier(1, TierAction::Ban, &[MINUTE])], ..two.clone() };
    let banned = world.check("k", &ban).await;
    assert_eq!(banned.verdict(), RateVerdict::Ban);
    assert!(banned.limits.iter().all(|used| !used.refused));
}

async fn calendar_windows_follow_the_clock_of_their_offset(world: World) {
    // 2026-01-01T00:00:00Z is 05:45 in Kathmandu.
    let offset = prost_types::Duration { seconds: 5 * 3600 + 45 * 60, nanos: 0 };
    for (window, left) in [(60, 60), (3600, 15 * 60), (86_400, 18 * 3600 + 15 * 60)] {
        let day = limit(1, window * SECOND, Algorithm::CalendarWindow);
        let rule = pb::Rule { utc_offset: Some(offset), ..rule([day]) };
        let key = window.to_string();
        assert!(world.check(&key, &rule).await.allowed);
        let refused = world.check(&key, &rule).await;
        assert_eq!(length(refused.retry_after), left * SECOND, "{window}");
    }
    // The day is 20,454 since 1970: windows of several days count from there.
    for (days, left) in [(2, 2), (7, 7), (30, 6), (365, 351)] {
        let rule = rule([limit(1, days * DAY, Algorithm::CalendarWindow)]);
        let key = format!("{days} days");
        assert!(world.check(&key, &rule).await.allowed);
        let refused = world.check(&key, &rule).await;
        assert_eq!(length(refused.retry_after), left * DAY, "{days}");
    }
    let day = rule([limit(1, 86_400 * SECOND, Algorithm::CalendarWindow)]);
    assert!(world.check("utc", &day).await.allowed);
    world.advance(86_400 * SECOND - Duration::from_micros(1)).await;
    assert!(!world.check("utc", &day).await.allowed);
    world.advance(Duration::from_micros(1)).await;
    assert!(world.check("utc", &day).await.allowed);
}

async fn a_token_bucket_lets_a_burst_pass_and_refills_evenly(world: World) {
    let ten = pb::Limit { burst: Some(3), ..limit(10, MINUTE, Algorithm::TokenBucket) };
    let ten = rule([ten]);
    assert_eq!(world.passes(9, "k", &ten).await, 3);
    let refused = world.check("k", &ten).await;
    assert_eq!(length(refused.retry_after), 6 * SECOND);
    assert_eq!((refused.limits[0].max, refused.limits[0].count), (3, 3));
    for _ in 0..5 {
        world.advance(6 * SECOND).await;
        assert_eq!(world.passes(3, "k", &ten).await, 1);
    }
    let too_much = world.ask(cost(4, check("k", &ten))).await;
    assert_eq!(length(too_much.retry_after), MINUTE, "a cost above burst never passes");
    world.advance(MINUTE).await;
    assert!(world.ask(cost(3, check("k", &ten))).await.allowed);
}

async fn rates_beyond_one_per_microsecond_are_exact(world: World) {
    // 3 per 2 µs: exactly 3 calls pass in each 2 µs.
    let fast =
        pb::Limit { burst: Some(3), ..limit(15_000_000, 10 * SECOND, Algorithm::TokenBucket) };
    let fast = rule([fast]);
    let mut passed = 0;
    for _ in 0..50 {
        passed += world.passes(5, "k", &fast).await;
        world.advance(Duration::from_micros(2)).await;
    }
    assert_eq!(passed, 150);
}

async fn policies_have_overrides_by_key(world: World) {
    let rules = configured(
        "[[policy]]\nname = \"sms\"\nlimit = [{ max = 2, window = \"600s\" }]\n\
         [[policy.override]]\nmatch = \"vip:*\"\nlimit = [{ max = 4, window = \"600s\" }]\n\
         [[policy.override]]\nmatch = \"*\"\nlimit = [{ max = 3, window = \"600s\" }]\n",
    );
    let world = World::with_rules(world.is_redis(), rules).await;
    for (key, most) in [("vip:1", 4), ("user", 3)] {
        let mut passed = 0;
        for _ in 0..9 {
            passed += usize::from(world.ask(under(key, "sms")).await.allowed);
        }
        assert_eq!(passed, most, "{key}");
    }
    assert!(world.reset("user", "sms").await && !world.reset("user", "").await);
    let listed = world.rates.clone().list_policies(pb::ListPoliciesRequest {}).await.unwrap();
    let policies = listed.into_inner().policies;
    assert_eq!((policies.len(), policies[0].overrides.len()), (1, 2));
    let status = world.rates.clone().check_rate(under("k", "none")).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

async fn batches_are_answered_in_order(world: World) {
    let ten = rule([limit(10, MINUTE, Algorithm::SlidingWindow)]);
    let checks = (0..100).map(|i| check(["a", "b"][i % 2], &ten)).collect();
    let request = pb::CheckRatesRequest { checks };
    let results = world.rates.clone().check_rates(request).await.unwrap().into_inner().results;
    assert_eq!(results.len(), 100);
    for (i, result) in results.iter().enumerate() {
        assert_eq!(result.allowed, i < 20, "{i}");
        assert_eq!(result.limits[0].count, (i as u64 / 2 + 1).min(10));
    }
}
