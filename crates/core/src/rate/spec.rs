//! The unchecked form of rules, and the only code that validates them.
//!
//! Requests and the configuration use the same specs, so both have the same bounds and defaults.
//! After a violation the validation continues with a valid number, so that callers get all
//! violations in one answer.
//!
//! # Ceilings
//! The *ceiling* of a limit is the count beyond which it refuses. For a limit without tiers it is
//! `max`, or the burst of a token bucket. On the first limit, the first THROTTLE or BAN tier lowers
//! it to the tier's `above`. A tier whose `above` is `max` replaces `max`. If that tier is WARN,
//! the next refusing tier is the ceiling; without one the limit has no ceiling.

use super::{
    Algorithm, BAN_DURATIONS_MAX, BAN_MEMORY, BUCKET_MAX, CALENDAR_MAX, COUNT_MAX, DAY, FILL_MAX,
    LENGTH_MAX, LIMITS_MAX, Limit, Rule, TIERS_MAX, Tier, TierAction, UTC_OFFSET_MAX,
    rule::NO_CEILING,
};
use crate::{denial::DENIAL_CACHE, fallback::OnStoreFailure, names::Name, time::Millis};

/// An unchecked rule, from a request or from the configuration.
#[derive(Debug, Clone, Default)]
pub struct RuleSpec {
    /// The limits: 1 to 8.
    pub limits: Vec<LimitSpec>,
    /// The tiers: 0 to 8, with rising `above`.
    pub tiers: Vec<TierSpec>,
    /// The UTC offset of calendar windows, in minutes.
    pub utc_offset: i32,
    /// How long after the end of a ban the next one counts as a further strike; `None` for the
    /// default.
    pub ban_memory: Option<Millis>,
    /// Maximum age of a cached refusal; `None` for the default.
    pub denial_cache: Option<Millis>,
    /// The answer while the store is unreachable.
    pub on_store_failure: OnStoreFailure,
}

/// An unchecked limit.
#[derive(Debug, Clone, Default)]
pub struct LimitSpec {
    /// The name of the limit within its rule; optional for a single limit.
    pub name: Vec<u8>,
    /// The maximum count per window; `None` for the first refusing tier's `above`.
    pub max: Option<u64>,
    /// The length of the window.
    pub window: Option<Millis>,
    /// The algorithm; `None` for a sliding window.
    pub algorithm: Option<Algorithm>,
    /// The burst of a token bucket; `None` for `max`.
    pub burst: Option<u64>,
}

/// An unchecked tier.
#[derive(Debug, Clone, Default)]
pub struct TierSpec {
    /// The tier applies above this count.
    pub above: Option<u64>,
    /// The action of the tier.
    pub action: Option<TierAction>,
    /// The durations of successive bans; empty for one window.
    pub ban_durations: Vec<Millis>,
}

/// An invalid field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The path of the field within the rule, such as `limits[0].max`.
    pub field: String,
    /// The description of valid values.
    pub description: String,
}

/// All violations found so far.
#[derive(Default)]
struct Violations(Vec<Violation>);

impl Violations {
    fn add(&mut self, field: String, description: impl Into<String>) {
        self.0.push(Violation { field, description: description.into() });
    }

    /// Checks that a number is within bounds. Returns `least` if not, so that the check can go on.
    fn number(&mut self, field: impl FnOnce() -> String, value: u64, least: u32, most: u32) -> u32 {
        match u32::try_from(value).ok().filter(|number| (least..=most).contains(number)) {
            Some(number) => number,
            None => {
                self.add(field(), format!("must be {least} to {most}"));
                least
            }
        }
    }
}

/// Whether a calendar window can have this length: each window then starts at the start of a day, or
/// a whole number of windows after it.
fn is_calendar(window: Millis) -> bool {
    let divides = window.0.is_multiple_of(1000) && DAY.0.is_multiple_of(window.0);
    divides || (window.0.is_multiple_of(DAY.0) && window <= CALENDAR_MAX)
}

impl RuleSpec {
    /// Validates the spec. Returns the rule, or all violations. The caller has checked the lengths
    /// of durations.
    pub fn build(self) -> Result<Rule, Vec<Violation>> {
        let mut bad = Violations::default();
        if self.limits.is_empty() || self.limits.len() > LIMITS_MAX {
            bad.add("limits".into(), format!("must be 1 to {LIMITS_MAX} limits"));
        }
        if self.tiers.len() > TIERS_MAX {
            bad.add("tiers".into(), format!("must be at most {TIERS_MAX} tiers"));
        }
        if !(-UTC_OFFSET_MAX..=UTC_OFFSET_MAX).contains(&self.utc_offset) {
            bad.add("utc_offset".into(), "must be -14h to 14h, whole minutes");
        }
        if !bad.0.is_empty() {
            return Err(bad.0);
        }
        let tiers = self.tiers(&mut bad);
        let limits: Vec<Limit> =
            (0..self.limits.len()).map(|index| self.limit(index, &tiers, &mut bad)).collect();
        let ban_memory = self.ban_memory.unwrap_or(BAN_MEMORY);
        let denial_cache = self.denial_cache.unwrap_or(DENIAL_CACHE);
        let (utc_offset, packed) = (self.utc_offset, Default::default());
        if !bad.0.is_empty() {
            return Err(bad.0);
        }
        let on_store_failure = self.on_store_failure;
        let mut rule =
            Rule { limits, tiers, utc_offset, ban_memory, denial_cache, on_store_failure, packed };
        rule.pack();
        Ok(rule)
    }

    /// Validates the tiers: `above` rises, and no action is milder than the one before.
    fn tiers(&self, bad: &mut Violations) -> Vec<Tier> {
        let mut tiers: Vec<Tier> = Vec::new();
        let window = self.limits.first().and_then(|limit| limit.window).unwrap_or_default();
        for (index, spec) in self.tiers.iter().enumerate() {
            let field = |name: &str| format!("tiers[{index}].{name}");
            let above = spec.above.unwrap_or_else(|| {
                bad.add(field("above"), format!("is required: 0 to {COUNT_MAX}"));
                0
            });
            let mut above = bad.number(|| field("above"), above, 0, COUNT_MAX);
            let mut action = spec.action.unwrap_or_else(|| {
                bad.add(field("action"), "is required, and must be WARN, THROTTLE or BAN");
                TierAction::Ban
            });
            if let Some(last) = tiers.last() {
                if above <= last.above && spec.above.is_some() {
                    bad.add(field("above"), "must be above that of the previous tier");
                    above = last.above;
                }
                if action < last.action {
                    bad.add(field("action"), "must not be milder than that of the previous tier");
                    action = last.action;
                }
            }
            let mut ban_durations = spec.ban_durations.clone();
            if action != TierAction::Ban && !ban_durations.is_empty() {
                bad.add(field("ban_durations"), "must be empty unless action is BAN");
            } else if ban_durations.len() > BAN_DURATIONS_MAX {
                bad.add(
                    field("ban_durations"),
                    format!("must be at most {BAN_DURATIONS_MAX} durations"),
                );
            } else if action == TierAction::Ban && ban_durations.is_empty() {
                ban_durations.push(window);
            }
            tiers.push(Tier { above, action, ban_durations });
        }
        tiers
    }

    /// Validates one limit and derives its ceiling: the count beyond which calls are refused.
    fn limit(&self, index: usize, tiers: &[Tier], bad: &mut Violations) -> Limit {
        let spec = &self.limits[index];
        let field = |name: &str| format!("limits[{index}].{name}");
        self.check_name(index, bad);
        let window = spec.window.unwrap_or_else(|| {
            bad.add(field("window"), "is required: 1ms to 30days");
            DAY
        });
        let algorithm = spec.algorithm.unwrap_or(Algorithm::SlidingWindow);
        let bucket = algorithm == Algorithm::TokenBucket;
        if algorithm == Algorithm::CalendarWindow {
            if !is_calendar(window) {
                let valid = "must be whole seconds that divide a day, or 1 to 365 whole days";
                bad.add(field("window"), valid);
            }
        } else if window > LENGTH_MAX {
            bad.add(field("window"), "must be 1ms to 30days; a CALENDAR_WINDOW up to 365days");
        }
        let tiers = if index == 0 { tiers } else { &[] };
        if bucket && !tiers.is_empty() {
            bad.add(field("algorithm"), "must not be TOKEN_BUCKET: tiers need a window's count");
        }
        let refuses =
            tiers.iter().find(|tier| tier.action != TierAction::Warn).map(|tier| tier.above);
        let most = if bucket { BUCKET_MAX } else { COUNT_MAX };
        let max = spec.max.or(refuses.map(u64::from)).unwrap_or_else(|| {
            bad.add(field("max"), format!("is required: 0 to {most}"));
            0
        });
        let max = bad.number(|| field("max"), max, 0, most);
        let burst = match spec.burst {
            Some(_) if !bucket => {
                bad.add(field("burst"), "is for TOKEN_BUCKET only");
                max
            }
            Some(burst) => bad.number(|| field("burst"), burst, 1, BUCKET_MAX),
            None => max,
        };
        let burst = if max == 0 { 0 } else { burst };
        let fill = u128::from(burst) * u128::from(window.0) / u128::from(max.max(1));
        if bucket && fill > u128::from(FILL_MAX.0) {
            bad.add(field("burst"), "must fill up within 366 days: burst * window / max");
        }
        // A tier that begins at `max` replaces the refusal at `max` by its own action.
        let replaced = tiers.iter().any(|tier| tier.above == max);
        let ceiling = match (max, replaced) {
            (0, _) => 0,
            (_, true) => refuses.unwrap_or(NO_CEILING),
            (_, false) => refuses.map_or(burst, |above| above.min(burst)),
        };
        let window_micros = window.micros() as i64;
        let shift = (i64::from(self.utc_offset) * 60_000_000).rem_euclid(window_micros.max(1));
        let name = spec.name.clone().into();
        Limit { name, algorithm, max, burst, window, ceiling, shift: shift as u64 }
    }

    /// Checks the name of a limit: required if there are several, and unique.
    fn check_name(&self, index: usize, bad: &mut Violations) {
        let name = &self.limits[index].name;
        let field = || format!("limits[{index}].name");
        if name.is_empty() {
            if self.limits.len() > 1 {
                bad.add(field(), "is required where a rule has several limits");
            }
        } else if let Err(description) = Name::parse(name.clone().into()) {
            bad.add(field(), description);
        } else if self.limits[..index].iter().any(|limit| limit.name == *name) {
            bad.add(field(), "must differ from the other limits' names");
        }
    }
}
