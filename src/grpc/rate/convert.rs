//! Converts outcomes to responses.

use bytes::Bytes;
use tonic::Status;

use super::super::{
    convert::{duration, timestamp},
    pb, status,
};
use tollgate_core::rate::{
    Algorithm, Answer, Ban, CheckOutcome, CheckRate, GetKey, KeyState, Limit, LimitUse, Policy,
    Rule, Tier, TierAction, Verdict,
};
use tollgate_engine::Answered;

/// Converts a check. Fails with FAILED_PRECONDITION if the key already has usage under too many
/// limit names.
pub(super) fn checked(
    asked: &CheckRate,
    checked: Answered<CheckOutcome>,
) -> Result<pb::CheckRateResponse, Status> {
    let (cached, degraded) = (checked.is_cached(), checked.is_degraded());
    match checked.outcome {
        CheckOutcome::Decided { answer, replayed } => {
            Ok(pb::CheckRateResponse { cached, degraded, ..decided(asked, answer, replayed) })
        }
        CheckOutcome::TooManyNames => Err(status::too_many_names()),
    }
}

/// Converts an answer. If the fallback refused the call, `limits` is empty, because the usage is
/// unknown.
fn decided(asked: &CheckRate, answer: Answer, replayed: bool) -> pb::CheckRateResponse {
    let verdict = match answer.verdict {
        Verdict::Allow => pb::RateVerdict::Allow,
        Verdict::Warn => pb::RateVerdict::Warn,
        Verdict::Throttle => pb::RateVerdict::Throttle,
        Verdict::Ban => pb::RateVerdict::Ban,
    };
    let limits = asked.rule.limits.iter().zip(&answer.limits);
    // A call of cost 0 gets the answer that a call of cost 1 would get.
    let cost = (answer.verdict == Verdict::Throttle).then(|| asked.cost.max(1));
    pb::CheckRateResponse {
        verdict: verdict.into(),
        allowed: answer.is_allowed(),
        limits: limits.map(|(limit, used)| limit_usage(limit, used, cost)).collect(),
        crossed: answer.crossed,
        retry_after: answer.retry_after.map(duration),
        ban: answer.ban.map(|it| ban(asked.name.key(), it)),
        replayed,
        error: Bytes::new(),
        cached: false,
        degraded: false,
    }
}

/// Builds the response for a failed check in a batch.
pub(super) fn undecided(status: &Status) -> pb::CheckRateResponse {
    let error = format!("{}: {}", status::code_name(status.code()), status.message()).into();
    pb::CheckRateResponse { error, ..pb::CheckRateResponse::default() }
}

/// Converts the usage of a limit. The maximum count of a token bucket is its burst. `refused` is
/// the cost of a call that some limit has refused.
fn limit_usage(limit: &Limit, used: &LimitUse, refused: Option<u32>) -> pb::LimitUsage {
    pb::LimitUsage {
        name: Bytes::copy_from_slice(&limit.name),
        max: limit.burst.into(),
        count: used.count,
        remaining: u64::from(limit.burst).saturating_sub(used.count),
        reset_after: Some(duration(used.reset_after)),
        window: Some(duration(limit.window)),
        refused: refused.is_some_and(|cost| limit.refuses(used.count, cost)),
    }
}

/// Converts the state of a key, for which no call was refused.
pub(super) fn key_state(asked: &GetKey, state: KeyState) -> pb::GetKeyResponse {
    let rule = asked.rule.as_ref();
    let limits = rule.into_iter().flat_map(|rule| rule.limits.iter().zip(&state.limits));
    pb::GetKeyResponse {
        limits: limits.map(|(limit, used)| limit_usage(limit, used, None)).collect(),
        ban: state.ban.map(|it| ban(asked.name.key(), it)),
        strikes: state.strikes,
    }
}

/// Converts a ban that is in force.
pub(super) fn ban(key: &[u8], ban: Ban) -> pb::Ban {
    pb::Ban {
        key: Bytes::copy_from_slice(key),
        until: Some(timestamp(ban.until)),
        reason: ban.reason.into(),
        strikes: ban.strikes,
        actor: ban.actor.into(),
    }
}

/// Builds a ban whose stored values cannot be read: all fields except the key are unset.
pub(super) fn unreadable_ban(key: &[u8]) -> pb::Ban {
    pb::Ban { key: Bytes::copy_from_slice(key), ..pb::Ban::default() }
}

/// Converts a configured policy, with the rules of its overrides in order of precedence.
pub(super) fn policy(policy: &Policy) -> pb::Policy {
    let overrides = policy.overrides.iter().map(|one| pb::PolicyOverride {
        r#match: one.pattern.clone().into(),
        rule: Some(rule(&one.rule)),
    });
    pb::Policy {
        name: policy.name.local_bytes(),
        rule: Some(rule(&policy.rule)),
        overrides: overrides.collect(),
    }
}

/// Converts a rule. An unset `utc_offset` is UTC.
fn rule(rule: &Rule) -> pb::Rule {
    let seconds = i64::from(rule.utc_offset) * 60;
    pb::Rule {
        limits: rule.limits.iter().map(limit).collect(),
        tiers: rule.tiers.iter().map(tier).collect(),
        utc_offset: (seconds != 0).then_some(prost_types::Duration { seconds, nanos: 0 }),
        ban_memory: Some(duration(rule.ban_memory)),
    }
}

fn limit(limit: &Limit) -> pb::Limit {
    let algorithm = match limit.algorithm {
        Algorithm::FixedWindow => pb::Algorithm::FixedWindow,
        Algorithm::CalendarWindow => pb::Algorithm::CalendarWindow,
        Algorithm::SlidingWindow => pb::Algorithm::SlidingWindow,
        Algorithm::TokenBucket => pb::Algorithm::TokenBucket,
    };
    pb::Limit {
        name: Bytes::copy_from_slice(&limit.name),
        max: Some(limit.max.into()),
        window: Some(duration(limit.window)),
        algorithm: algorithm.into(),
        burst: (limit.algorithm == Algorithm::TokenBucket).then_some(limit.burst.into()),
    }
}

fn tier(tier: &Tier) -> pb::Tier {
    let action = match tier.action {
        TierAction::Warn => pb::TierAction::Warn,
        TierAction::Throttle => pb::TierAction::Throttle,
        TierAction::Ban => pb::TierAction::Ban,
    };
    pb::Tier {
        above: Some(tier.above.into()),
        action: action.into(),
        ban_durations: tier.ban_durations.iter().copied().map(duration).collect(),
    }
}
