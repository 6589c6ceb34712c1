//! Lines of rates.

use serde::{Deserialize, Serialize};

use super::Text;

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
