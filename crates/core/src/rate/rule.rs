//! Rules: limits, and tiers on the first limit.

use std::sync::Arc;

use serde::Deserialize;

use crate::{Cost, fallback::OnStoreFailure, time::Millis};

/// The minimum number of sub-buckets of a window. The maximum is 122.
const SUB_BUCKETS: u64 = 60;

/// The ceiling of a limit that refuses no call.
pub(super) const NO_CEILING: u32 = u32::MAX;
/// The largest count of a window. Lua numbers are doubles, which are exact up to it.
pub(super) const WINDOW_COUNT_MAX: u64 = (1 << 53) - 1;

/// A validated rule; [`super::RuleSpec::build`] creates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The limits: 1 to 8. A call must pass all of them.
    pub limits: Vec<Limit>,
    /// The tiers: 0 to 8, with rising `above`. They apply to the first limit.
    pub tiers: Vec<Tier>,
    /// The UTC offset of calendar windows, in minutes.
    pub utc_offset: i32,
    /// How long after the end of a ban the next one counts as a further strike.
    pub ban_memory: Millis,
    /// Maximum age of a cached refusal; 0 disables the denial cache.
    pub denial_cache: Millis,
    /// The answer while the store is unreachable.
    pub on_store_failure: OnStoreFailure,
    /// Limits and tiers in the packed form that the script reads.
    pub(super) packed: [Vec<u8>; 2],
}

/// A limit: at most `max` calls per window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The name of the limit within its rule. Shared by the counters of all keys, to save memory.
    pub name: Arc<[u8]>,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The maximum count per window.
    pub max: u32,
    /// The largest count at one moment: the burst of a token bucket, otherwise `max`.
    pub burst: u32,
    /// The length of the window.
    pub window: Millis,
    /// A call that would raise the count beyond this is refused.
    pub(super) ceiling: u32,
    /// Added to the time in µs before a calendar window divides it: the UTC offset.
    pub(super) shift: u64,
}

impl Limit {
    /// Whether the limit refuses a call of this cost, at this count.
    pub fn refuses(&self, count: u64, cost: u32) -> bool {
        self.ceiling != NO_CEILING && count + u64::from(cost) > u64::from(self.ceiling)
    }
}

/// The algorithm of a limit. The number is used by the scripts and in stored usage, the name in the
/// configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[repr(u8)]
pub enum Algorithm {
    /// A window starts with its first call.
    FixedWindow = 1,
    /// Windows start at multiples of their length on the clock.
    CalendarWindow = 2,
    /// At most `max` in any interval of the window's length.
    SlidingWindow = 3,
    /// GCRA: a sustained rate with a burst.
    TokenBucket = 4,
}

/// A level on the first limit of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tier {
    /// The tier applies above this count.
    pub above: u32,
    /// The action of the tier.
    pub action: TierAction,
    /// The durations of the first ban, the second, and so on; the last one repeats. At least one
    /// for `Ban`, none for other actions.
    pub ban_durations: Vec<Millis>,
}

/// The action of a tier, the mildest first, named as in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TierAction {
    /// Allows the call, with a warning.
    Warn,
    /// Refuses the call.
    Throttle,
    /// Refuses all calls of the key for a time.
    Ban,
}

impl Tier {
    /// Returns the duration of the ban for this strike; the first strike is 1.
    pub(super) fn ban_duration(&self, strike: u32) -> Millis {
        let last = self.ban_durations.len().saturating_sub(1);
        let index = (strike.max(1) as usize - 1).min(last);
        self.ban_durations.get(index).copied().unwrap_or_default()
    }
}

impl Rule {
    /// Returns the index of the highest tier whose `above` is below `count`.
    pub(super) fn level(&self, count: u64) -> Option<usize> {
        self.tiers.iter().rposition(|tier| u64::from(tier.above) < count)
    }

    /// Redis time to read the usage: a sliding window reads its buckets, the others a few numbers.
    pub(super) fn cost(&self) -> Cost {
        let limits = self.limits.iter().map(|limit| match limit.algorithm {
            Algorithm::SlidingWindow => 55,
            _ => 5,
        });
        Cost::from_micros(15 + limits.sum::<u32>())
    }

    /// Redis time of a check in the plain script.
    pub(super) fn plain_cost(&self) -> Cost {
        let is_sliding = self.limits.iter().any(|it| it.algorithm == Algorithm::SlidingWindow);
        Cost::from_micros(if is_sliding { 60 } else { 8 })
    }

    /// Packs limits and tiers in the form that `lua/lib/limits.lua` and `lua/lib/tiers.lua` read.
    pub(super) fn pack(&mut self) {
        let (mut limits, mut tiers) = (Vec::new(), Vec::new());
        for limit in &self.limits {
            limits.extend_from_slice(&limit.name);
            limits.push(0);
            limits.push(limit.algorithm as u8);
            limits.extend_from_slice(&limit.ceiling.to_le_bytes());
            limits.extend_from_slice(&limit.window.micros().to_le_bytes());
            limits.extend_from_slice(&limit.extra().to_le_bytes());
        }
        for tier in &self.tiers {
            tiers.extend_from_slice(&tier.above.to_le_bytes());
            tiers.push(tier.action as u8 + 1);
            tiers.push(tier.ban_durations.len() as u8);
            for duration in &tier.ban_durations {
                tiers.extend_from_slice(&duration.micros().to_le_bytes());
            }
        }
        self.packed = [limits, tiers];
    }
}

impl Limit {
    /// Returns the length of a sub-bucket of a sliding window, µs: the largest power of two that is
    /// at most a sixtieth of the window.
    pub(super) fn bucket_width(&self) -> u64 {
        1 << (self.window.micros() / SUB_BUCKETS).max(1).ilog2()
    }

    /// Whether sums of two debts of this token bucket are exact in a double. The plain script counts
    /// debts in the largest possible unit: it divides window and `max` by their greatest common
    /// divisor.
    pub(super) fn has_exact_debt(&self) -> bool {
        let (window, max) = (self.window.micros(), u64::from(self.max));
        let fits = |unit| u128::from(self.ceiling) * u128::from(window / unit) <= 1 << 52;
        max > 0 && (fits(1) || fits(common_divisor(window, max)))
    }

    /// Returns the number that only this algorithm needs.
    fn extra(&self) -> u64 {
        match self.algorithm {
            Algorithm::FixedWindow => 0,
            Algorithm::CalendarWindow => self.shift,
            Algorithm::SlidingWindow => self.bucket_width(),
            Algorithm::TokenBucket => self.max.into(),
        }
    }
}

/// Returns the greatest common divisor of two numbers above 0, by Euclid's algorithm.
fn common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}
