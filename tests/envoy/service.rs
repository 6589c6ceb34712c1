//! A world whose server has rules for Envoy's rate limit service.

use std::sync::Arc;

use tollgate::{
    grpc::{CurrentRules, DecisionRules},
    server::Rules,
};
use tollgate_core::envoy::{EnvoyRules, EnvoySettings, RuleFile};
use tonic::{Status, transport::Channel};

use crate::{
    api::{Descriptor, OK, OVER, RateLimitRequest, RateLimitResponse, request, should_rate_limit},
    support::world::World,
};

/// A server with rules, and a client of it.
pub struct Service {
    pub world: World,
    pub channel: Channel,
}

/// Parses the rules in these files.
pub fn rules(files: &[&str], settings: EnvoySettings) -> Result<EnvoyRules, String> {
    let files = files.iter().enumerate().map(|(number, text)| RuleFile {
        name: format!("{number}.yaml"),
        text: Ok((*text).to_owned()),
    });
    EnvoyRules::new(&files.collect::<Vec<_>>(), settings)
}

impl Service {
    /// Creates a service with the default settings.
    pub async fn new(redis: bool, file: &str) -> Service {
        Service::with(redis, file, EnvoySettings::default()).await
    }

    pub async fn with(redis: bool, file: &str, settings: EnvoySettings) -> Service {
        let decisions = DecisionRules::default().with_envoy(rules(&[file], settings).unwrap());
        let decisions = Arc::new(CurrentRules::new(decisions));
        let world = World::with_rules(redis, Rules { decisions, ..Rules::default() }).await;
        let channel = Channel::from_shared(world.address.clone()).unwrap().connect().await.unwrap();
        Service { world, channel }
    }

    pub async fn call(&self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        should_rate_limit(&self.channel, request).await
    }

    /// Makes a request for the domain `d`.
    pub async fn ask(&self, descriptors: &[Descriptor]) -> RateLimitResponse {
        self.call(request("d", descriptors)).await.unwrap()
    }

    /// Returns how many of `calls` requests pass.
    pub async fn passes(&self, calls: usize, descriptors: &[Descriptor]) -> usize {
        let mut passed = 0;
        for _ in 0..calls {
            passed += usize::from(self.ask(descriptors).await.overall_code == OK);
        }
        passed
    }
}

/// Returns the codes of the descriptors and of the request as letters: `.` for OK, `x` for
/// OVER_LIMIT.
pub fn codes(answer: &RateLimitResponse) -> String {
    let letter = |code: i32| match code {
        OK => '.',
        OVER => 'x',
        _ => '?',
    };
    let statuses: String = answer.statuses.iter().map(|status| letter(status.code)).collect();
    format!("{statuses} {}", letter(answer.overall_code))
}

/// Returns the seconds until the window of a descriptor ends.
pub fn left(answer: &RateLimitResponse, index: usize) -> i64 {
    answer.statuses[index].duration_until_reset.map_or(0, |left| left.seconds)
}

/// Returns the hits that are left, for each descriptor.
pub fn remaining(answer: &RateLimitResponse) -> Vec<u32> {
    answer.statuses.iter().map(|status| status.limit_remaining).collect()
}
