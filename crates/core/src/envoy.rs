//! Rules for Envoy's rate limit service, in the YAML format of envoyproxy/ratelimit.
//!
//! A *domain* is a tree of rules. A *descriptor* is a list of entries (key and value); each level
//! of the tree matches one entry, and the rule at the depth of the last entry applies.
//! [`CountHits`](crate::rate::CountHits) and [`CountAll`](crate::rate::CountAll) do the counting.
//! This module selects the rules ([`Domain::find`]) and combines their counts into one answer
//! ([`Ruling::from_descriptors`]).

mod counters;
mod explain;
mod metadata;
mod metric;
mod name;
mod node;
mod rule;
mod ruling;
mod settings;
mod tree;
mod unit;
mod wildcard;
mod yaml;

pub use counters::{NOT_FOUND, RuleCounters, RuleHits, SERIES_MAX, series};
pub use explain::explain;
pub use metadata::merge;
pub use name::{counter_name, policy_name};
pub use node::Found;
pub use rule::{EnvoyRule, LimitOverride};
pub use ruling::{DescriptorHits, DescriptorLimit, DescriptorRuling, Ruling, can_quotas_refuse};
pub use settings::{Counting, EnvoySettings, Headers};
pub use tree::{Domain, EnvoyRules, RuleFile};
pub use unit::RateUnit;
