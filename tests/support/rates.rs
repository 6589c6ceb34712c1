//! Requests about rates, and calls of a world.

use std::time::Duration;

use tollgate::{
    config::{Config, ServeFlags},
    server::Rules,
};
use tollgate_client::pb::{self, Algorithm, TierAction, check_rate_request::Against};

use crate::support::{
    process::TempFile,
    world::{World, duration},
};

pub const WINDOWS: [Algorithm; 3] =
    [Algorithm::FixedWindow, Algorithm::CalendarWindow, Algorithm::SlidingWindow];
pub const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::FixedWindow,
    Algorithm::CalendarWindow,
    Algorithm::SlidingWindow,
    Algorithm::TokenBucket,
];

pub fn limit(max: u64, window: Duration, algorithm: Algorithm) -> pb::Limit {
    pb::Limit {
        name: String::new(),
        max: Some(max),
        window: Some(duration(window)),
        algorithm: algorithm.into(),
        burst: None,
    }
}

pub fn rule(limits: impl Into<Vec<pb::Limit>>) -> pb::Rule {
    pb::Rule { limits: limits.into(), ..pb::Rule::default() }
}

pub fn tier(above: u64, action: TierAction, bans: &[Duration]) -> pb::Tier {
    let ban_durations = bans.iter().copied().map(duration).collect();
    pb::Tier { above: Some(above), action: action.into(), ban_durations }
}

/// Returns a rule against crawlers: WARN above 10, BAN above 20 a minute.
pub fn crawlers(algorithm: Algorithm) -> pb::Rule {
    let minute = pb::Limit { max: None, ..limit(0, Duration::from_secs(60), algorithm) };
    let bans = [Duration::from_secs(300), Duration::from_secs(3600)];
    let tiers = vec![tier(10, TierAction::Warn, &[]), tier(20, TierAction::Ban, &bans)];
    pb::Rule { tiers, ..rule([minute]) }
}

/// Returns a check against a rule within the call.
pub fn check(key: &str, rule: &pb::Rule) -> pb::CheckRateRequest {
    let against = Some(Against::Rule(rule.clone()));
    pb::CheckRateRequest { key: key.into(), against, ..pb::CheckRateRequest::default() }
}

/// Returns a check against a policy.
pub fn under(key: &str, policy: &str) -> pb::CheckRateRequest {
    let against = Some(Against::Policy(policy.into()));
    pb::CheckRateRequest { key: key.into(), against, ..pb::CheckRateRequest::default() }
}

pub fn cost(cost: u64, request: pb::CheckRateRequest) -> pb::CheckRateRequest {
    pb::CheckRateRequest { cost: Some(cost), ..request }
}

/// Returns the rules of a configuration file with this text.
pub fn configured(text: &str) -> Rules {
    let file = TempFile::new(text);
    let flags = ServeFlags { config: Some(file.path().into()), ..ServeFlags::default() };
    Config::load(&flags).unwrap().take_rules()
}

impl World {
    pub async fn ask(&self, request: pb::CheckRateRequest) -> pb::CheckRateResponse {
        self.rates.clone().check_rate(request).await.unwrap().into_inner()
    }

    pub async fn check(&self, key: &str, rule: &pb::Rule) -> pb::CheckRateResponse {
        self.ask(check(key, rule)).await
    }

    /// Returns how many of `calls` calls in a row pass.
    pub async fn passes(&self, calls: usize, key: &str, rule: &pb::Rule) -> usize {
        let mut passed = 0;
        for _ in 0..calls {
            passed += usize::from(self.check(key, rule).await.allowed);
        }
        passed
    }

    pub async fn reset(&self, key: &str, policy: &str) -> bool {
        let request = pb::ResetRateRequest { key: key.into(), policy: policy.into() };
        self.rates.clone().reset_rate(request).await.unwrap().into_inner().existed
    }

    pub async fn ban(&self, key: &str, length: Duration) -> pb::Ban {
        let request = pb::BanRequest {
            key: key.into(),
            duration: Some(duration(length)),
            reason: "scraping".into(),
            ..pb::BanRequest::default()
        };
        self.rates.clone().ban(request).await.unwrap().into_inner().ban.unwrap()
    }

    pub async fn unban(&self, key: &str) -> bool {
        let request = pb::UnbanRequest { key: key.into(), ..pb::UnbanRequest::default() };
        self.rates.clone().unban(request).await.unwrap().into_inner().existed
    }

    pub async fn bans(&self) -> Vec<pb::Ban> {
        let request = pb::ListBansRequest::default();
        self.rates.clone().list_bans(request).await.unwrap().into_inner().bans
    }
}
