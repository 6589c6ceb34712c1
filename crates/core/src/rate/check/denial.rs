//! The cached refusal of a key.
//!
//! The cache may answer a call only if the store would refuse it in the same way and would count
//! nothing. A call that moves the key towards a stricter tier must reach the store: it affects the
//! answers to later calls.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use super::{Answer, CheckOutcome, CheckRate, LimitUse, Verdict};
use crate::{
    denial::{AffectsDenials, Effect, RefusalCaching},
    rate::{Rule, TierAction},
    time::{Millis, Timestamp},
};

/// The maximum packed size of a cacheable rule, in bytes. Rules of policies are shared, but rules
/// that come with calls are stored with the refusal.
const RULE_BYTES_MAX: usize = 1024;

/// A key that was refused, and the answer it got.
#[derive(Debug)]
pub struct RefusedKey {
    /// The rule that refused it. A call with another rule asks the store.
    rule: Arc<Rule>,
    /// The cost of the refused call.
    cost: u32,
    /// The answer, as of the time of the call.
    answer: Answer,
}

impl RefusalCaching for CheckRate {
    type Denial = RefusedKey;

    /// Calls with a request id are not cacheable: their answers are stored where all servers find
    /// them. Different rules on one key are cached separately.
    fn kind(&self) -> Option<u64> {
        let size: usize = self.rule.packed.iter().map(Vec::len).sum();
        let can_be = self.request.is_none() && self.rule.denial_cache.0 > 0;
        if !can_be || size > RULE_BYTES_MAX {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        self.rule.packed.hash(&mut hasher);
        Some(hasher.finish())
    }

    fn denial(&self, outcome: &CheckOutcome) -> Option<(RefusedKey, u64)> {
        let CheckOutcome::Decided { answer, replayed: false } = outcome else { return None };
        let holds = match answer.verdict {
            _ if self.is_peek() || self.has_changed(answer) => None,
            // If a limit has no room for longer than the ban lasts, the limit refuses the call
            // after the ban. The cached answer then says BAN instead of THROTTLE.
            Verdict::Throttle | Verdict::Ban => answer.retry_after,
            Verdict::Allow | Verdict::Warn => None,
        };
        // `retry_after` was rounded up, so subtract 1 ms: the cache must not refuse longer than the
        // store.
        let holds = Millis(holds?.0.saturating_sub(1)).micros();
        let denial =
            RefusedKey { rule: self.rule.clone(), cost: self.cost, answer: answer.clone() };
        (holds > 0).then_some((denial, holds.min(self.rule.denial_cache.micros())))
    }

    fn deny(&self, denial: &RefusedKey, passed: u64, _: Timestamp) -> Option<CheckOutcome> {
        let is_same = Arc::ptr_eq(&self.rule, &denial.rule) || self.rule == denial.rule;
        if !is_same || !self.is_refused_with(denial) {
            return None;
        }
        let left = |length: Millis| Millis(length.micros().saturating_sub(passed).div_ceil(1000));
        let limits = denial.answer.limits.iter();
        let limits = limits.map(|used| LimitUse { reset_after: left(used.reset_after), ..*used });
        let retry_after = denial.answer.retry_after.map(|wait| left(wait).max(Millis(1)));
        let answer = Answer { retry_after, limits: limits.collect(), ..denial.answer.clone() };
        Some(CheckOutcome::Decided { answer, replayed: false })
    }
}

impl AffectsDenials for CheckRate {
    /// A counted call may bring another call to a stricter tier.
    fn effect(&self, outcome: Option<&CheckOutcome>) -> Effect {
        let has_changed = match outcome {
            Some(CheckOutcome::Decided { answer, replayed: false }) => self.has_changed(answer),
            Some(_) => false,
            None => true,
        };
        Effect::frees(has_changed && !self.is_peek())
    }
}

impl CheckRate {
    /// Whether the call may have changed anything on which other answers depend. A key that is
    /// banned again within its window goes unnoticed here; its older cached refusals say THROTTLE
    /// instead of BAN.
    fn has_changed(&self, answer: &Answer) -> bool {
        match answer.verdict {
            _ if answer.crossed => true,
            Verdict::Allow | Verdict::Warn => true,
            Verdict::Throttle => self.may_have_counted(answer),
            Verdict::Ban => false,
        }
    }

    /// Whether a throttled call may have been counted towards a stricter tier. Further calls would
    /// be counted too. Only a count above the ceiling shows that.
    fn may_have_counted(&self, answer: &Answer) -> bool {
        let (Some(first), Some(limit)) = (answer.limits.first(), self.rule.limits.first()) else {
            return true;
        };
        let further = self.rule.level(first.count).map_or(0, |level| level + 1);
        let waits = self.rule.tiers[further..].last();
        waits.is_some_and(|tier| tier.action != TierAction::Warn)
            && self.cost <= limit.ceiling
            && first.count > u64::from(limit.ceiling)
    }

    /// Whether a call of this cost is refused in the same way as the cached call. That holds for the
    /// same cost, and for a higher cost that reaches no other tier and could pass later.
    fn is_refused_with(&self, denial: &RefusedKey) -> bool {
        let (asked, cost) = (self.cost.max(1), denial.cost);
        if asked <= cost || denial.answer.verdict == Verdict::Ban {
            return asked >= cost;
        }
        let count = denial.answer.limits.first().map_or(0, |used| used.count);
        let level = |cost: u32| self.rule.level(count + u64::from(cost));
        level(asked) == level(cost) && self.rule.limits.iter().all(|limit| asked <= limit.ceiling)
    }
}
