//! The fallback for rates: answers while the store is unreachable.
//!
//! A share starts without usage, so a key that the store has throttled can call again, and bans in
//! the store are unknown here. That is the price of answering without the store.

use std::sync::Arc;

use super::{Answer, CheckOutcome, CheckRate, Rule, Verdict, rule::NO_CEILING};
use crate::{
    fallback::{FallbackRule, OnStoreFailure, divide},
    time::Millis,
};

/// `retry_after` of a refusal by the fallback.
pub(super) const RETRY: Millis = Millis(1000);

impl Rule {
    /// Returns the rule for one of `replicas` servers, with limits and tier thresholds divided
    /// among them.
    fn for_one_of(&self, replicas: u32) -> Rule {
        let mut rule = self.clone();
        for limit in &mut rule.limits {
            for number in [&mut limit.max, &mut limit.burst, &mut limit.ceiling] {
                if *number != NO_CEILING {
                    *number = divide(*number, replicas);
                }
            }
        }
        rule.tiers.iter_mut().for_each(|tier| tier.above = divide(tier.above, replicas));
        rule.pack();
        rule
    }
}

impl CheckRate {
    pub(super) const FALLBACK: FallbackRule<CheckRate> =
        FallbackRule::new(CheckRate::on_store_failure, CheckRate::refused, CheckRate::for_one_of);

    /// As configured for the policy. Checks whose rule comes with the call fail.
    pub(super) fn on_store_failure(&self) -> OnStoreFailure {
        self.rule.on_store_failure
    }

    /// The refusal reports no usage, because none is known.
    pub(super) fn refused(&self) -> Option<CheckOutcome> {
        let (verdict, retry_after) = (Verdict::Throttle, Some(RETRY));
        let answer = Answer { verdict, crossed: false, retry_after, ban: None, limits: Vec::new() };
        Some(CheckOutcome::Decided { answer, replayed: false })
    }

    /// The share divides the limits of the rule, not the cost of a call. A call whose cost is above
    /// the share is refused.
    pub(super) fn for_one_of(&self, replicas: u32) -> CheckRate {
        let rule = match replicas {
            1 => self.rule.clone(),
            _ => Arc::new(self.rule.for_one_of(replicas)),
        };
        CheckRate { rule, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::{Algorithm, LimitSpec, RuleSpec, TierAction, TierSpec};

    fn limit(name: &str, max: Option<u64>, algorithm: Algorithm) -> LimitSpec {
        let (name, window) = (name.into(), Some(Millis(60_000)));
        LimitSpec { name, max, window, algorithm: Some(algorithm), burst: None }
    }

    #[test]
    fn all_numbers_of_a_rule_are_divided_and_none_stays_none() {
        let tier = |above, action| TierSpec {
            above: Some(above),
            action: Some(action),
            ban_durations: Vec::new(),
        };
        let limits = vec![
            limit("first", None, Algorithm::SlidingWindow),
            limit("second", Some(0), Algorithm::FixedWindow),
            LimitSpec { burst: Some(30), ..limit("third", Some(3), Algorithm::TokenBucket) },
        ];
        let tiers = vec![tier(10, TierAction::Warn), tier(20, TierAction::Ban)];
        let rule = RuleSpec { limits, tiers, ..RuleSpec::default() }.build().expect("a rule");
        let shared = rule.for_one_of(7);
        let numbers = |rule: &Rule| -> Vec<[u32; 3]> {
            rule.limits.iter().map(|limit| [limit.max, limit.burst, limit.ceiling]).collect()
        };
        assert_eq!(numbers(&rule), [[20, 20, 20], [0, 0, 0], [3, 30, 30]]);
        assert_eq!(numbers(&shared), [[2, 2, 2], [0, 0, 0], [1, 4, 4]]);
        assert_eq!(shared.tiers.iter().map(|tier| tier.above).collect::<Vec<_>>(), [1, 2]);
        assert_ne!(shared.packed, rule.packed);
        assert_eq!(rule.for_one_of(1), rule);
        // A rule that only warns refuses no call; neither does its share.
        let warns = RuleSpec {
            limits: vec![limit("", Some(10), Algorithm::FixedWindow)],
            tiers: vec![tier(10, TierAction::Warn)],
            ..RuleSpec::default()
        };
        let warns = warns.build().expect("a rule");
        assert_eq!(warns.for_one_of(3).limits[0].ceiling, NO_CEILING);
    }
}
