//! Rules: limits, and tiers on the first of them.

use std::sync::Arc;

use crate::{degradation::OnStoreFailure, time::Millis};

/// The ceiling of a limit that refuses nobody: counts saturate at it.
pub(super) const NO_CEILING: u32 = u32::MAX;

/// A rule that has been checked; [`super::RuleSpec::build`] makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// 1 to 8, decided in one step.
    pub limits: Vec<Limit>,
    /// 0 to 8, rising.
    pub tiers: Vec<Tier>,
    /// What calendar windows add to UTC, in minutes.
    pub utc_offset: i32,
    /// How long after a ban's end the next one counts as a further strike.
    pub ban_memory: Millis,
    /// How long a server remembers a refusal, at most; 0 for not.
    pub denial_cache: Millis,
    /// What calls are answered while the store cannot be asked.
    pub on_store_failure: OnStoreFailure,
    /// Limits and tiers as the script reads them.
    pub(super) packed: [Vec<u8>; 2],
}

/// At most so many in so long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Tells the limits of a rule apart; shared by the counters of all keys.
    pub name: Arc<[u8]>,
    /// How it is counted.
    pub algorithm: Algorithm,
    /// How many may pass in a window.
    pub max: u32,
    /// How many may pass at once: a token bucket's burst, else `max`.
    pub burst: u32,
    /// The window.
    pub window: Millis,
    /// Beyond this count a call is refused.
    pub(super) ceiling: u32,
    /// What a calendar window adds to the time before it divides, in µs.
    pub(super) shift: u64,
}

/// How a limit counts, and its number in the scripts and in what they store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Algorithm {
    /// A window starts with its first hit.
    FixedWindow = 1,
    /// Windows of the clock.
    CalendarWindow = 2,
    /// Never more than `max` in any interval of the window's length.
    SlidingWindow = 3,
    /// GCRA.
    TokenBucket = 4,
}

/// A level on a rule's first limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tier {
    /// It begins beyond this count.
    pub above: u32,
    /// What happens from there on.
    pub action: TierAction,
    /// How long a ban runs: the first, the second, …; the last one repeats.
    /// At least one on a ban, none on other tiers.
    pub ban_durations: Vec<Millis>,
}

/// What a tier does, the mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TierAction {
    /// Lets the call pass, and says so.
    Warn,
    /// Refuses the call.
    Throttle,
    /// Refuses all calls of the key for a time.
    Ban,
}

impl Tier {
    /// How long the ban of this strike runs, the first being 1.
    pub(super) fn ban_duration(&self, strike: u32) -> Millis {
        let last = self.ban_durations.len().saturating_sub(1);
        let index = (strike.max(1) as usize - 1).min(last);
        self.ban_durations.get(index).copied().unwrap_or_default()
    }
}

impl Rule {
    /// The index of the tier that a count has reached.
    pub(super) fn level(&self, count: u64) -> Option<usize> {
        self.tiers.iter().rposition(|tier| u64::from(tier.above) < count)
    }

    /// Puts down limits and tiers as `lua/lib/limits.lua` and
    /// `lua/lib/tiers.lua` read them.
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
    /// The number that only this algorithm needs.
    fn extra(&self) -> u64 {
        match self.algorithm {
            Algorithm::FixedWindow => 0,
            Algorithm::CalendarWindow => self.shift,
            Algorithm::SlidingWindow => super::sliding_window::width(self.window.micros()),
            Algorithm::TokenBucket => self.max.into(),
        }
    }
}
