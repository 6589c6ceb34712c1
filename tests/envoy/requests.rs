//! Large and odd requests, algorithms, bans and the restart of a window.

use std::time::Duration;

use tollgate_client::pb;
use tollgate_core::envoy::EnvoySettings;
use tonic::Code;

use crate::{
    api::{descriptor, hits, request},
    service::{Service, codes, left, remaining},
    support::world::{World, duration},
};

const FILE: &str = "
domain: d
descriptors:
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: ''
  - key: sliding
    rate_limit: {unit: minute, requests_per_unit: 2, algorithm: SLIDING_WINDOW}
  - key: bucket
    rate_limit: {unit: minute, requests_per_unit: 2, algorithm: TOKEN_BUCKET}
";

fn file() -> String {
    FILE.replace("  - key: ''\n", "")
}

async fn large_requests_are_bounded_and_answered(world: World) {
    let service = Service::new(world.is_redis(), &file()).await;
    // A value of 64 KB has a counter of its own.
    let long = "x".repeat(64 * 1024);
    let mut large = descriptor("a=");
    large.entries[0].value = long.clone();
    assert_eq!(service.passes(3, &[large.clone()]).await, 2);
    large.entries[0].value = long + "y";
    assert_eq!(service.passes(3, &[large]).await, 2);
    // Empty keys and descriptors without entries have no rule.
    let empty = crate::api::Descriptor::default();
    assert_eq!(codes(&service.ask(&[descriptor("=1"), empty]).await), ".. .");
    // Control characters are values like any other.
    assert_eq!(service.passes(3, &[descriptor("a=\u{1}\n")]).await, 2);
    // 10,000 entries or 101 descriptors are refused, and the error names the field.
    let mut many = descriptor("a=1");
    many.entries = vec![many.entries[0].clone(); 10_000];
    let refused = service.call(request("d", &[many])).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("descriptors[0].entries"), "{refused}");
    let hundred = vec![descriptor("a=9"); 100];
    assert_eq!(codes(&service.ask(&hundred).await), "..".to_owned() + &"x".repeat(98) + " x");
    let refused = service.call(request("d", &vec![descriptor("a=9"); 101])).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

async fn other_algorithms_count_as_their_names_say(world: World) {
    let service = Service::new(world.is_redis(), &file()).await;
    service.world.advance(Duration::from_secs(59)).await;
    assert_eq!(service.passes(2, &[descriptor("sliding=1")]).await, 2);
    // The start of the next minute on the clock frees nothing.
    service.world.advance(Duration::from_secs(2)).await;
    let answer = service.ask(&[hits("sliding=1", 0)]).await;
    assert_eq!((codes(&answer), remaining(&answer)), (". .".to_owned(), vec![0]));
    assert_eq!(service.passes(1, &[descriptor("sliding=1")]).await, 0);
    service.world.advance(Duration::from_secs(62)).await;
    assert_eq!(service.passes(3, &[descriptor("sliding=1")]).await, 2);
    // A bucket has a token again after half of the window, and refused hits cost none.
    assert_eq!(service.passes(5, &[descriptor("bucket=1")]).await, 2);
    assert!(left(&service.ask(&[hits("bucket=1", 0)]).await, 0) > 0);
    service.world.advance(Duration::from_secs(30)).await;
    assert_eq!(service.passes(5, &[descriptor("bucket=1")]).await, 1);
}

async fn keys_of_a_domain_can_be_banned_and_reset(world: World) {
    let settings =
        EnvoySettings { denial_cache: tollgate_core::time::Millis(0), ..EnvoySettings::default() };
    let service = Service::with(world.is_redis(), &file(), settings).await;
    let asked = [descriptor("a=1")];
    assert_eq!(service.passes(3, &asked).await, 2);
    let mut rates = service.world.rates.clone();
    let (key, policy) = ("a_1".to_owned(), "envoy/d".to_owned());
    let reset = pb::ResetRateRequest { key: key.clone(), policy: policy.clone() };
    assert!(rates.reset_rate(reset).await.unwrap().into_inner().existed);
    assert_eq!(service.passes(1, &asked).await, 1);
    let ban = pb::BanRequest {
        key: key.clone(),
        policy: policy.clone(),
        duration: Some(duration(Duration::from_secs(60))),
        ..pb::BanRequest::default()
    };
    rates.ban(ban).await.unwrap();
    assert_eq!(service.passes(1, &asked).await, 0);
    let unban = pb::UnbanRequest { key, policy };
    assert!(rates.unban(unban).await.unwrap().into_inner().existed);
    assert_eq!(service.passes(3, &asked).await, 2);
    let other = pb::UnbanRequest { key: "a_1".to_owned(), policy: "envoy/other".to_owned() };
    assert_eq!(rates.unban(other).await.unwrap_err().code(), Code::NotFound);
}

async fn refusals_are_repeated_until_the_window_ends(world: World) {
    let service = Service::new(world.is_redis(), &file()).await;
    service.world.advance(Duration::from_millis(59_980)).await;
    let asked = [descriptor("a=1"), descriptor("a=2")];
    assert_eq!(service.passes(20, &asked).await, 2);
    assert_eq!(left(&service.ask(&asked).await, 0), 1);
    service.world.advance(Duration::from_millis(20)).await;
    assert_eq!(service.passes(3, &asked).await, 2);
}

on_both_engines!(
    large_requests_are_bounded_and_answered,
    other_algorithms_count_as_their_names_say,
    keys_of_a_domain_can_be_banned_and_reset,
    refusals_are_repeated_until_the_window_ends,
);
