//! Judges one check: the limits of a rule against what is used of them.

use super::{
    CheckRate, Meter, Rule, Tier, TierAction, Verdict,
    ban::BanRecord,
    meter::{Loaded, Notices},
    usage::Usage,
};
use crate::time::Timestamp;

/// A check under way: what is used before and, if it passes, after it.
pub(super) struct Judge<'a> {
    rule: &'a Rule,
    cost: u32,
    /// Whether nothing is to change.
    look: bool,
    now: Timestamp,
    pub(super) usages: Vec<Usage>,
    pub(super) notices: Notices,
    /// Whether there is anything to put down.
    pub(super) changed: bool,
}

/// What came of it.
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    pub(super) crossed: bool,
    /// When the same call passes, in µs; 0 if it does.
    pub(super) wait: u64,
    /// The ban in force.
    pub(super) ban: Option<BanRecord>,
    /// Whether this call set it.
    pub(super) banned: bool,
    /// Above which count the tier begins that is reached with this call, and the count.
    pub(super) reached: Option<(u32, u64)>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(
        check: &'a CheckRate,
        look: bool,
        meter: &Meter,
        now: Timestamp,
    ) -> Judge<'a> {
        let rule = &*check.rule;
        let Loaded { usages, notices, moved } = meter.load(rule, now);
        Judge { rule, cost: check.cost.max(1), look, now, usages, notices, changed: moved && !look }
    }

    /// Judges a key whose last ban is known.
    pub(super) fn judge(&mut self, known: Option<&BanRecord>) -> Judgement {
        let tier = self.tier();
        let reached = tier.map(|(_, tier, total)| (tier.above, total));
        if let Some(ban) = known.filter(|ban| ban.until > self.now) {
            let wait = (ban.until.0 - self.now.0).max(self.longest_wait(0));
            let (verdict, ban) = (Verdict::Ban, Some(ban.clone()));
            return Judgement { verdict, crossed: false, wait, ban, banned: false, reached };
        }
        if let Some((level, tier, _)) = tier.filter(|(_, tier, _)| tier.action == TierAction::Ban) {
            let strikes = known.map_or(0, |ban| ban.strikes).saturating_add(1);
            let length = tier.ban_duration(strikes);
            let wait = length.micros().max(self.longest_wait(0));
            let reason = format!("above {}", tier.above).into_bytes();
            let memory = self.rule.ban_memory;
            let ban = BanRecord::new(self.now, length, memory, strikes, reason);
            let (crossed, ban) = (self.cross(level), Some(ban).filter(|_| !self.look));
            let banned = ban.is_some();
            return Judgement { verdict: Verdict::Ban, crossed, wait, ban, banned, reached };
        }
        let (verdict, crossed, wait) =
            self.count(tier.map(|(level, tier, _)| (level, tier.action)));
        Judgement { verdict, crossed, wait, ban: None, banned: false, reached }
    }

    /// Judges a key that is not banned, and whose count reaches no ban.
    fn count(&mut self, tier: Option<(usize, TierAction)>) -> (Verdict, bool, u64) {
        let (first, others) = (self.wait(0), self.longest_wait(1));
        if others > 0 {
            return (Verdict::Throttle, false, others.max(first));
        }
        if first > 0 {
            let further = &self.rule.tiers[tier.map_or(0, |(level, _)| level + 1)..];
            // Only so does a count that is throttled ever reach a further tier;
            // the last one is the least mild.
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

    /// Whether a call of this cost ever passes.
    fn fits(&self, index: usize) -> bool {
        self.cost <= self.rule.limits[index].ceiling
    }

    fn wait(&self, index: usize) -> u64 {
        self.usages[index].wait(&self.rule.limits[index], self.cost, self.now)
    }

    fn longest_wait(&self, first: usize) -> u64 {
        (first..self.usages.len()).map(|index| self.wait(index)).max().unwrap_or(0)
    }

    /// The tier that the count reaches with this call, its index, and the count.
    fn tier(&self) -> Option<(usize, &'a Tier, u64)> {
        if self.rule.tiers.is_empty() {
            return None;
        }
        let total = u64::from(self.usages[0].count(self.now)) + u64::from(self.cost);
        self.rule.level(total).map(|level| (level, &self.rule.tiers[level], total))
    }

    /// Counts the call on the first so many limits.
    fn spend(&mut self, limits: usize) {
        if !self.look {
            for usage in &mut self.usages[..limits] {
                usage.spend(self.cost, self.now);
            }
            self.changed = true;
        }
    }

    /// Whether this call is the first of its window on a level. The levels
    /// below are passed with it.
    fn cross(&mut self, level: usize) -> bool {
        if self.look || self.notices.contains(self.rule.tiers[level].above) {
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
