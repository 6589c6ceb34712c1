//! Counts at the largest limit, and the hits of rules with and without the denial cache.

use tollgate_core::{
    envoy::{EnvoySettings, series},
    time::Millis,
};

use crate::{
    api::{OVER, RateLimitRequest, hits, request},
    service::{Service, codes, remaining},
    support::world::World,
};

const LARGEST: u64 = u32::MAX as u64;

async fn j5_the_largest_limit_is_enforced(world: World) {
    for counting in ["each", "reports", "all_or_nothing"] {
        let mut file = format!("domain: d\ncounting: {counting}\ndescriptors:\n");
        for algorithm in ["CALENDAR_WINDOW", "FIXED_WINDOW", "SLIDING_WINDOW"] {
            file += &format!(
                "  - key: {algorithm}\n    rate_limit: {{unit: month, requests_per_unit: \
                 {LARGEST}, algorithm: {algorithm}}}\n"
            );
        }
        let service = Service::new(world.is_redis(), &file).await;
        for algorithm in ["CALENDAR_WINDOW", "FIXED_WINDOW", "SLIDING_WINDOW"] {
            let ask = async |value: u32, count: u64| {
                let answer = service.ask(&[hits(&format!("{algorithm}={value}"), count)]).await;
                (codes(&answer), remaining(&answer)[0])
            };
            let context = format!("{counting} {algorithm}");
            let (passes, refused) = (". .".to_owned(), "x x".to_owned());
            assert_eq!(ask(1, LARGEST - 2).await, (passes.clone(), 2), "{context}");
            assert_eq!(ask(1, 1).await, (passes.clone(), 1), "{context}");
            assert_eq!(ask(1, 1).await, (passes.clone(), 0), "{context}: at the limit");
            for count in [1, 1, 20, LARGEST, 1 << 40] {
                assert_eq!(ask(1, count).await, (refused.clone(), 0), "{context}: {count} more");
            }
            assert_eq!(ask(2, LARGEST).await, (passes, 0), "{context}: all at once");
            assert_eq!(ask(2, 1).await, (refused.clone(), 0), "{context}: one more");
            assert_eq!(ask(3, LARGEST + 1).await, (refused.clone(), 0), "{context}: too many");
        }
    }
}

/// Sends ten requests of 20 hits to a rule with a limit of 95 and to one in shadow mode. Returns the
/// values of both: total, over, near and within the limit, in shadow mode.
async fn hits_of_rules(redis: bool, counting: &str, denial_cache: Millis) -> [[u64; 5]; 2] {
    let domain = format!("j22-{redis}-{counting}-{}", denial_cache.0);
    let file = format!(
        "domain: {domain}\ncounting: {counting}\ndescriptors:\n  - key: plain\n    rate_limit: \
         {{unit: year, requests_per_unit: 95}}\n  - key: shadow\n    shadow_mode: true\n    \
         rate_limit: {{unit: year, requests_per_unit: 95}}\n"
    );
    let settings = EnvoySettings { denial_cache, ..EnvoySettings::default() };
    let service = Service::with(redis, &file, settings).await;
    for key in ["plain=1", "shadow=1"] {
        let mut last = 0;
        for _ in 0..10 {
            let one = hits(key, 20);
            let asked = RateLimitRequest {
                hits_addend: 20,
                ..request(&domain, &[crate::api::Descriptor { hits_addend: None, ..one }])
            };
            last = service.call(asked).await.unwrap().overall_code;
        }
        assert_eq!(last == OVER, key == "plain=1");
    }
    ["plain", "shadow"].map(|rule| {
        let all = series();
        let found = all.iter().find(|(of, name, _)| *of == domain && name == rule).unwrap();
        found.2.values().map(|(_, value)| value)
    })
}

async fn j22_hits_of_cached_refusals_are_counted_like_other_hits(world: World) {
    let beyond = [200, 105, 19, 80, 105];
    for (counting, plain) in [
        ("each", [200, 105, 19, 80, 0]),
        ("reports", [200, 105, 19, 80, 0]),
        // No hit of a refused request is counted, so all of them are over the limit.
        ("all_or_nothing", [200, 120, 4, 80, 0]),
    ] {
        for denial_cache in [Millis(0), Millis(60_000)] {
            let found = hits_of_rules(world.is_redis(), counting, denial_cache).await;
            assert_eq!(found, [plain, beyond], "{counting}, {denial_cache:?}");
        }
    }
}

on_both_engines!(
    j5_the_largest_limit_is_enforced,
    j22_hits_of_cached_refusals_are_counted_like_other_hits,
);
