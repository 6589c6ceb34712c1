//! Evaluates one check: the limits of a rule against the usage of a key. The twin of
//! `lua/lib/evaluate.lua`.
//!
//! An evaluation works on copies of the usage; a peek (cost 0) drops them. A *level* is the index
//! of the highest tier that the count passes with this call. A notice per tier and window makes
//! sure that only the first call above a tier reports `crossed`.

use super::{
    super::{
        Meter, Rule, Tier, TierAction, Verdict,
        ban_record::BanRecord,
        meter::{Loaded, Notices},
        usage::Usage,
    },
    CheckRate,
};
use crate::time::Timestamp;

/// An evaluation: the usage before the call, and after it if it passes.
pub(super) struct Evaluation<'a> {
    rule: &'a Rule,
    cost: u32,
    /// Whether the evaluation must change nothing.
    is_peek: bool,
    now: Timestamp,
    /// The usage of each limit.
    pub(super) usages: Vec<Usage>,
    /// The notices of the first limit.
    pub(super) notices: Notices,
    /// Whether the usage must be stored.
    pub(super) changed: bool,
}

/// The result of an evaluation.
pub(super) struct Evaluated {
    /// The verdict.
    pub(super) verdict: Verdict,
    /// Whether this call is the first above a tier in its window.
    pub(super) crossed: bool,
    /// Time in µs until the same call passes; 0 if it passes now.
    pub(super) wait: u64,
    /// The ban in force.
    pub(super) ban: Option<BanRecord>,
    /// Whether this call set the ban.
    pub(super) banned: bool,
    /// The threshold of the tier that this call reaches, and the count with this call.
    pub(super) reached: Option<(u32, u64)>,
}

impl<'a> Evaluation<'a> {
    /// Loads the usage of a key. Cost 0 is evaluated like 1.
    pub(super) fn new(
        check: &'a CheckRate,
        is_peek: bool,
        meter: &Meter,
        now: Timestamp,
    ) -> Evaluation<'a> {
        let rule = &*check.rule;
        let Loaded { usages, notices, moved } = meter.load(rule, now);
        Evaluation {
            rule,
            cost: check.cost.max(1),
            is_peek,
            now,
            usages,
            notices,
            changed: moved && !is_peek,
        }
    }

    /// Evaluates the check. `known` is the key's last ban, in force or not.
    pub(super) fn evaluate(&mut self, known: Option<&BanRecord>) -> Evaluated {
        let tier = self.tier();
        let reached = tier.map(|(_, tier, total)| (tier.above, total));
        if let Some(ban) = known.filter(|ban| ban.until > self.now) {
            // The call passes when the ban has ended and all limits have room.
            let wait = (ban.until.0 - self.now.0).max(self.longest_wait(0));
            let (verdict, ban) = (Verdict::Ban, Some(ban.clone()));
            return Evaluated { verdict, crossed: false, wait, ban, banned: false, reached };
        }
        if let Some((level, tier, _)) = tier.filter(|(_, tier, _)| tier.action == TierAction::Ban) {
            let strikes = known.map_or(0, |ban| ban.strikes).saturating_add(1);
            let length = tier.ban_duration(strikes);
            let wait = length.micros().max(self.longest_wait(0));
            let reason = format!("above {}", tier.above).into_bytes();
            let memory = self.rule.ban_memory;
            let ban = BanRecord::new(self.now, length, memory, strikes, reason);
            let (crossed, ban) = (self.cross(level), Some(ban).filter(|_| !self.is_peek));
            let banned = ban.is_some();
            return Evaluated { verdict: Verdict::Ban, crossed, wait, ban, banned, reached };
        }
        let (verdict, crossed, wait) =
            self.count(tier.map(|(level, tier, _)| (level, tier.action)));
        Evaluated { verdict, crossed, wait, ban: None, banned: false, reached }
    }

    /// Evaluates a key that is not banned and reaches no BAN tier.
    fn count(&mut self, tier: Option<(usize, TierAction)>) -> (Verdict, bool, u64) {
        let (first, others) = (self.wait(0), self.longest_wait(1));
        if others > 0 {
            // Another limit refuses: nothing is counted, so no tier is reached.
            return (Verdict::Throttle, false, others.max(first));
        }
        if first > 0 {
            let further = &self.rule.tiers[tier.map_or(0, |(level, _)| level + 1)..];
            // Count the refused call on the first limit: otherwise a throttled key would never
            // reach a stricter tier. The last tier is the strictest.
            if further.last().is_some_and(|tier| tier.action != TierAction::Warn) && self.fits(0) {
                self.spend(1);
            }
            let crossed = match tier {
                Some((level, TierAction::Throttle)) => self.cross(level),
                _ => false,
            };
            return (Verdict::Throttle, crossed, self.wait(0));
        }
        self.spend(self.usages.len());
        match tier {
            Some((level, _)) => (Verdict::Warn, self.cross(level), 0),
            None => (Verdict::Allow, false, 0),
        }
    }

    /// Whether a call of this cost can ever pass this limit.
    fn fits(&self, index: usize) -> bool {
        self.cost <= self.rule.limits[index].ceiling
    }

    /// Returns the time in µs until the call passes this limit.
    fn wait(&self, index: usize) -> u64 {
        self.usages[index].wait(&self.rule.limits[index], self.cost, self.now)
    }

    /// Returns the longest wait over the limits from `first` on.
    fn longest_wait(&self, first: usize) -> u64 {
        (first..self.usages.len()).map(|index| self.wait(index)).max().unwrap_or(0)
    }

    /// Returns the tier that the count reaches with this call: its index, the tier, and the count.
    fn tier(&self) -> Option<(usize, &'a Tier, u64)> {
        if self.rule.tiers.is_empty() {
            return None;
        }
        let total = self.usages[0].count(self.now) + u64::from(self.cost);
        self.rule.level(total).map(|level| (level, &self.rule.tiers[level], total))
    }

    /// Counts the call on the first `limits` limits.
    fn spend(&mut self, limits: usize) {
        if !self.is_peek {
            for usage in &mut self.usages[..limits] {
                usage.spend(self.cost, self.now);
            }
            self.changed = true;
        }
    }

    /// Records the notice for a tier and all tiers below. Returns whether this call is the first
    /// one of the window to reach the tier.
    fn cross(&mut self, level: usize) -> bool {
        if self.is_peek || self.notices.contains(self.rule.tiers[level].above) {
            return false;
        }
        for tier in &self.rule.tiers[..=level] {
            if !self.notices.contains(tier.above) {
                self.notices.add(tier.above, self.now);
            }
        }
        self.changed = true;
        true
    }
}
