//! `counting: reports`, and reads at the limit: quotas whose cost is known only after the request.

use tollgate_core::envoy::EnvoySettings;

use crate::{
    api::{Descriptor, Override, descriptor, hits},
    service::{Service, codes, remaining, rules},
    support::world::World,
};

const RULES: &str = "
domain: d
counting: reports
descriptors:
  - key: tokens
    rate_limit: {unit: year, requests_per_unit: 10}
  - key: sliding
    rate_limit: {unit: day, requests_per_unit: 10, algorithm: SLIDING_WINDOW}
  - key: fixed
    rate_limit: {unit: day, requests_per_unit: 10, algorithm: FIXED_WINDOW}
  - key: none
    rate_limit: {unit: year, requests_per_unit: 0}
  - key: requests
    rate_limit: {unit: year, requests_per_unit: 3}
";

/// Returns the count of a descriptor whose rule has a window of a year. The request overrides its
/// limit with 1,000.
async fn count(service: &Service, text: &str) -> u32 {
    let limit = Some(Override { requests_per_unit: 1000, unit: 6 });
    let look = Descriptor { limit, ..hits(text, 0) };
    1000 - remaining(&service.ask(&[look]).await)[0]
}

async fn j4_a_read_at_the_limit_is_refused_and_reports_always_count(world: World) {
    let service = Service::new(world.is_redis(), RULES).await;
    for key in ["tokens=1", "sliding=1", "fixed=1"] {
        let read = async || codes(&service.ask(&[hits(key, 0)]).await);
        assert_eq!(read().await, ". .", "{key}");
        assert_eq!(codes(&service.ask(&[hits(key, 7)]).await), ". .", "{key}");
        assert_eq!(read().await, ". .", "{key}: 3 are left");
        // Two streams that started below the limit report what they used.
        assert_eq!(codes(&service.ask(&[hits(key, 3)]).await), ". .", "{key}");
        assert_eq!(read().await, "x x", "{key}: none is left");
        for _ in 0..5 {
            assert_eq!(codes(&service.ask(&[hits(key, 9)]).await), "x x", "{key}");
            assert_eq!(read().await, "x x", "{key}");
        }
    }
    assert_eq!(count(&service, "tokens=1").await, 10 + 5 * 9, "reports beyond the limit count");
    assert_eq!(codes(&service.ask(&[hits("none=1", 0)]).await), "x x");
}

async fn j4_descriptors_of_a_report_are_counted_separately(world: World) {
    let service = Service::new(world.is_redis(), RULES).await;
    // Before the request: one request, and a read of the tokens.
    let before = [descriptor("requests=1"), hits("tokens=1", 0)];
    assert_eq!(service.passes(2, &before).await, 2);
    assert_eq!(codes(&service.ask(&[hits("tokens=1", 40)]).await), "x x");
    assert_eq!(codes(&service.ask(&before).await), ".x x");
    assert_eq!(codes(&service.ask(&before).await), "xx x");
    assert_eq!((count(&service, "requests=1").await, count(&service, "tokens=1").await), (4, 40));
}

async fn j4_a_read_at_the_limit_is_refused_with_all_or_nothing(world: World) {
    let file = RULES.replace("counting: reports", "counting: all_or_nothing");
    let service = Service::new(world.is_redis(), &file).await;
    for key in ["tokens=1", "sliding=1", "fixed=1"] {
        assert_eq!(codes(&service.ask(&[hits(key, 9), hits(key, 0)]).await), ".. .", "{key}");
        assert_eq!(codes(&service.ask(&[hits(key, 1)]).await), ". .", "{key}");
        for _ in 0..3 {
            assert_eq!(codes(&service.ask(&[hits(key, 0)]).await), "x x", "{key}");
        }
        // A read that is refused refuses the request, which counts nothing.
        let both = [descriptor("requests=1"), hits(key, 0)];
        assert_eq!(codes(&service.ask(&both).await), ".x x", "{key}");
    }
    assert_eq!(count(&service, "requests=1").await, 0);
}

#[test]
fn j4_reports_need_a_limit_that_counts_beyond_itself() {
    let file = RULES.replace("algorithm: FIXED_WINDOW", "algorithm: TOKEN_BUCKET");
    let error = rules(&[&file], EnvoySettings::default()).unwrap_err();
    assert!(error.contains("d.fixed: algorithm: TOKEN_BUCKET"), "{error}");
    let each = file.replace("counting: reports", "counting: each");
    assert!(rules(&[&each], EnvoySettings::default()).is_ok());
}

on_both_engines!(
    j4_a_read_at_the_limit_is_refused_and_reports_always_count,
    j4_descriptors_of_a_report_are_counted_separately,
    j4_a_read_at_the_limit_is_refused_with_all_or_nothing,
);
