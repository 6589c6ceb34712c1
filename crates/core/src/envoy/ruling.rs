//! Combines the counts of all descriptors of a request into one answer.

use std::{borrow::Cow, sync::Arc};

use super::{
    counters::{RuleCounters, RuleHits},
    rule::EnvoyRule,
    settings::EnvoySettings,
    unit::RateUnit,
};
use crate::rate::Enforcement;

/// The limit that applies to a descriptor.
#[derive(Debug)]
pub struct DescriptorLimit<'r> {
    /// The rule; `None` for a limit that comes with the descriptor.
    pub rule: Option<&'r EnvoyRule>,
    /// The length of the window.
    pub unit: RateUnit,
    /// The largest number of hits in a window.
    pub requests_per_unit: u32,
    /// The counters for the metrics; `None` for a limit that comes with the descriptor.
    pub counters: Option<Arc<RuleCounters>>,
}

/// The counted hits of a descriptor.
#[derive(Debug, Clone, Copy)]
pub struct DescriptorHits {
    /// The hits; 0 reads the count without counting.
    pub hits: u64,
    /// The count after them, or without them if they were not counted.
    pub count: u64,
    /// Whether the limit is exceeded.
    pub is_over: bool,
    /// Whether they were counted.
    pub is_counted: bool,
    /// The whole seconds until the window ends.
    pub left: u64,
}

/// What was decided about a descriptor.
#[derive(Debug)]
pub enum DescriptorRuling<'r> {
    /// No rule applies, or another rule replaces it.
    NoLimit,
    /// The rule is unlimited.
    Unlimited,
    /// The limit and the hits.
    Limited {
        /// The limit.
        limit: DescriptorLimit<'r>,
        /// The hits.
        hits: DescriptorHits,
    },
}

/// The answer to a request.
#[derive(Debug)]
pub struct Ruling {
    /// Whether the request is refused.
    pub is_over: bool,
    /// The descriptor that is closest to its limit, or exceeds it, for the headers.
    pub tightest: Option<usize>,
    /// The descriptors that passed, for the metadata.
    pub passed: Vec<usize>,
}

impl DescriptorLimit<'_> {
    fn is_shadow(&self) -> bool {
        self.rule.is_some_and(|rule| rule.shadow_mode)
    }

    fn is_quota(&self, settings: &EnvoySettings) -> bool {
        settings.quota_mode || self.rule.is_some_and(|rule| rule.quota_mode)
    }

    /// Returns what happens to the request if the limit is exceeded. `can_quotas_refuse` is the
    /// result of [`can_quotas_refuse`].
    pub fn enforcement(&self, settings: &EnvoySettings, can_quotas_refuse: bool) -> Enforcement {
        let is_quota = self.is_quota(settings);
        if self.is_shadow() || (is_quota && !can_quotas_refuse) {
            Enforcement::Shadow
        } else if is_quota {
            Enforcement::Quota
        } else {
            Enforcement::Enforced
        }
    }

    /// Returns the name in answers; may be empty.
    pub fn name(&self) -> Cow<'_, str> {
        self.rule.map_or(Cow::Borrowed(""), |rule| Cow::Borrowed(&*rule.name))
    }

    /// Returns the hits that are left.
    pub fn remaining(&self, hits: &DescriptorHits) -> u32 {
        let left = u64::from(self.requests_per_unit).saturating_sub(hits.count);
        if hits.is_over { 0 } else { u32::try_from(left).unwrap_or(u32::MAX) }
    }

    /// Whether the status of the descriptor is OVER_LIMIT: a rule in shadow mode passes.
    pub fn refuses(&self, hits: &DescriptorHits) -> bool {
        hits.is_over && !self.is_shadow()
    }

    /// Counts the hits for the metrics.
    fn record(&self, hits: &DescriptorHits, settings: &EnvoySettings) {
        let Some(counters) = &self.counters else { return };
        let near = (self.requests_per_unit as f32 * settings.near_limit_ratio).floor();
        counters.record(RuleHits {
            hits: hits.hits,
            before: hits.count.saturating_sub(if hits.is_counted { hits.hits } else { 0 }),
            limit: self.requests_per_unit.into(),
            near: near as u64,
            is_over: hits.is_over,
            is_counted: hits.is_counted,
            is_shadow: self.is_shadow(),
        });
    }
}

/// Whether rules in quota mode can refuse a request with these limits. One quota rule that always
/// passes prevents it. `has_none` says that no rule applies to some descriptor.
pub fn can_quotas_refuse<'r>(
    mut limits: impl Iterator<Item = &'r DescriptorLimit<'r>>,
    has_none: bool,
    settings: &EnvoySettings,
) -> bool {
    let is_passed = has_none && settings.quota_mode;
    !is_passed && !limits.any(|limit| limit.is_shadow() && limit.is_quota(settings))
}

impl Ruling {
    /// Decides about a request. It is refused if a descriptor exceeds a rule that is not in quota
    /// mode, or if all rules in quota mode are exceeded and there is one.
    pub fn from_descriptors(
        descriptors: &[DescriptorRuling<'_>],
        settings: &EnvoySettings,
    ) -> Ruling {
        let (mut tightest, mut least) = (None, u32::MAX);
        let (mut failed, mut quotas, mut failed_quotas) = (false, 0, 0);
        let mut passed = Vec::new();
        for (index, descriptor) in descriptors.iter().enumerate() {
            let (limit, hits) = match descriptor {
                DescriptorRuling::Limited { limit, hits } => (limit, hits),
                DescriptorRuling::NoLimit => {
                    // As in envoyproxy/ratelimit: in quota mode for all rules, a descriptor without
                    // a rule passes it.
                    quotas += usize::from(settings.quota_mode);
                    continue;
                }
                DescriptorRuling::Unlimited => continue,
            };
            limit.record(hits, settings);
            let remaining = limit.remaining(hits);
            if remaining < least {
                (tightest, least) = (Some(index), remaining);
            }
            let is_quota = limit.is_quota(settings);
            quotas += usize::from(is_quota);
            if !limit.refuses(hits) {
                passed.push(index);
            } else if is_quota {
                failed_quotas += 1;
            } else {
                failed = true;
                (tightest, least) = (Some(index), 0);
            }
        }
        let is_over = failed || (quotas > 0 && quotas == failed_quotas);
        Ruling { is_over: is_over && !settings.shadow_mode, tightest, passed }
    }
}
