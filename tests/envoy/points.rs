//! The points of the semantics of envoyproxy/ratelimit, each on both engines. v1 to v15 are the names
//! in docs/envoy.md.

use std::time::Duration;

use tollgate_core::envoy::{EnvoySettings, Headers};
use tonic::Code;

use crate::{
    api::{Descriptor, OK, OVER, Override, RateLimitRequest, descriptor, hits, request},
    service::{Service, codes, left, remaining, rules},
    support::world::World,
};

const RULES: &str = "
domain: d
descriptors:
  - key: ip
    rate_limit: {unit: minute, requests_per_unit: 3}
  - key: ip
    value: 10.0.0.9
    rate_limit: {unit: second, requests_per_unit: 0}
  - key: path
    value: a*z
    rate_limit: {unit: hour, requests_per_unit: 1, name: stars}
  - key: path
    value: a*
    rate_limit: {unit: hour, requests_per_unit: 2}
  - key: user
    descriptors:
      - key: plan
        value: free
        rate_limit: {unit: day, requests_per_unit: 1}
  - key: free
    rate_limit: {unlimited: true}
";

fn minute(requests: u32) -> String {
    let limit = format!("rate_limit: {{unit: minute, requests_per_unit: {requests}}}");
    format!("domain: d\ndescriptors:\n  - key: a\n    {limit}\n  - key: b\n    {limit}\n")
}

async fn v1(world: World) {
    let service = Service::new(world.is_redis(), RULES).await;
    for bad in [request("", &[descriptor("ip=1")]), request("d", &[]), request("", &[])] {
        assert_eq!(service.call(bad).await.unwrap_err().code(), Code::InvalidArgument);
    }
    // No answer has the code UNKNOWN, which Envoy would let pass.
    let answer = service.ask(&[descriptor("none=1"), descriptor("ip=1")]).await;
    assert_eq!(codes(&answer), ".. .");
}

async fn v2(world: World) {
    let service = Service::new(world.is_redis(), RULES).await;
    for domain in ["other", "d"] {
        let answer = service.call(request(domain, &[descriptor("none=1")])).await.unwrap();
        assert_eq!(codes(&answer), ". .");
        assert_eq!((&answer.statuses[0].current_limit, remaining(&answer)), (&None, vec![0]));
        assert_eq!(answer.statuses[0].duration_until_reset, None);
    }
}

async fn v3(world: World) {
    let service = Service::new(world.is_redis(), RULES).await;
    // Key and value before the key; patterns in the order of the file.
    assert_eq!(service.passes(2, &[descriptor("ip=10.0.0.9")]).await, 0);
    assert_eq!(service.passes(5, &[descriptor("ip=10.0.0.1")]).await, 3);
    assert_eq!(service.passes(3, &[descriptor("path=a-z")]).await, 1);
    assert_eq!(service.passes(3, &[descriptor("path=a-b")]).await, 2);
    assert_eq!(service.passes(3, &[descriptor("path=a-c")]).await, 2, "one counter for each value");
    // The depth of descriptor and rule must be the same.
    assert_eq!(service.passes(3, &[descriptor("user=1,plan=free")]).await, 1);
    for text in ["user=1", "user=1,plan=free,more=1", "user=1,plan=paid", "plan=free,user=1"] {
        assert_eq!(service.passes(3, &[descriptor(text)]).await, 3, "{text}");
    }
    // Entries are joined by `_`: this is the same counter as `ip=10.0.0.1`.
    let joined =
        rules(&["domain: d\ndescriptors: [{key: a_b}, {key: a, value: b}]"], no_settings());
    assert!(joined.unwrap_err().contains("the same key and value"));
}

fn no_settings() -> EnvoySettings {
    EnvoySettings::default()
}

async fn v4(world: World) {
    let service = Service::new(world.is_redis(), &minute(10)).await;
    let with = |hits_addend, descriptors: &[Descriptor]| RateLimitRequest {
        hits_addend,
        ..request("d", descriptors)
    };
    // A number of 0 in the request means 1; the number in the descriptor takes precedence, and 0
    // there reads without counting.
    for (asked, left) in [
        (with(0, &[descriptor("a=1")]), 9),
        (with(3, &[descriptor("a=1")]), 6),
        (with(3, &[hits("a=1", 0)]), 6),
        (with(3, &[hits("a=1", 1)]), 5),
    ] {
        assert_eq!(remaining(&service.call(asked).await.unwrap()), [left]);
    }
    // More hits than any limit, as one step.
    let answer = service.ask(&[hits("b=1", u64::MAX), hits("b=2", 0)]).await;
    assert_eq!((codes(&answer), remaining(&answer)), ("x. x".to_owned(), vec![0, 10]));
    // A read is refused when the limit is exceeded, but not when it is just reached.
    assert_eq!(codes(&service.ask(&[hits("b=2", 10), hits("b=2", 0)]).await), ".. .");
    assert_eq!(codes(&service.ask(&[hits("b=2", 1)]).await), "x x");
    assert_eq!(codes(&service.ask(&[hits("b=2", 0)]).await), "x x");
}

async fn v5(world: World) {
    let units = ["second", "MINUTE", "hour", "day", "Week", "month", "year"];
    let entries = units.map(|unit| {
        format!("  - key: {unit}\n    rate_limit: {{unit: {unit}, requests_per_unit: 1}}\n")
    });
    let file = format!("domain: d\ndescriptors:\n{}", entries.concat());
    // 2026-01-01 is the day 20,454 since 1970.
    let ends = [1, 60, 3600, 86_400, 7 * 86_400, 6 * 86_400, 351 * 86_400];
    for (unit, end) in units.into_iter().zip(ends) {
        let service = Service::new(world.is_redis(), &file).await;
        let answer = service.ask(&[descriptor(unit)]).await;
        assert_eq!((codes(&answer), left(&answer, 0)), (". .".to_owned(), end), "{unit}");
        assert_eq!(service.passes(2, &[descriptor(unit)]).await, 0, "{unit}");
        service.world.advance(Duration::from_millis(end as u64 * 1000 - 1)).await;
        assert_eq!(left(&service.ask(&[hits(unit, 0)]).await, 0), 1, "{unit}");
        service.world.advance(Duration::from_millis(1)).await;
        assert_eq!(service.passes(2, &[descriptor(unit)]).await, 1, "{unit}");
    }
    // Every descriptor counts, even beyond its limit, and even if another one is over its limit.
    let service = Service::new(world.is_redis(), &minute(2)).await;
    assert_eq!(codes(&service.ask(&[hits("a=1", 3), descriptor("b=1")]).await), "x. x");
    assert_eq!(codes(&service.ask(&[descriptor("a=1"), descriptor("b=1")]).await), "x. x");
    assert_eq!(codes(&service.ask(&[descriptor("b=1")]).await), "x x");
}

async fn v6(world: World) {
    let service = Service::new(world.is_redis(), RULES).await;
    let limit = |requests_per_unit, unit| Some(Override { requests_per_unit, unit });
    let over = |limit| Descriptor { limit, ..descriptor("ip=1") };
    let answer = service.ask(&[over(limit(5, 2))]).await;
    let current = answer.statuses[0].current_limit.clone().unwrap();
    assert_eq!((current.requests_per_unit, current.unit, remaining(&answer)[0]), (5, 2, 4));
    // The counter belongs to the rule; another unit has its own.
    assert_eq!(remaining(&service.ask(&[descriptor("ip=1")]).await), [1]);
    assert_eq!(remaining(&service.ask(&[over(limit(5, 3))]).await), [4]);
    // It applies without a rule, and an unknown unit is an error.
    let none = Descriptor { limit: limit(1, 1), ..descriptor("none=1") };
    assert_eq!(codes(&service.ask(&[none.clone(), none]).await), ".x x");
    let bad = service.call(request("d", &[over(limit(1, 0))])).await.unwrap_err();
    assert_eq!(bad.code(), Code::InvalidArgument);
}

async fn v7(world: World) {
    let service = Service::new(world.is_redis(), RULES).await;
    let answer = service.ask(&[descriptor("free=1")]).await;
    assert_eq!((codes(&answer), remaining(&answer)), (". .".to_owned(), vec![u32::MAX]));
    assert_eq!(answer.statuses[0].current_limit, None);
    let both = "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, unlimited: true}}]";
    assert!(rules(&[both], no_settings()).unwrap_err().contains("no unit"));
    let neither = "domain: d\ndescriptors: [{key: a, rate_limit: {requests_per_unit: 1}}]";
    assert!(rules(&[neither], no_settings()).unwrap_err().contains("expected second"));
}

async fn v8(world: World) {
    let file = "
domain: d
descriptors:
  - key: a
    rate_limit: {name: wide, unit: minute, requests_per_unit: 1}
  - key: b
    rate_limit: {unit: minute, requests_per_unit: 5, replaces: [{name: wide}]}
  - key: c
    rate_limit: {unlimited: true, replaces: [{name: wide}]}
";
    let service = Service::new(world.is_redis(), file).await;
    for other in ["b=1", "c=1"] {
        let answer = service.ask(&[descriptor("a=1"), descriptor(other)]).await;
        assert_eq!(answer.statuses[0].current_limit, None, "{other}");
        assert_eq!(answer.statuses[0].code, OK);
    }
    // The replaced rule has counted nothing.
    assert_eq!(service.passes(2, &[descriptor("a=1")]).await, 1);
    let itself = "domain: d\ndescriptors: [{key: a, rate_limit: {name: n, unit: day, \
                  requests_per_unit: 1, replaces: [{name: n}]}}]";
    assert!(rules(&[itself], no_settings()).unwrap_err().contains("another rule"));
}

async fn v9(world: World) {
    let file = "
domain: d
descriptors:
  - key: a
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: b
    rate_limit: {unit: minute, requests_per_unit: 1}
";
    let service = Service::new(world.is_redis(), file).await;
    service.ask(&[descriptor("a=1")]).await;
    let answer = service.ask(&[descriptor("a=1")]).await;
    assert_eq!((codes(&answer), remaining(&answer)), (". .".to_owned(), vec![0]));
    assert!(answer.statuses[0].current_limit.is_some());
    // For all rules: the statuses stay, the request passes.
    let settings = EnvoySettings { shadow_mode: true, ..no_settings() };
    let service = Service::with(world.is_redis(), file, settings).await;
    service.ask(&[descriptor("b=1")]).await;
    assert_eq!(codes(&service.ask(&[descriptor("b=1")]).await), "x .");
}

async fn v10(world: World) {
    let file = "
domain: d
descriptors:
  - key: a
    quota_mode: true
    metadata: {backend: {name: fast}}
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: b
    quota_mode: true
    metadata: {backend: {name: slow, zone: 2}}
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: c
    rate_limit: {unit: minute, requests_per_unit: 3}
";
    let settings = EnvoySettings { dynamic_metadata: true, ..no_settings() };
    let service = Service::with(world.is_redis(), file, settings).await;
    let all = ["a=1", "b=1", "c=1"].map(descriptor);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let answer = service.ask(&all).await;
        let metadata = answer.dynamic_metadata.clone().unwrap();
        let routed = metadata.fields.get("metadata").map(|value| format!("{value:?}"));
        let name = ["fast", "slow"].iter().find(|name| {
            routed
                .as_ref()
                .is_some_and(|routed| routed.contains(&format!("StringValue(\"{name}\")")))
        });
        assert!(
            metadata.fields.contains_key("domain") && metadata.fields.contains_key("descriptors")
        );
        seen.push((codes(&answer), name.copied()));
    }
    // One quota that is left lets the request pass, but no rule without a quota may be exceeded.
    let expected =
        [("... .", Some("fast")), ("x.. .", Some("slow")), ("xx. x", None), ("xxx x", None)];
    assert_eq!(seen, expected.map(|(codes, name)| (codes.to_owned(), name)));
    let settings = EnvoySettings { quota_mode: true, ..no_settings() };
    let service = Service::with(world.is_redis(), file, settings).await;
    assert_eq!(codes(&service.ask(&[hits("c=1", 9), descriptor("a=1")]).await), "x. .");
    assert_eq!(codes(&service.ask(&[hits("c=1", 9), hits("a=1", 9)]).await), "xx x");
}

async fn v11(world: World) {
    let file = "
domain: d
descriptors:
  - key: file
    value: docs/*
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 2}
  - key: file
    value: own/*
    rate_limit: {unit: hour, requests_per_unit: 2}
";
    let service = Service::new(world.is_redis(), file).await;
    let mut codes_of = Vec::new();
    for file in ["docs/a", "docs/b", "docs/c", "own/a", "own/b", "own/c"] {
        codes_of.push(codes(&service.ask(&[descriptor(&format!("file={file}"))]).await));
    }
    assert_eq!(codes_of, [". .", ". .", "x x", ". .", ". .", ". ."]);
    let no_star = "domain: d\ndescriptors: [{key: a, share_threshold: true}]";
    assert!(rules(&[no_star], no_settings()).unwrap_err().contains("requires a value with *"));
}

async fn v12(world: World) {
    let file = "
domain: d
descriptors:
  - key: a
    rate_limit: {name: 'per \"ip\"', unit: minute, requests_per_unit: 2}
  - key: b
    rate_limit: {unit: hour, requests_per_unit: 9}
";
    let settings = EnvoySettings { headers: Headers::Draft, ..no_settings() };
    let service = Service::with(world.is_redis(), file, settings).await;
    let headers = |answer: &crate::api::RateLimitResponse| -> Vec<String> {
        let headers = answer.response_headers_to_add.iter();
        headers.map(|header| format!("{}: {}", header.key, header.value)).collect()
    };
    let all = ["a=1", "b=1"].map(descriptor);
    let answer = service.ask(&all).await;
    assert_eq!(answer.statuses[0].current_limit.clone().unwrap().name, "per \"ip\"");
    assert_eq!(
        headers(&answer),
        [
            "RateLimit-Limit: 2",
            "RateLimit-Remaining: 1",
            "RateLimit-Reset: 60",
            "RateLimit-Policy: \"per \\\"ip\\\"\";q=2;w=60, \"d.b\";q=9;w=3600",
            "RateLimit: \"per \\\"ip\\\"\";r=1;t=60, \"d.b\";r=8;t=3600",
        ]
    );
    assert!(headers(&service.ask(&[descriptor("none=1")]).await).is_empty());
    let settings = EnvoySettings { headers: Headers::Legacy, ..no_settings() };
    let service = Service::with(world.is_redis(), file, settings).await;
    assert_eq!(
        headers(&service.ask(&[hits("b=1", 10), hits("a=1", 0)]).await)[0],
        "RateLimit-Limit: 9"
    );
}

async fn v14(world: World) {
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    let service = Service::new(world.is_redis(), RULES).await;
    let mut health = HealthClient::new(service.channel.clone());
    for name in ["ratelimit", "envoy.service.ratelimit.v3.RateLimitService"] {
        let request = HealthCheckRequest { service: name.to_owned() };
        assert_eq!(health.check(request).await.unwrap().into_inner().status, 1, "{name}");
    }
}

async fn v15(world: World) {
    let file = "
domain: d
descriptors:
  - key: a
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 0}
  - key: b
    rate_limit: {unit: minute, requests_per_unit: 1}
";
    let service = Service::new(world.is_redis(), file).await;
    let both = ["a=1", "b=1"].map(descriptor);
    // A rule in shadow mode that is exceeded hides no other rule, in either order.
    assert_eq!(codes(&service.ask(&both).await), ".. .");
    assert_eq!(codes(&service.ask(&both).await), ".x x");
    let turned = ["b=1", "a=1"].map(descriptor);
    let answer = service.ask(&turned).await;
    assert_eq!((codes(&answer), answer.overall_code), ("x. x".to_owned(), OVER));
}

on_both_engines!(v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v14, v15);
