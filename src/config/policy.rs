//! `[[policy]]` of `tollgate.toml`.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Deserializer, de::Error};

use super::value::{denial_cache, length, namespace, parse_length, utc_offset};
use tollgate_core::{
    fallback::OnStoreFailure,
    names::Name,
    rate::{
        Algorithm, CALENDAR_MAX, LENGTH_MAX, LENGTH_MIN, LimitSpec, Override, Policies, Policy,
        Rule, RuleSpec, TierAction, TierSpec,
    },
    time::Millis,
};

/// `[[policy]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyEntry {
    name: String,
    namespace: Option<String>,
    #[serde(default)]
    limit: Vec<LimitEntry>,
    #[serde(default)]
    tier: Vec<TierEntry>,
    #[serde(default, deserialize_with = "utc_offset")]
    utc_offset: i32,
    #[serde(default, deserialize_with = "ban_memory")]
    ban_memory: Option<Millis>,
    #[serde(default, deserialize_with = "denial_cache")]
    denial_cache: Option<Millis>,
    #[serde(default)]
    on_store_failure: OnStoreFailure,
    #[serde(default)]
    r#override: Vec<OverrideEntry>,
}

/// `[[policy.limit]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitEntry {
    #[serde(default)]
    name: String,
    max: Option<u64>,
    #[serde(deserialize_with = "window")]
    window: Millis,
    algorithm: Option<Algorithm>,
    burst: Option<u64>,
}

/// `[[policy.tier]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct TierEntry {
    above: u64,
    action: TierAction,
    #[serde(default, deserialize_with = "ban_durations")]
    ban_durations: Vec<Millis>,
}

/// `[[policy.override]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct OverrideEntry {
    r#match: String,
    limit: Option<Vec<LimitEntry>>,
    tier: Option<Vec<TierEntry>>,
}

/// Checks and builds all policies. The error names the key and the expected value.
pub(super) fn policies(entries: &[PolicyEntry]) -> Result<Policies, String> {
    let (mut policies, mut names) = (Vec::new(), BTreeSet::new());
    for (index, entry) in entries.iter().enumerate() {
        let path = format!("policy[{index}]");
        let name = Name::parse(entry.name.clone().into())
            .map_err(|expected| format!("{path}.name = \"{}\": {expected}", entry.name))?;
        namespace(&format!("{path}.namespace"), entry.namespace.as_deref())?;
        if !names.insert((&entry.name, &entry.namespace)) {
            return Err(format!(
                "{path}.name = \"{name}\": another policy has this name; choose another name or \
                 namespace"
            ));
        }
        let rule = Arc::new(entry.rule(&path, &entry.limit, &entry.tier)?);
        let overrides = entry.r#override.iter().enumerate().map(|(number, one)| {
            let path = format!("{path}.override[{number}]");
            let limits = one.limit.as_ref().unwrap_or(&entry.limit);
            let tiers = one.tier.as_ref().unwrap_or(&entry.tier);
            let rule = Arc::new(entry.rule(&path, limits, tiers)?);
            let pattern = one.r#match.clone();
            globset::Glob::new(&pattern)
                .map_err(|error| format!("{path}.match: not a glob: {error}"))?;
            Ok(Override { pattern, rule })
        });
        let overrides = overrides.collect::<Result<_, String>>()?;
        policies.push(Policy { name, namespace: entry.namespace.clone(), rule, overrides });
    }
    Policies::new(policies).map_err(|error| format!("policy: not a glob: {error}"))
}

impl PolicyEntry {
    /// Builds a rule from its limits and tiers. The error lists all violations.
    fn rule(&self, path: &str, limits: &[LimitEntry], tiers: &[TierEntry]) -> Result<Rule, String> {
        let spec = RuleSpec {
            limits: limits.iter().map(LimitSpec::from).collect(),
            tiers: tiers.iter().map(TierSpec::from).collect(),
            utc_offset: self.utc_offset,
            ban_memory: self.ban_memory,
            denial_cache: self.denial_cache,
            on_store_failure: self.on_store_failure,
        };
        spec.build().map_err(|violations| {
            // The rule names its fields in the plural, the file in the singular.
            let all = violations.iter().map(|bad| {
                let field = bad.field.replace("limits", "limit").replace("tiers", "tier");
                format!("{path}.{field}: {}", bad.description)
            });
            all.collect::<Vec<_>>().join("; ")
        })
    }
}

impl From<&LimitEntry> for LimitSpec {
    fn from(entry: &LimitEntry) -> LimitSpec {
        let LimitEntry { name, max, window, algorithm, burst } = entry.clone();
        LimitSpec { name: name.into_bytes(), max, window: Some(window), algorithm, burst }
    }
}

impl From<&TierEntry> for TierSpec {
    fn from(entry: &TierEntry) -> TierSpec {
        let TierEntry { above, action, ban_durations } = entry.clone();
        TierSpec { above: Some(above), action: Some(action), ban_durations }
    }
}

fn window<'de, D: Deserializer<'de>>(d: D) -> Result<Millis, D::Error> {
    let text = String::deserialize(d)?;
    let length = parse_length(&text).filter(|ms| (LENGTH_MIN..=CALENDAR_MAX).contains(ms));
    length.ok_or_else(|| {
        D::Error::custom(format!(
            "window = \"{text}\": expected a duration of 1ms to 30days, or up to 365days for a \
             CALENDAR_WINDOW, such as \"90s\""
        ))
    })
}

fn ban_memory<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Millis>, D::Error> {
    length(d, "ban_memory", LENGTH_MIN..=LENGTH_MAX).map(Some)
}

fn ban_durations<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Millis>, D::Error> {
    let texts = Vec::<String>::deserialize(d)?;
    let read = |text: &String| {
        let length = parse_length(text).filter(|ms| (LENGTH_MIN..=LENGTH_MAX).contains(ms));
        length.ok_or_else(|| {
            D::Error::custom(format!(
                "ban_durations = \"{text}\": expected durations of 1ms to 30days, such as \"5m\""
            ))
        })
    };
    texts.iter().map(read).collect()
}
