//! Refused requests about rates, and refused policies of the configuration.

use std::collections::BTreeMap;

use pb::{Algorithm, TierAction};
use tollgate_client::pb;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use crate::support::{
    process::{TempFile, tollgate},
    rates::{check, cost, limit, rule, tier, under},
    world::World,
};

const MINUTE: std::time::Duration = std::time::Duration::from_secs(60);

on_both_engines! {
    every_bad_field_of_a_check_is_named,
    a_rule_has_bounds,
    batches_have_bounds_and_are_refused_as_a_whole,
    bans_and_listings_have_bounds,
    values_at_their_bounds_are_accepted,
    unknown_policies_are_not_found,
}

/// Returns the fields of a refusal, each with its description.
fn violations<T: std::fmt::Debug>(answer: Result<T, Status>) -> BTreeMap<String, String> {
    let status = answer.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_details_bad_request().unwrap();
    let fields = details.field_violations.into_iter();
    fields.map(|violation| (violation.field, violation.description)).collect()
}

async fn refused(world: &World, request: pb::CheckRateRequest) -> Vec<String> {
    let answer = world.rates.clone().check_rate(request).await;
    violations(answer).into_keys().collect()
}

async fn every_bad_field_of_a_check_is_named(world: World) {
    let bad =
        pb::CheckRateRequest { request_id: "a\nb".into(), ..cost(1 << 40, check("", &rule([]))) };
    assert_eq!(refused(&world, bad).await, ["cost", "key", "request_id", "rule.limits"]);
    let long = pb::CheckRateRequest { against: None, ..check(&"k".repeat(257), &rule([])) };
    assert_eq!(refused(&world, long).await, ["key", "policy"]);
    assert_eq!(refused(&world, under("k", "")).await, ["policy"]);
    assert_eq!(world.keys().await, Vec::<String>::new());
}

async fn a_rule_has_bounds(world: World) {
    let good = limit(1, MINUTE, Algorithm::SlidingWindow);
    let bucket = limit(1, MINUTE, Algorithm::TokenBucket);
    let named = |name: &str| pb::Limit { name: name.into(), ..good.clone() };
    let of = |limit: pb::Limit| rule([limit]);
    let tiers = |tiers: &[pb::Tier]| pb::Rule { tiers: tiers.into(), ..rule([good.clone()]) };
    let warn = |above| tier(above, TierAction::Warn, &[]);
    let long = prost_types::Duration { seconds: 3600 * 15, nanos: 0 };
    let odd = prost_types::Duration { seconds: 61, nanos: 0 };
    let cases = [
        (rule(vec![named("a"); 9]), "limits"),
        (rule([named("a"), named("a")]), "limits[1].name"),
        (rule([named("a"), named("")]), "limits[1].name"),
        (of(named("a\u{1}")), "limits[0].name"),
        (of(pb::Limit { max: None, ..good.clone() }), "limits[0].max"),
        (of(pb::Limit { max: Some(1_000_000_001), ..good.clone() }), "limits[0].max"),
        (of(pb::Limit { max: Some(90_000_001), ..bucket.clone() }), "limits[0].max"),
        (of(pb::Limit { window: None, ..good.clone() }), "limits[0].window"),
        (of(pb::Limit { algorithm: 5, ..good.clone() }), "limits[0].algorithm"),
        (of(pb::Limit { burst: Some(1), ..good.clone() }), "limits[0].burst"),
        (of(pb::Limit { burst: Some(0), ..bucket.clone() }), "limits[0].burst"),
        (of(pb::Limit { burst: Some(600_000), ..bucket.clone() }), "limits[0].burst"),
        (of(limit(1, MINUTE * 7, Algorithm::CalendarWindow)), "limits[0].window"),
        (of(limit(1, MINUTE / 40, Algorithm::CalendarWindow)), "limits[0].window"),
        (of(limit(1, MINUTE * 2881, Algorithm::CalendarWindow)), "limits[0].window"),
        (tiers(&vec![warn(1); 9]), "tiers"),
        (tiers(&[pb::Tier { above: None, ..warn(1) }]), "tiers[0].above"),
        (tiers(&[warn(1_000_000_001)]), "tiers[0].above"),
        (tiers(&[pb::Tier { action: 0, ..warn(1) }]), "tiers[0].action"),
        (tiers(&[warn(2), warn(2)]), "tiers[1].above"),
        (tiers(&[tier(1, TierAction::Ban, &[]), warn(2)]), "tiers[1].action"),
        (tiers(&[tier(1, TierAction::Warn, &[MINUTE])]), "tiers[0].ban_durations"),
        (tiers(&[tier(1, TierAction::Ban, &[MINUTE; 17])]), "tiers[0].ban_durations"),
        (
            tiers(&[tier(1, TierAction::Ban, &[std::time::Duration::ZERO])]),
            "tiers[0].ban_durations[0]",
        ),
        (pb::Rule { tiers: vec![warn(1)], ..of(bucket.clone()) }, "limits[0].algorithm"),
        (pb::Rule { utc_offset: Some(long), ..of(good.clone()) }, "utc_offset"),
        (pb::Rule { utc_offset: Some(odd), ..of(good.clone()) }, "utc_offset"),
        (pb::Rule { ban_memory: Some(Default::default()), ..of(good.clone()) }, "ban_memory"),
    ];
    for (rule, field) in cases {
        assert_eq!(refused(&world, check("k", &rule)).await, [format!("rule.{field}")]);
    }
    assert_eq!(world.keys().await, Vec::<String>::new());
}

async fn batches_have_bounds_and_are_refused_as_a_whole(world: World) {
    let good = check("k", &rule([limit(1, MINUTE, Algorithm::SlidingWindow)]));
    for count in [0, 101] {
        let checks = vec![good.clone(); count];
        let answer = world.rates.clone().check_rates(pb::CheckRatesRequest { checks }).await;
        assert!(violations(answer)["checks"].contains("1 to 100"));
    }
    let bad = pb::CheckRateRequest { key: String::new(), ..good.clone() };
    let checks = vec![good.clone(), bad, cost(1 << 33, good)];
    let answer = world.rates.clone().check_rates(pb::CheckRatesRequest { checks }).await;
    let fields: Vec<_> = violations(answer).into_keys().collect();
    assert_eq!(fields, ["checks[1].key", "checks[2].cost"]);
    assert_eq!(world.keys().await, Vec::<String>::new());
}

async fn bans_and_listings_have_bounds(world: World) {
    let ban = pb::BanRequest { reason: "r".repeat(257), ..pb::BanRequest::default() };
    let mut request = Request::new(ban);
    request.metadata_mut().insert("x-tollgate-actor", "a".repeat(257).parse().unwrap());
    let fields: Vec<_> = violations(world.rates.clone().ban(request).await).into_keys().collect();
    assert_eq!(fields, ["duration", "key", "reason", "x-tollgate-actor"]);
    let list = pb::ListBansRequest {
        page_size: Some(0),
        page_token: "nonsense".into(),
        ..pb::ListBansRequest::default()
    };
    let answer = world.rates.clone().list_bans(list).await;
    let fields: Vec<_> = violations(answer).into_keys().collect();
    assert_eq!(fields, ["page_size", "page_token"]);
    let nobody = pb::UnbanRequest::default();
    assert!(violations(world.rates.clone().unban(nobody).await).contains_key("key"));
    let nobody = pb::ResetRateRequest::default();
    assert!(violations(world.rates.clone().reset_rate(nobody).await).contains_key("key"));
    assert_eq!(world.keys().await, Vec::<String>::new());
}

async fn values_at_their_bounds_are_accepted(world: World) {
    let (shortest, longest) = (MINUTE / 60_000, MINUTE * 43_200);
    for window in [shortest, longest] {
        for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::TokenBucket]
        {
            let most = if algorithm == Algorithm::TokenBucket { 90_000_000 } else { 1_000_000_000 };
            let rule = rule([limit(most, window, algorithm)]);
            let key = format!("{algorithm:?} {window:?} }}*");
            assert!(world.ask(cost(most, check(&key, &rule))).await.allowed, "{key}");
            let answer = world.check(&key, &rule).await;
            assert!(!answer.allowed, "{key}");
            assert_eq!((answer.limits[0].count, answer.limits[0].remaining), (most, 0), "{key}");
        }
    }
    let slow = pb::Limit { burst: Some(527_040), ..limit(1, MINUTE, Algorithm::TokenBucket) };
    assert!(world.ask(cost(527_040, check("slow", &rule([slow.clone()])))).await.allowed);
    assert!(!world.check("slow", &rule([slow])).await.allowed);
}

async fn unknown_policies_are_not_found(world: World) {
    let mut rates = world.rates.clone();
    let (key, policy) = ("k".to_owned(), "none".to_owned());
    let reset = pb::ResetRateRequest { key: key.clone(), policy: policy.clone() };
    let unban = pb::UnbanRequest { key: key.clone(), policy: policy.clone() };
    let list = pb::ListBansRequest { policy: policy.clone(), ..pb::ListBansRequest::default() };
    let ban = pb::BanRequest {
        key,
        policy,
        duration: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
        ..pb::BanRequest::default()
    };
    let answers = [
        rates.check_rate(under("k", "none")).await.map(drop),
        rates.reset_rate(reset).await.map(drop),
        rates.unban(unban).await.map(drop),
        rates.list_bans(list).await.map(drop),
        rates.ban(ban).await.map(drop),
    ];
    for answer in answers {
        let status = answer.unwrap_err();
        assert_eq!(status.code(), Code::NotFound);
        assert_eq!(status.get_details_error_info().unwrap().reason, "POLICY_NOT_FOUND");
    }
}

#[test]
fn errors_of_a_wrong_policy_name_its_key() {
    let policy = |rest: &str| format!("[[policy]]\nname = \"p\"\n{rest}\n");
    let cases = [
        ("[[policy]]\nname = \"\"\n".to_owned(), "policy[0].name"),
        (policy(""), "policy[0].limit: must be 1 to 8"),
        (policy("limit = [{ max = 1, window = \"0s\" }]"), "window = \"0s\""),
        (policy("limit = [{ max = 1, window = \"1m\", rate = 3 }]"), "rate"),
        (policy("limit = [{ window = \"1m\" }]"), "policy[0].limit[0].max: is required"),
        (policy("limit = [{ max = 1, window = \"1m\", algorithm = \"GCRA\" }]"), "GCRA"),
        (
            policy("utc_offset = \"8\"\nlimit = [{ max = 1, window = \"1m\" }]"),
            "utc_offset = \"8\"",
        ),
        (
            policy("utc_offset = \"+15:00\"\nlimit = [{ max = 1, window = \"1m\" }]"),
            "utc_offset: must",
        ),
        (
            policy("limit = [{ max = 1, window = \"1m\" }]\noverride = [{ match = \"[\" }]"),
            "policy[0].override[0].match: not a glob",
        ),
        (
            policy(
                "limit = [{ window = \"1m\" }]\ntier = [{ above = 1, action = \"BAN\", ban_durations = [\"x\"] }]",
            ),
            "ban_durations = \"x\"",
        ),
        (policy("limit = [{ max = 1, window = \"1m\" }]").repeat(2), "policy[1].name"),
    ];
    for (text, expected) in cases {
        let file = TempFile::new(&text);
        let output = tollgate(&["check-config", file.path()]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{text}");
        assert!(error.contains(expected) && error.contains(file.path()), "{expected}: {error}");
    }
}
