//! `CheckRate` in plain types.

use super::{CallError, Client, answered, convert, pb, request};
use crate::{
    decision::time::Millis,
    rate::{Algorithm, Ban, LimitSpec, RuleSpec, TierAction, TierSpec, Verdict},
};

/// The rule of a check: a configured policy or an inline rule. Reusable for many calls.
#[derive(Debug, Clone)]
pub struct Against(pb::check_rate_request::Against);

/// The answer of `CheckRate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateAnswer {
    /// The verdict. `Allow` and `Warn` let the call pass.
    pub verdict: Verdict,
    /// Whether this call reached a warn or throttle level first and should send the notice.
    pub crossed: bool,
    /// Time until the same call can pass; `None` if it passes now.
    pub retry_after: Option<Millis>,
    /// The ban in force.
    pub ban: Option<Ban>,
    /// The usage of each limit, in the order of the rule.
    pub limits: Vec<LimitStanding>,
}

/// The usage of one limit by a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitStanding {
    /// Name of the limit. May be empty if the rule has one limit only.
    pub name: String,
    /// Maximum count. For a token bucket, its burst.
    pub max: u64,
    /// Current count.
    pub count: u64,
    /// Remaining count.
    pub remaining: u64,
    /// Time until the whole usage has expired.
    pub reset_after: Millis,
}

impl RateAnswer {
    /// Whether the call may pass.
    pub fn allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allow | Verdict::Warn)
    }
}

impl Client {
    /// Counts a call of a key and returns the verdict. A cost of 0 reads without counting.
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
        answer(answered(self.rate.clone().check_rate(request(message))).await?)
    }
}

impl Against {
    /// A policy of the server's configuration.
    pub fn policy(name: &str) -> Against {
        Against(pb::check_rate_request::Against::Policy(name.to_owned()))
    }

    /// An inline rule. The server checks it and names every invalid field.
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

/// Converts a response; one that violates the contract is an error.
fn answer(response: pb::CheckRateResponse) -> Result<RateAnswer, CallError> {
    let verdict = match response.verdict() {
        pb::RateVerdict::Allow => Verdict::Allow,
        pb::RateVerdict::Warn => Verdict::Warn,
        pb::RateVerdict::Throttle => Verdict::Throttle,
        pb::RateVerdict::Ban => Verdict::Ban,
        pb::RateVerdict::Unspecified => return Err(CallError::malformed("verdict")),
    };
    let retry_after = match verdict {
        Verdict::Allow | Verdict::Warn => None,
        Verdict::Throttle | Verdict::Ban => {
            Some(convert::millis(response.retry_after, "retry_after")?)
        }
    };
    Ok(RateAnswer {
        verdict,
        crossed: response.crossed,
        retry_after,
        ban: response.ban.map(convert::ban).transpose()?,
        limits: response.limits.into_iter().map(standing).collect::<Result<_, _>>()?,
    })
}

fn standing(usage: pb::LimitUsage) -> Result<LimitStanding, CallError> {
    Ok(LimitStanding {
        name: usage.name,
        max: usage.max,
        count: usage.count,
        remaining: usage.remaining,
        // A duration of zero may be omitted.
        reset_after: convert::millis(
            usage.reset_after.or(Some(Default::default())),
            "reset_after",
        )?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_when_to_come_again_and_who_is_banned_until_when() {
        let mut response = pb::CheckRateResponse::default();
        assert!(super::answer(response.clone()).is_err(), "no verdict");
        response.set_verdict(pb::RateVerdict::Allow);
        response.limits = vec![pb::LimitUsage { max: 3, remaining: 3, ..Default::default() }];
        let answer = super::answer(response.clone()).expect("well-formed");
        assert!(answer.allowed() && answer.retry_after.is_none());
        assert_eq!(answer.limits[0].reset_after, Millis(0));
        response.set_verdict(pb::RateVerdict::Ban);
        assert!(super::answer(response.clone()).is_err(), "no retry_after");
        response.retry_after = Some(prost_types::Duration { seconds: 1, nanos: 0 });
        response.ban = Some(pb::Ban::default());
        assert!(super::answer(response.clone()).is_err(), "a ban without its end");
        response.ban = None;
        assert_eq!(super::answer(response).map(|answer| answer.allowed()), Ok(false));
    }
}
