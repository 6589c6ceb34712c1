//! `counting: all_or_nothing`: a refused request counts nothing.

use std::{collections::HashMap, time::Duration};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tollgate_client::pb;
use tollgate_core::{envoy::EnvoySettings, time::Millis};
use tonic::Code;

use crate::{
    api::{Descriptor, OK, OVER, RateLimitResponse, descriptor, hits, request},
    service::{Service, codes, remaining, rules},
    support::world::{World, duration},
};

const RULES: &str = "
domain: d
counting: all_or_nothing
descriptors:
  - key: a
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: b
    rate_limit: {unit: year, requests_per_unit: 5}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: sliding
    rate_limit: {unit: minute, requests_per_unit: 2, algorithm: SLIDING_WINDOW}
  - key: bucket
    rate_limit: {unit: minute, requests_per_unit: 2, algorithm: TOKEN_BUCKET}
";

/// Returns the hits that each descriptor has left.
async fn left(service: &Service, texts: &[&str]) -> Vec<u32> {
    let looks: Vec<_> = texts.iter().map(|text| hits(text, 0)).collect();
    remaining(&service.ask(&looks).await)
}

async fn a_refused_request_counts_nothing(world: World) {
    let service = Service::new(world.is_redis(), RULES).await;
    let both = ["a=1", "b=1"].map(descriptor);
    assert_eq!(service.passes(3, &both).await, 3);
    for _ in 0..5 {
        let refused = service.ask(&both).await;
        assert_eq!((codes(&refused), remaining(&refused)), ("x. x".to_owned(), vec![0, 2]));
        assert!(refused.statuses.iter().all(|status| status.duration_until_reset.is_some()));
    }
    // The order of the descriptors has no effect.
    assert_eq!(codes(&service.ask(&["b=1", "a=1"].map(descriptor)).await), ".x x");
    assert_eq!(left(&service, &["b=1"]).await, [2]);
    // More hits than are left are refused, even for a single descriptor; fewer pass.
    assert_eq!(codes(&service.ask(&[hits("b=1", 3)]).await), "x x");
    assert_eq!(codes(&service.ask(&[hits("b=1", u64::MAX)]).await), "x x");
    let passed = service.ask(&[hits("b=1", 2), descriptor("b=2")]).await;
    assert_eq!((codes(&passed), remaining(&passed)), (".. .".to_owned(), vec![0, 4]));
    // A descriptor without a rule needs no counter.
    assert_eq!(codes(&service.ask(&[descriptor("none=1")]).await), ". .");
    // Of descriptors with one counter, the later ones see the hits of the earlier ones.
    let same = [hits("b=7", 2), hits("b=7", 2)];
    assert_eq!(remaining(&service.ask(&same).await), [3, 1]);
    let refused = service.ask(&same).await;
    assert_eq!((codes(&refused), remaining(&refused)), ("xx x".to_owned(), vec![0, 0]));
    assert_eq!(left(&service, &["b=7"]).await, [1]);
}

async fn rules_in_shadow_mode_never_refuse(world: World) {
    let service = Service::new(world.is_redis(), RULES).await;
    let both = ["shadow=1", "a=1"].map(descriptor);
    assert_eq!(service.passes(5, &both).await, 3);
    let settings = EnvoySettings { shadow_mode: true, ..EnvoySettings::default() };
    let service = Service::with(world.is_redis(), RULES, settings).await;
    let both = ["a=1", "b=1"].map(descriptor);
    assert_eq!(service.passes(9, &both).await, 9);
    assert_eq!(left(&service, &["b=1"]).await, [2], "as many as without the mode");
}

async fn hits_expire_under_all_algorithms(world: World) {
    let service = Service::new(world.is_redis(), RULES).await;
    let all = ["sliding=1", "bucket=1", "a=1"].map(descriptor);
    assert_eq!(service.passes(4, &all).await, 2);
    assert_eq!(left(&service, &["a=1"]).await, [1]);
    service.world.advance(Duration::from_secs(31)).await;
    // The bucket has a token again, the window has not.
    assert_eq!(codes(&service.ask(&all).await), "x.. x");
    assert_eq!(service.passes(3, &[descriptor("bucket=1")]).await, 1);
    service.world.advance(Duration::from_secs(62)).await;
    assert_eq!(service.passes(4, &all).await, 1);
}

async fn concurrent_requests_count_exactly(world: World) {
    let file = RULES
        .replace("requests_per_unit: 5", "requests_per_unit: 40")
        .replace("requests_per_unit: 3", "requests_per_unit: 60");
    let service = std::sync::Arc::new(Service::new(world.is_redis(), &file).await);
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let service = service.clone();
            let asked = ["a=1", "b=1"].map(descriptor);
            tokio::spawn(async move { service.passes(12, &asked).await })
        })
        .collect();
    let mut passed = 0;
    for task in tasks {
        passed += task.await.unwrap();
    }
    assert_eq!(passed, 40);
    assert_eq!(left(&service, &["a=1"]).await, [20]);
}

async fn requests_and_names_are_bounded(world: World) {
    let service = Service::new(world.is_redis(), RULES).await;
    let many = |count| (0..count).map(|number| descriptor(&format!("a={number}"))).collect();
    let most: Vec<Descriptor> = many(32);
    assert_eq!(service.passes(4, &most).await, 3);
    let refused = service.call(request("d", &many(33))).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("descriptors"), "{refused}");
    let none: Vec<_> = many(100).into_iter().map(|_| descriptor("none=1")).collect();
    assert_eq!(service.ask(&none).await.overall_code, OK);
    for (files, error) in [
        (&["domain: d\ncounting: some"][..], "0.yaml: "),
        (&["domain: d\ncounting: all_or_nothing", "domain: d"], "1.yaml: domain \"d\": counting"),
    ] {
        let merged = EnvoySettings { merge_domains: true, ..EnvoySettings::default() };
        let found = rules(files, merged).unwrap_err();
        assert!(found.starts_with(error), "{found}");
    }
}

async fn keys_can_be_banned_and_reset(world: World) {
    let service = Service::new(world.is_redis(), RULES).await;
    let both = ["a=1", "b=1"].map(descriptor);
    assert_eq!(service.passes(4, &both).await, 3);
    let mut rates = service.world.rates.clone();
    let (key, policy) = ("a_1".to_owned(), "envoy-all/d".to_owned());
    let reset = pb::ResetRateRequest { key, policy: policy.clone() };
    assert!(rates.reset_rate(reset).await.unwrap().into_inner().existed);
    assert_eq!(service.passes(1, &both).await, 1);
    let ban = pb::BanRequest {
        key: "b_1".to_owned(),
        policy,
        duration: Some(duration(Duration::from_secs(60))),
        ..pb::BanRequest::default()
    };
    rates.ban(ban).await.unwrap();
    assert_eq!(codes(&service.ask(&both).await), ".x x");
    assert_eq!(left(&service, &["a=1"]).await, [2]);
}

/// A rule of the model: the limit, and whether it is in shadow and in quota mode.
#[derive(Debug, Clone, Copy)]
struct ModelRule(u32, bool, bool);

/// The answers that the rules demand, in one window.
struct Model {
    rules: Vec<ModelRule>,
    settings: EnvoySettings,
    counts: HashMap<String, u64>,
}

impl Model {
    /// Codes and hits that are left.
    fn ask(&mut self, asked: &[(usize, u32, u64)]) -> (String, Vec<u32>) {
        let before = self.counts.clone();
        let (mut over, mut quotas) = (Vec::new(), Vec::new());
        let mut is_refused = false;
        for (rule, value, hits) in asked {
            let Some(ModelRule(limit, shadow, quota)) = self.rules.get(*rule) else {
                over.push(None);
                if self.settings.quota_mode {
                    quotas.push(false);
                }
                continue;
            };
            let count = self.counts.entry(format!("{rule}-{value}")).or_default();
            *count += hits;
            // A read needs room for a hit.
            let is_over = *count + u64::from(*hits == 0) > u64::from(*limit);
            over.push(Some((is_over, u64::from(*limit).saturating_sub(*count), *shadow)));
            if *quota || self.settings.quota_mode {
                quotas.push(is_over && !shadow)
            } else {
                is_refused |= is_over && !shadow
            }
        }
        is_refused |= !quotas.is_empty() && !quotas.contains(&false);
        if is_refused {
            self.counts = before;
        }
        let (mut codes, mut lefts) = (String::new(), Vec::new());
        for ((rule, value, _), over) in asked.iter().zip(over) {
            let Some((is_over, left, shadow)) = over else {
                codes.push('.');
                lefts.push(0);
                continue;
            };
            codes.push(if is_over && !shadow { 'x' } else { '.' });
            let count = self.counts.get(&format!("{rule}-{value}")).copied().unwrap_or_default();
            let now = u64::from(self.rules[*rule].0).saturating_sub(count);
            let left = if is_refused { now } else { left };
            lefts.push(if is_over { 0 } else { left as u32 });
        }
        let is_over = is_refused && !self.settings.shadow_mode;
        (format!("{codes} {}", if is_over { 'x' } else { '.' }), lefts)
    }
}

async fn random_requests_agree_with_a_model(world: World) {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for (quota_mode, shadow_mode) in [(false, false), (true, false), (false, true)] {
        // A cached refusal can show older counts of the other descriptors.
        let denial_cache = Millis(0);
        let default = EnvoySettings::default();
        let settings = EnvoySettings { quota_mode, shadow_mode, denial_cache, ..default };
        let mut rule = |_| {
            let limit = random.random_range(0..30);
            ModelRule(limit, random.random_bool(0.2), random.random_bool(0.4))
        };
        let rules: Vec<ModelRule> = (0..6).map(&mut rule).collect();
        let mut file = "domain: d\ncounting: all_or_nothing\ndescriptors:\n".to_owned();
        for (number, ModelRule(limit, shadow, quota)) in rules.iter().enumerate() {
            file += &format!(
                "  - key: r{number}\n    shadow_mode: {shadow}\n    quota_mode: {quota}\n    \
                 rate_limit: {{unit: year, requests_per_unit: {limit}}}\n"
            );
        }
        let service = Service::with(world.is_redis(), &file, settings.clone()).await;
        let mut model = Model { rules, settings, counts: HashMap::new() };
        let mut seen = HashMap::new();
        for step in 0..300 {
            let mut one = |_| {
                (random.random_range(0..7), random.random_range(0..3), random.random_range(0..4))
            };
            let asked: Vec<(usize, u32, u64)> = (0..1 + step % 5).map(&mut one).collect();
            let sent: Vec<_> = asked
                .iter()
                .map(|(rule, value, count)| hits(&format!("r{rule}={value}"), *count))
                .collect();
            let answer: RateLimitResponse = service.ask(&sent).await;
            let expected = model.ask(&asked);
            assert_eq!((codes(&answer), remaining(&answer)), expected, "step {step}: {asked:?}");
            *seen.entry(answer.overall_code == OVER).or_insert(0) += 1;
        }
        let has_both = seen.len() == 2 || shadow_mode;
        assert!(has_both, "{seen:?}");
    }
}

on_both_engines!(
    a_refused_request_counts_nothing,
    rules_in_shadow_mode_never_refuse,
    hits_expire_under_all_algorithms,
    concurrent_requests_count_exactly,
    requests_and_names_are_bounded,
    keys_can_be_banned_and_reset,
    random_requests_agree_with_a_model,
);
