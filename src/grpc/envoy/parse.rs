//! Plans a request: the limit of each descriptor, and the decisions that count its hits.

use std::sync::Arc;

use bytes::Bytes;
use tonic::Status;
use tonic_types::FieldViolation;

use super::super::envoy_pb::{RateLimitDescriptor, RateLimitRequest};
use crate::grpc::{
    elements::{bounds, described},
    scope::Scope,
    status,
};
use tollgate_core::{
    envoy::{
        Counting, DescriptorLimit, Domain, EnvoyRule, EnvoyRules, EnvoySettings, Found,
        LimitOverride, RateUnit, can_quotas_refuse, counter_name,
    },
    names::Name,
    rate::{COUNT_ALL_MAX, CheckRate, CountHits, Enforcement, MeterName, Rule},
};

/// What happens to a descriptor.
#[derive(Debug)]
pub(super) enum Planned<'r> {
    /// No rule applies, or another rule replaces the one that does.
    NoLimit,
    /// The rule is unlimited.
    Unlimited,
    /// The hits are counted.
    Count { limit: DescriptorLimit<'r>, hits: u64 },
}

/// Fails with INVALID_ARGUMENT if the request is not valid.
pub(super) fn check(request: &RateLimitRequest) -> Result<(), Status> {
    let mut violations = Vec::new();
    let mut add = |field: String, valid: String| {
        violations.push(FieldViolation::new(field, valid));
    };
    if request.domain.is_empty() {
        add("domain".to_owned(), "is required: rate limit domain must not be empty".to_owned());
    }
    let bound = bounds::RATE_LIMIT_REQUEST_DESCRIPTORS;
    if !bound.contains(&request.descriptors.len()) {
        add("descriptors".to_owned(), described("descriptors", &bound));
        return Err(status::invalid(violations, 0));
    }
    for (index, descriptor) in request.descriptors.iter().enumerate() {
        let bound = bounds::RATE_LIMIT_DESCRIPTOR_ENTRIES;
        if !bound.contains(&descriptor.entries.len()) {
            add(format!("descriptors[{index}].entries"), described("entries", &bound));
        }
        if let Some(limit) = &descriptor.limit
            && RateUnit::from_number(limit.unit).is_none()
        {
            add(format!("descriptors[{index}].limit.unit"), "must be 1 to 7".to_owned());
        }
    }
    if violations.is_empty() { Ok(()) } else { Err(status::invalid(violations, 0)) }
}

/// Returns the key and value of each entry.
fn entries(descriptor: &RateLimitDescriptor) -> impl Iterator<Item = (&[u8], &[u8])> {
    descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value))
}

/// The limit of a descriptor, before rules replace others.
enum Matched<'r> {
    None,
    Rule(Found<'r>),
    LimitOverride(LimitOverride),
}

/// Plans all descriptors. Fails with PERMISSION_DENIED if the caller may not use the domain.
pub(super) fn plan<'r>(
    request: &RateLimitRequest,
    scope: &Scope,
    domain: &'r Domain,
    rules: &'r EnvoyRules,
) -> Result<(Vec<Planned<'r>>, Vec<CountHits>), Status> {
    scope.record(&domain.permission);
    if !scope.permits(&domain.permission) {
        return Err(status::name_denied(scope.caller(), "domain"));
    }
    let policy = scope.name(domain.policy.clone());
    let matched: Vec<Matched<'r>> = request
        .descriptors
        .iter()
        .map(|descriptor| match &descriptor.limit {
            Some(limit) => RateUnit::from_number(limit.unit).map_or(Matched::None, |unit| {
                Matched::LimitOverride(LimitOverride {
                    unit,
                    requests_per_unit: limit.requests_per_unit,
                })
            }),
            None => domain.find(entries(descriptor)).map_or(Matched::None, Matched::Rule),
        })
        .collect();
    let is_replaced = |rule: &EnvoyRule| {
        !rule.name.is_empty()
            && matched.iter().any(|other| match other {
                Matched::Rule(other) => other.rule.replaces.iter().any(|name| **name == *rule.name),
                _ => false,
            })
    };
    let mut planner = Planner { request, domain, policy, rules, counts: Vec::new() };
    let planned =
        request.descriptors.iter().zip(&matched).map(|(descriptor, matched)| match matched {
            Matched::None => Planned::NoLimit,
            Matched::LimitOverride(limit) => planner.overridden(descriptor, *limit),
            Matched::Rule(found) if found.rule.unlimited => Planned::Unlimited,
            Matched::Rule(found) if is_replaced(found.rule) => Planned::NoLimit,
            Matched::Rule(found) => planner.found(descriptor, found),
        });
    let planned = planned.collect();
    Ok((planned, planner.counts))
}

/// Collects the decisions of a request.
struct Planner<'r, 'q> {
    request: &'q RateLimitRequest,
    domain: &'r Domain,
    /// The policy of the domain in the namespace of the caller.
    policy: Name,
    rules: &'r EnvoyRules,
    counts: Vec<CountHits>,
}

impl<'r> Planner<'r, '_> {
    /// Plans a descriptor that brings its own limit.
    fn overridden(
        &mut self,
        descriptor: &RateLimitDescriptor,
        limit: LimitOverride,
    ) -> Planned<'r> {
        let rule = limit.counting(&self.rules.settings);
        let hits = self.count(
            descriptor,
            &counter_name(entries(descriptor)),
            rule,
            limit.requests_per_unit,
        );
        let LimitOverride { unit, requests_per_unit } = limit;
        let limit = DescriptorLimit { rule: None, unit, requests_per_unit, counters: None };
        Planned::Count { limit, hits }
    }

    /// Plans a descriptor that a rule applies to.
    fn found(&mut self, descriptor: &RateLimitDescriptor, found: &Found<'r>) -> Planned<'r> {
        let rule: &'r EnvoyRule = found.rule;
        let name = counter_name(found.counted(entries(descriptor)));
        let hits = self.count(descriptor, &name, rule.counting.clone(), rule.requests_per_unit);
        let limit = DescriptorLimit {
            rule: Some(rule),
            unit: rule.unit,
            requests_per_unit: rule.requests_per_unit,
            counters: Some(found.counters(&self.domain.name, entries(descriptor))),
        };
        Planned::Count { limit, hits }
    }

    /// Adds the decision on a counter. Returns its hits: those of the descriptor, or else those of
    /// the request, where 0 means 1.
    fn count(
        &mut self,
        descriptor: &RateLimitDescriptor,
        key: &Name,
        rule: Arc<Rule>,
        max: u32,
    ) -> u64 {
        let of_request = u64::from(self.request.hits_addend.max(1));
        let hits = descriptor.hits_addend.unwrap_or(of_request);
        let check = CheckRate {
            name: MeterName::new(Some(&self.policy), key),
            rule,
            cost: u32::try_from(hits).unwrap_or(u32::MAX),
            request: None,
        };
        // Hits above the largest cost also exceed the largest limit.
        let max = if hits > u64::from(u32::MAX) { max.min(u32::MAX - 1) } else { max };
        let reports = self.domain.counting != Counting::Each;
        self.counts.push(CountHits { check, max, reports, is_share: false });
        hits
    }
}

/// Returns what happens to the request if the limit of a counter is exceeded, for each counter.
pub(super) fn enforcements(planned: &[Planned<'_>], settings: &EnvoySettings) -> Vec<Enforcement> {
    let limits = || {
        planned.iter().filter_map(|planned| match planned {
            Planned::Count { limit, .. } => Some(limit),
            _ => None,
        })
    };
    let has_none = planned.iter().any(|planned| matches!(planned, Planned::NoLimit));
    let can_refuse = can_quotas_refuse(limits(), has_none, settings);
    limits().map(|limit| limit.enforcement(settings, can_refuse)).collect()
}

/// Builds the error for a request with more counters than one atomic step can decide.
pub(super) fn too_many_counters() -> Status {
    let valid = format!("must be at most {COUNT_ALL_MAX} with a rule, with all_or_nothing");
    status::invalid(vec![FieldViolation::new("descriptors", valid)], 0)
}

/// Returns bytes of a request as text; invalid UTF-8 is replaced.
pub(super) fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
