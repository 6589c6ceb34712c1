//! `CheckRate` in plain types.

use super::{CallError, Client, answered, convert, pb, request};
use crate::{
    rate::{Algorithm, Ban, LimitSpec, RuleSpec, TierAction, TierSpec, Verdict},
    time::Millis,
};

/// What calls are counted against: made once, used for many calls.
#[derive(Debug, Clone)]
pub struct Against(pb::check_rate_request::Against);

/// The answer of `CheckRate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateAnswer {
    /// Whether the call may pass.
    pub verdict: Verdict,
    /// Whether this call is the one to send a notice for.
    pub crossed: bool,
    /// When the same call passes; none when it may pass now.
    pub retry_after: Option<Millis>,
    /// The ban in force.
    pub ban: Option<Ban>,
    /// The limits in the rule's order.
    pub limits: Vec<LimitStanding>,
}

/// How a key stands with one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitStanding {
    /// Tells the limits of a rule apart; may be empty when there is one.
    pub name: String,
    /// How many may pass; a token bucket's burst.
    pub max: u64,
    /// How many have.
    pub count: u64,
    /// How many more may.
    pub remaining: u64,
    /// When all of it is given back.
    pub reset_after: Millis,
}

impl RateAnswer {
    /// Whether the call may pass.
    pub fn allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allow | Verdict::Warn)
    }
}

impl Client {
    /// Counts a call of a key and says whether it may pass; a cost of 0 only
    /// looks.
    pub async fn check_rate(
        &self,
        key: &str,
        against: &Against,
        cost: u64,
    ) -> Result<RateAnswer, CallError> {
        let message = pb::CheckRateRequest {
            key: key.to_owned(),
            against: Some(against.0.clone()),
            cost: Some(cost),
            request_id: String::new(),
        };
        convert::rate_answer(answered(self.rate.clone().check_rate(request(message))).await?)
    }
}

impl Against {
    /// A policy of the server's configuration.
    pub fn policy(name: &str) -> Against {
        Against(pb::check_rate_request::Against::Policy(name.to_owned()))
    }

    /// A rule of the caller's own. It is not checked here: the server names
    /// every bad field.
    pub fn rule(spec: &RuleSpec) -> Against {
        let utc_offset = i64::from(spec.utc_offset) * 60;
        Against(pb::check_rate_request::Against::Rule(pb::Rule {
            limits: spec.limits.iter().map(limit).collect(),
            tiers: spec.tiers.iter().map(tier).collect(),
            utc_offset: (utc_offset != 0)
                .then_some(prost_types::Duration { seconds: utc_offset, nanos: 0 }),
            ban_memory: spec.ban_memory.map(millis),
        }))
    }
}

fn limit(spec: &LimitSpec) -> pb::Limit {
    let algorithm = match spec.algorithm {
        None => pb::Algorithm::Unspecified,
        Some(Algorithm::FixedWindow) => pb::Algorithm::FixedWindow,
        Some(Algorithm::CalendarWindow) => pb::Algorithm::CalendarWindow,
        Some(Algorithm::SlidingWindow) => pb::Algorithm::SlidingWindow,
        Some(Algorithm::TokenBucket) => pb::Algorithm::TokenBucket,
    };
    pb::Limit {
        name: String::from_utf8_lossy(&spec.name).into_owned(),
        max: spec.max,
        window: spec.window.map(millis),
        algorithm: algorithm.into(),
        burst: spec.burst,
    }
}

fn tier(spec: &TierSpec) -> pb::Tier {
    let action = match spec.action {
        None => pb::TierAction::Unspecified,
        Some(TierAction::Warn) => pb::TierAction::Warn,
        Some(TierAction::Throttle) => pb::TierAction::Throttle,
        Some(TierAction::Ban) => pb::TierAction::Ban,
    };
    let ban_durations = spec.ban_durations.iter().copied().map(millis).collect();
    pb::Tier { above: spec.above, action: action.into(), ban_durations }
}

fn millis(length: Millis) -> prost_types::Duration {
    convert::duration(length.duration())
}
