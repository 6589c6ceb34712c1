//! Parses requests into decisions. Each function reports all violations of a request together.

use std::{ops::RangeInclusive, sync::Arc};

use bytes::Bytes;
use tonic::{Request, Status};

use super::super::{elements::bounds, fields::Fields, page_token, pb, scope::Scope, status};
use tollgate_core::{
    names::Name,
    rate::{
        Algorithm, BAN_MEMORY, BanKey, CALENDAR_MAX, COUNT_MAX, CheckRate, GetKey, LENGTH_MAX,
        LENGTH_MIN, LimitSpec, ListBans, MeterName, Policies, Rule, RuleSpec, TEXT_BYTES_MAX,
        TierAction, TierSpec, UnbanKey,
    },
    time::Millis,
};

/// Parses a check against a policy or against a rule in the request. Fails with NOT_FOUND if the
/// policy is unknown.
pub(super) fn check_rate(
    request: pb::CheckRateRequest,
    scope: Scope,
    policies: &Policies,
) -> Result<CheckRate, Status> {
    let mut fields = Fields::new(scope);
    let check = check(&mut fields, request, policies);
    fields.finish(check)?
}

/// Parses a batch of 1 to 100 checks, each with its own policy or rule. An invalid check or an
/// unknown policy fails the whole batch.
pub(super) fn check_rates(
    request: pb::CheckRatesRequest,
    scope: Scope,
    policies: &Policies,
) -> Result<Vec<CheckRate>, Status> {
    let mut fields = Fields::new(scope);
    if !fields.elements("checks", request.checks.len(), bounds::CHECK_RATES_REQUEST_CHECKS) {
        return fields.finish(None);
    }
    let mut checks = Vec::with_capacity(request.checks.len());
    for (i, request) in request.checks.into_iter().enumerate() {
        let path = format_args!("checks[{i}].");
        let check = fields.below(path, |fields| check(fields, request, policies));
        // Parsing continues after a violation, so that all are reported.
        checks.push(check);
    }
    let checks: Option<Vec<_>> = checks.into_iter().collect();
    fields.finish(checks)?.into_iter().collect()
}

/// Parses a check. `Some(Err)` is NOT_FOUND for an unknown policy, which applies only if there is
/// no violation.
fn check(
    fields: &mut Fields,
    request: pb::CheckRateRequest,
    policies: &Policies,
) -> Option<Result<CheckRate, Status>> {
    use pb::check_rate_request::Against;

    // Without a policy, the key is the name of the partition.
    let key = match &request.against {
        Some(Against::Policy(_)) => fields.name("key", request.key),
        _ => fields.partition("key", request.key),
    };
    let cost = request.cost.unwrap_or(1);
    if cost > COUNT_MAX.into() {
        fields.violation("cost", format!("must be 0 to {COUNT_MAX}"));
    }
    let id = fields.optional_name("request_id", request.request_id);
    let (policy, inline) = match request.against {
        Some(Against::Policy(policy)) => (Some(fields.partition("policy", policy)?), None),
        Some(Against::Rule(inline)) => {
            let inline = fields.below(format_args!("rule."), |fields| rule(fields, inline))?;
            (None, Some(Arc::new(inline)))
        }
        None => {
            fields.violation("policy", "is required, or a rule");
            return None;
        }
    };
    let key = key?;
    let name = MeterName::new(policy.as_ref(), &key);
    let found = policy.as_ref().map(|policy| {
        policies.rule(policy, &key).cloned().ok_or_else(|| status::no_policy(policy))
    });
    let rule = match (inline, found) {
        (Some(rule), _) | (None, Some(Ok(rule))) => rule,
        (None, Some(Err(status))) => return Some(Err(status)),
        (None, None) => return None,
    };
    let cost = u32::try_from(cost).unwrap_or(COUNT_MAX);
    Some(Ok(CheckRate { name, rule, cost, request: id }))
}

/// Parses the rule of a request. [`RuleSpec::build`] checks everything except the range of
/// durations.
fn rule(fields: &mut Fields, rule: pb::Rule) -> Option<Rule> {
    let utc_offset = rule.utc_offset.map_or(Some(0), |offset| minutes(&offset));
    if utc_offset.is_none() {
        fields.violation("utc_offset", "must be -14h to 14h, whole minutes");
    }
    let ban_memory = fields.duration("ban_memory", rule.ban_memory, LENGTH_MIN..=LENGTH_MAX);
    // Checked before the elements are parsed, since a message has space for a million elements.
    let limits = few(fields, "limits", rule.limits, bounds::RULE_LIMITS)?.into_iter().enumerate();
    let limits = limits
        .map(|(i, spec)| fields.below(format_args!("limits[{i}]."), |fields| limit(fields, spec)))
        .collect();
    let tiers = few(fields, "tiers", rule.tiers, bounds::RULE_TIERS)?.into_iter().enumerate();
    let tiers = tiers
        .map(|(i, spec)| fields.below(format_args!("tiers[{i}]."), |fields| tier(fields, spec)))
        .collect();
    let utc_offset = utc_offset.unwrap_or_default();
    match (RuleSpec { limits, tiers, utc_offset, ban_memory, ..RuleSpec::default() }).build() {
        Ok(rule) => Some(rule),
        Err(violations) => {
            for bad in violations {
                fields.violation(&bad.field, bad.description);
            }
            None
        }
    }
}

/// Checks the number of elements of a repeated field.
fn few<T>(
    fields: &mut Fields,
    field: &str,
    all: Vec<T>,
    bound: RangeInclusive<usize>,
) -> Option<Vec<T>> {
    fields.elements(field, all.len(), bound).then_some(all)
}

/// Parses a limit. An unset algorithm is a sliding window.
fn limit(fields: &mut Fields, limit: pb::Limit) -> LimitSpec {
    let algorithm = match pb::Algorithm::try_from(limit.algorithm) {
        Ok(pb::Algorithm::Unspecified) => None,
        Ok(pb::Algorithm::FixedWindow) => Some(Algorithm::FixedWindow),
        Ok(pb::Algorithm::CalendarWindow) => Some(Algorithm::CalendarWindow),
        Ok(pb::Algorithm::SlidingWindow) => Some(Algorithm::SlidingWindow),
        Ok(pb::Algorithm::TokenBucket) => Some(Algorithm::TokenBucket),
        Err(_) => {
            fields.violation("algorithm", "must be 1 to 4, see Algorithm");
            None
        }
    };
    LimitSpec {
        name: limit.name.into(),
        max: limit.max,
        window: window(fields, limit.window),
        algorithm,
        burst: limit.burst,
    }
}

/// Parses the length of a window. [`RuleSpec::build`] allows more than 30 days for calendar windows
/// only.
fn window(fields: &mut Fields, value: Option<prost_types::Duration>) -> Option<Millis> {
    let seconds = |most: Millis| (most.0 / 1000) as i64;
    let calendar = seconds(LENGTH_MAX)..=seconds(CALENDAR_MAX);
    let is_long = value.is_some_and(|value| calendar.contains(&value.seconds));
    let most = if is_long { CALENDAR_MAX } else { LENGTH_MAX };
    fields.duration("window", value, LENGTH_MIN..=most)
}

/// Parses a tier. An unset or unknown action is a violation, which [`RuleSpec::build`] reports.
fn tier(fields: &mut Fields, tier: pb::Tier) -> TierSpec {
    let action = match pb::TierAction::try_from(tier.action) {
        Ok(pb::TierAction::Unspecified) | Err(_) => None,
        Ok(pb::TierAction::Warn) => Some(TierAction::Warn),
        Ok(pb::TierAction::Throttle) => Some(TierAction::Throttle),
        Ok(pb::TierAction::Ban) => Some(TierAction::Ban),
    };
    let durations = few(fields, "ban_durations", tier.ban_durations, bounds::TIER_BAN_DURATIONS);
    let durations = durations.unwrap_or_default().into_iter().enumerate();
    let ban_durations = durations.filter_map(|(i, duration)| {
        let field = format!("ban_durations[{i}]");
        fields.duration(&field, Some(duration), LENGTH_MIN..=LENGTH_MAX)
    });
    TierSpec { above: tier.above, action, ban_durations: ban_durations.collect() }
}

/// Converts to whole minutes, positive or negative; `None` for fractions of a minute.
fn minutes(offset: &prost_types::Duration) -> Option<i32> {
    let whole = offset.nanos == 0 && offset.seconds % 60 == 0;
    whole.then(|| i32::try_from(offset.seconds / 60).ok()).flatten()
}

/// Parses a key. Without a policy, it is the name of the partition.
fn key(fields: &mut Fields, value: Bytes, policy: &Bytes) -> Option<Name> {
    if policy.is_empty() { fields.partition("key", value) } else { fields.name("key", value) }
}

/// Parses the name of a configured policy; `None` for inline rules. Fails with NOT_FOUND for an
/// unknown policy.
fn policy(fields: &mut Fields, value: Bytes, policies: &Policies) -> Result<Option<Name>, Status> {
    match fields.optional_partition("policy", value) {
        Some(policy) if policies.contains(&policy) => Ok(Some(policy)),
        Some(policy) => Err(status::no_policy(&policy)),
        None => Ok(None),
    }
}

/// Parses a key and its policy, for verbs that need no rule.
pub(super) fn meter_name(
    key: Bytes,
    policy_name: Bytes,
    scope: Scope,
    policies: &Policies,
) -> Result<MeterName, Status> {
    let mut fields = Fields::new(scope);
    let key = self::key(&mut fields, key, &policy_name);
    let policy = policy(&mut fields, policy_name, policies);
    let key = fields.finish(key)?;
    Ok(MeterName::new(policy?.as_ref(), &key))
}

/// Returns the metadata `x-tollgate-actor`, which names the person or program behind the call;
/// empty if it is missing.
pub(super) fn actor<T>(request: &Request<T>) -> Bytes {
    let actor = request.metadata().get("x-tollgate-actor");
    actor.map_or_else(Bytes::new, |actor| Bytes::copy_from_slice(actor.as_encoded_bytes()))
}

/// Parses a ban. `actor` is checked like a field of the request.
pub(super) fn ban(
    request: pb::BanRequest,
    scope: Scope,
    actor: Bytes,
    policies: &Policies,
) -> Result<BanKey, Status> {
    let mut fields = Fields::new(scope);
    let key = key(&mut fields, request.key, &request.policy);
    let policy = policy(&mut fields, request.policy, policies);
    let duration = fields.duration("duration", request.duration, LENGTH_MIN..=LENGTH_MAX);
    if duration.is_none() {
        fields.violation("duration", "is required: 1ms to 30days");
    }
    let reason = fields.text("reason", request.reason, TEXT_BYTES_MAX);
    let actor = fields.text("x-tollgate-actor", actor, TEXT_BYTES_MAX);
    let (key, duration) = fields.finish(key.zip(duration))?;
    let policy = policy?;
    let rule = policy.as_ref().and_then(|policy| policies.rule(policy, &key));
    Ok(BanKey {
        name: MeterName::new(policy.as_ref(), &key),
        duration,
        memory: rule.map_or(BAN_MEMORY, |rule| rule.ban_memory),
        reason: reason.into(),
        actor: actor.into(),
    })
}

/// Parses a request to lift a ban. `actor` is checked like a field of the request.
pub(super) fn unban(
    request: pb::UnbanRequest,
    scope: Scope,
    actor: Bytes,
    policies: &Policies,
) -> Result<UnbanKey, Status> {
    let mut fields = Fields::new(scope);
    let key = key(&mut fields, request.key, &request.policy);
    let policy = policy(&mut fields, request.policy, policies);
    let actor = fields.text("x-tollgate-actor", actor, TEXT_BYTES_MAX);
    let key = fields.finish(key)?;
    Ok(UnbanKey { name: MeterName::new(policy?.as_ref(), &key), actor: actor.into() })
}

/// Parses a GetKey request. Domains of Envoy's service have no rule.
pub(super) fn get_key(
    request: pb::GetKeyRequest,
    scope: Scope,
    policies: &Policies,
) -> Result<GetKey, Status> {
    let mut fields = Fields::new(scope);
    let key = fields.name("key", request.key);
    let policy = fields.partition("policy", request.policy);
    let (key, policy) = fields.finish(key.zip(policy))?;
    if !policies.contains(&policy) {
        return Err(status::no_policy(&policy));
    }
    let rule = policies.rule(&policy, &key).cloned();
    Ok(GetKey { name: MeterName::new(Some(&policy), &key), rule })
}

/// Parses a listing. Without a policy it lists the keys whose rules came with the calls.
pub(super) fn list_bans(
    request: pb::ListBansRequest,
    scope: Scope,
    policies: &Policies,
) -> Result<ListBans, Status> {
    let namespace = scope.namespace().clone();
    let mut fields = Fields::new(scope);
    let policy = policy(&mut fields, request.policy, policies);
    let limit = fields.page_size(request.page_size);
    let after = page_token::decode(&mut fields, &request.page_token);
    let (limit, after) = fields.finish(Some((limit, after)))?;
    Ok(ListBans { policy: policy?, namespace, limit, after })
}
