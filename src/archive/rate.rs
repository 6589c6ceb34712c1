//! Lines of rates.

use serde::{Deserialize, Serialize};

use super::{Checked, Text};

/// The usage and the ban of a key. Without a policy, the rule comes with each call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<Text>,
    pub(crate) key: Text,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) counters: Vec<CounterLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ban: Option<BanLine>,
}

/// The usage of the limit with one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CounterLine {
    pub(crate) limit: Text,
    pub(crate) usage: UsageLine,
    /// The levels whose notice was sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notices: Vec<NoticeLine>,
    pub(crate) forget: u64,
}

/// Usage, by algorithm. Instants are µs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "algorithm", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum UsageLine {
    FixedWindow {
        start: u64,
        count: u32,
    },
    CalendarWindow {
        start: u64,
        count: u32,
    },
    /// Buckets of `width` µs. Each bucket has a number, which is its instant divided by `width`,
    /// and a count.
    SlidingWindow {
        width: u64,
        buckets: Vec<(u64, u32)>,
    },
    /// The theoretical arrival time: `tat` µs plus `part`/`max` µs. `max` and `window` (µs) are the
    /// numbers of the limit at the instant `seen`.
    TokenBucket {
        tat: u64,
        part: u32,
        max: u32,
        window: u64,
        seen: u64,
    },
}

/// A warn or ban level, and when its notice was sent, µs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoticeLine {
    pub(crate) above: u32,
    pub(crate) at: u64,
}

/// A ban. Within a replay-cache entry it has no `forget`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BanLine {
    pub(crate) until: u64,
    /// Until when its strikes count, µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) forget: Option<u64>,
    pub(crate) strikes: u32,
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub(crate) reason: Text,
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub(crate) actor: Text,
}

/// A replay-cache entry: the answer to a rate request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<Text>,
    pub(crate) key: Text,
    pub(crate) request: Text,
    pub(crate) verdict: VerdictName,
    #[serde(default)]
    pub(crate) crossed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ban: Option<BanLine>,
    pub(crate) limits: Vec<LimitLine>,
    pub(crate) forget: u64,
}

/// The usage of one limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitLine {
    pub(crate) count: u32,
    pub(crate) reset_after_ms: u64,
}

/// The verdict of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum VerdictName {
    Allow,
    Warn,
    Throttle,
    Ban,
}

impl RateLine {
    /// When all usage and the ban have expired, µs.
    pub(crate) fn forget(&self) -> u64 {
        let counters = self.counters.iter().map(|counter| counter.forget);
        let ban = self.ban.as_ref().and_then(|ban| ban.forget);
        counters.chain(ban).max().unwrap_or(0)
    }

    pub(super) fn check(&self, checked: &mut Checked) {
        check_key(self.policy.as_ref(), &self.key, checked);
        checked.at_most("counters", self.counters.len() as u64, crate::rate::NAMES_MAX as u64);
        for counter in &self.counters {
            checked.part("limit", &counter.limit);
            checked.times([("forget", counter.forget)]);
            checked.at_most("notices", counter.notices.len() as u64, 32);
            counter.notices.iter().for_each(|notice| checked.times([("at", notice.at)]));
            counter.usage.check(checked);
        }
        if let Some(ban) = &self.ban {
            ban.check(checked);
            if ban.forget.is_none() {
                checked.refuse("the ban's forget is missing".to_owned());
            }
        }
    }
}

impl UsageLine {
    /// Checks that the numbers describe a state that the algorithm can reach.
    fn check(&self, checked: &mut Checked) {
        match self {
            UsageLine::FixedWindow { start, .. } | UsageLine::CalendarWindow { start, .. } => {
                checked.times([("start", *start)]);
            }
            UsageLine::SlidingWindow { width, buckets } => {
                let last = buckets.last().map_or(0, |(number, _)| *number);
                checked.at_most("buckets", buckets.len() as u64, 255);
                checked.times([("buckets", last.saturating_mul(*width))]);
                let first = buckets.first().map_or(0, |(number, _)| *number);
                let rises = buckets.is_sorted_by(|(one, _), (next, _)| one < next);
                if *width == 0 || !rises || last - first.min(last) > 255 {
                    checked.refuse("buckets are none of a window".to_owned());
                }
            }
            UsageLine::TokenBucket { tat, part, max, window, seen } => {
                checked.times([("tat", *tat), ("seen", *seen), ("window", *window)]);
                let fits = *max > *part || *max == 0 && *part == 0;
                if !fits
                    || *window == 0
                    || tat.saturating_sub(*seen) > crate::rate::FILL_MAX.micros()
                {
                    checked.refuse("tat, part, max and window do not fit".to_owned());
                }
            }
        }
    }
}

impl BanLine {
    fn check(&self, checked: &mut Checked) {
        checked.times([("until", self.until), ("forget", self.forget.unwrap_or(0))]);
        checked.part("reason", &self.reason);
        checked.part("actor", &self.actor);
    }
}

impl AnswerLine {
    pub(super) fn check(&self, checked: &mut Checked) {
        check_key(self.policy.as_ref(), &self.key, checked);
        checked.name("request", &self.request);
        checked.times([("forget", self.forget)]);
        checked.times([("retry_after_ms", self.retry_after_ms.unwrap_or(0))]);
        checked.at_most("limits", self.limits.len() as u64, crate::rate::LIMITS_MAX as u64);
        let resets = self.limits.iter().map(|limit| limit.reset_after_ms);
        resets.for_each(|reset| checked.times([("reset_after_ms", reset)]));
        if let Some(ban) = &self.ban {
            ban.check(checked);
        }
    }
}

fn check_key(policy: Option<&Text>, key: &Text, checked: &mut Checked) {
    if let Some(policy) = policy {
        checked.name("policy", policy);
    }
    checked.name("key", key);
}
