//! Rules: limits of descriptors.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{counters::RuleCounters, settings::EnvoySettings, unit::RateUnit};
use crate::rate::{Algorithm, Rule};

/// The rule of a node.
#[derive(Debug)]
pub struct EnvoyRule {
    /// The length of the window; has no effect if `unlimited`.
    pub unit: RateUnit,
    /// The largest number of hits in a window.
    pub requests_per_unit: u32,
    /// The name for `replaces` and in answers; may be empty.
    pub name: Arc<str>,
    /// Whether the rule counts nothing and always passes.
    pub unlimited: bool,
    /// Whether the rule counts, and always passes.
    pub shadow_mode: bool,
    /// Whether the rule refuses only together with all other rules in quota mode.
    pub quota_mode: bool,
    /// The names of the rules that this one replaces within a request.
    pub replaces: Box<[Box<str>]>,
    /// Whether all values of a descriptor are in the name of the metric.
    pub detailed_metric: bool,
    /// Metadata of answers in which the rule passes.
    pub metadata: Map<String, Value>,
    /// The domain and the path of the rule in its file, the name of its metric.
    pub key: Box<str>,
    /// The hits of the rule.
    pub counters: Arc<RuleCounters>,
    /// The rule of the counter.
    pub counting: Arc<Rule>,
}

/// A limit that comes with a descriptor and replaces that of the rule. It is never in shadow mode.
#[derive(Debug, Clone, Copy)]
pub struct LimitOverride {
    /// The length of the window.
    pub unit: RateUnit,
    /// The largest number of hits in a window.
    pub requests_per_unit: u32,
}

impl LimitOverride {
    /// Returns the rule of the counter.
    pub fn counting(self, settings: &EnvoySettings) -> Arc<Rule> {
        counting(self.unit, self.requests_per_unit, Algorithm::CalendarWindow, settings)
    }
}

/// Returns the rule of a counter. Each unit has its own counter.
pub(super) fn counting(
    unit: RateUnit,
    requests_per_unit: u32,
    algorithm: Algorithm,
    settings: &EnvoySettings,
) -> Arc<Rule> {
    Arc::new(Rule::counting(
        unit.name().to_ascii_lowercase().as_bytes(),
        algorithm,
        requests_per_unit,
        unit.length(),
        settings.denial_cache,
        settings.on_store_failure,
    ))
}
