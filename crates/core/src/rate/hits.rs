//! `CountHits`: counts hits of a key, whether they exceed the limit or not, as Envoy's rate limit
//! service does.
//!
//! It is a [`CheckRate`] of a rule whose only limit has no ceiling, without tiers and without a
//! request id, so its script has neither. The count says whether the limit is exceeded. A token bucket
//! cannot count more than its burst: its rule refuses, and a refused hit is not counted.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{
    Algorithm, Answer, CheckOutcome, CheckRate, Limit, LimitUse, Meter, Rule, Verdict,
    rule::NO_CEILING,
};
use crate::{
    AsOf, Call, Decision, PlainForm, Properties, Reply,
    denial::RefusalCaching,
    error::Error,
    fallback::{FallbackRule, OnStoreFailure, divide},
    script::{self, Script},
    time::{Millis, Timestamp},
};

/// Counts hits of a key.
#[derive(Debug, Clone)]
pub struct CountHits {
    /// Policy, key and hits (the cost), without a request id. Its rule is of [`Rule::counting`].
    pub check: CheckRate,
    /// The largest count that does not exceed the limit.
    pub max: u32,
    /// Whether a check without hits is over the limit as soon as the limit is reached. Hits are then
    /// reports of use: the denial cache never answers them, so each is counted.
    pub reports: bool,
    /// Whether this decides within a share of the fallback, in which case a decision with a larger
    /// `max` reads its outcome.
    pub is_share: bool,
}

/// The result of counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hits {
    /// The count with these hits, or without them if they were not counted; `None` if it is unknown
    /// because the fallback has refused.
    pub count: Option<u64>,
    /// Whether the limit is exceeded, or the key is banned.
    pub is_over: bool,
    /// Whether the count includes the hits.
    pub is_counted: bool,
    /// When the window ends, by the clock of the store. 0 without hits, except for a calendar
    /// window. In a refusal by the fallback, when to ask again.
    pub left: Millis,
}

impl Hits {
    /// Returns the result of a limit whose usage was read at a time.
    pub(super) fn from_usage(
        limit: &Limit,
        used: LimitUse,
        (is_over, is_counted): (bool, bool),
        now: Timestamp,
    ) -> Hits {
        let window = limit.window.micros();
        let left = match (used.reset_after.0, limit.algorithm) {
            // A window without hits is not stored, so it has no end of its own.
            (0, Algorithm::CalendarWindow) => {
                Millis((window - (now.0 + limit.shift) % window).div_ceil(1000))
            }
            _ => used.reset_after,
        };
        Hits { count: Some(used.count), is_over, is_counted, left }
    }

    /// Returns a refusal by the fallback, with the time after which to ask again.
    pub(super) fn unknown(left: Millis) -> Hits {
        Hits { count: None, is_over: true, is_counted: false, left }
    }
}

impl Rule {
    /// Returns a rule for [`CountHits`], with one limit of this name.
    pub fn counting(
        name: &[u8],
        algorithm: Algorithm,
        max: u32,
        window: Millis,
        denial_cache: Millis,
        on_store_failure: OnStoreFailure,
    ) -> Rule {
        let ceiling = if algorithm == Algorithm::TokenBucket { max } else { NO_CEILING };
        let name = name.into();
        let limit = Limit { name, algorithm, max, burst: max, window, ceiling, shift: 0 };
        let mut rule = Rule {
            limits: vec![limit],
            tiers: Vec::new(),
            utc_offset: 0,
            ban_memory: super::BAN_MEMORY,
            denial_cache,
            on_store_failure,
            packed: Default::default(),
        };
        rule.pack();
        rule
    }
}

impl CountHits {
    /// Returns the hits in an outcome. `None` if the key has usage under too many limit names.
    pub fn to_hits(&self, outcome: &AsOf<CheckOutcome>) -> Option<Hits> {
        let CheckOutcome::Decided { answer, .. } = &outcome.value else { return None };
        let is_over = self.is_over(answer);
        Some(match (answer.limits.first(), self.check.rule.limits.first()) {
            (Some(used), Some(limit)) => {
                let is_counted = answer.is_allowed()
                    || answer.verdict != Verdict::Ban && used.count >= self.over_from();
                Hits::from_usage(limit, *used, (is_over, is_counted), outcome.now)
            }
            _ => Hits::unknown(answer.retry_after.unwrap_or_default()),
        })
    }

    pub(super) fn is_over(&self, answer: &Answer) -> bool {
        let is_full = |used: &LimitUse| used.count >= self.over_from();
        !answer.is_allowed() || answer.limits.first().is_some_and(is_full)
    }

    /// Returns the smallest count that is over the limit.
    pub(super) fn over_from(&self) -> u64 {
        let is_report = !self.reports || self.check.cost > 0;
        u64::from(self.max) + u64::from(is_report)
    }

    /// Whether the window of the limit ends for all its hits at the same time.
    pub(super) fn has_end(&self) -> bool {
        let algorithm = self.check.rule.limits.first().map(|limit| limit.algorithm);
        matches!(algorithm, Some(Algorithm::CalendarWindow | Algorithm::FixedWindow))
    }
}

impl Decision for CountHits {
    type State = Meter;
    type Outcome = AsOf<CheckOutcome>;

    const SCRIPT: &'static Script = &script::rate::COUNT_HITS;
    const PROPERTIES: Properties<CountHits> = Properties::<Self> {
        is_repeatable: |count| (CheckRate::PROPERTIES.is_repeatable)(&count.check),
        cost: |count| (CheckRate::PROPERTIES.cost)(&count.check),
        creates: |count| (CheckRate::PROPERTIES.creates)(&count.check),
        fallback: Some(FallbackRule::new(
            CountHits::on_store_failure,
            CountHits::refused,
            CountHits::for_one_of,
        )),
        ban: Some(|count, outcome| count.check.entry(outcome)),
        plain: Some(PlainForm {
            script: |count| count.check.plain_script(),
            encode: |count, call| count.check.encode_plain(call),
            cost: |count| count.check.rule.plain_cost(),
        }),
        ..Properties::DEFAULT
    }
    .caches_refusals();

    fn partition(&self) -> &[u8] {
        self.check.partition()
    }

    fn encode(&self, call: &mut Call) {
        let CheckRate { name, rule, cost, .. } = &self.check;
        name.push_key(call, b"usage");
        name.push_key(call, b"ban");
        call.bytes(&[&rule.packed[0]]);
        call.number((*cost).into());
    }

    fn parse(reply: &mut Reply) -> Result<AsOf<CheckOutcome>, Error> {
        let now = reply.now();
        Ok(AsOf { value: CheckRate::parse(reply)?, now })
    }

    fn decide(&self, meter: &mut Meter, now: Timestamp) -> AsOf<CheckOutcome> {
        let mut outcome = self.check.decide(meter, now);
        if let CheckOutcome::Decided { answer, .. } = &mut outcome
            && self.is_share
            && answer.verdict == Verdict::Allow
            && self.is_over(answer)
        {
            answer.verdict = Verdict::Throttle;
        }
        AsOf { value: outcome, now }
    }
}

impl RefusalCaching for CountHits {
    /// The count above the limit, and when its window ends.
    type Denial = LimitUse;

    fn kind(&self) -> Option<u64> {
        let is_report = self.reports && self.check.cost > 0;
        if is_report || self.check.rule.denial_cache.0 == 0 || !self.has_end() {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        (&self.check.rule.packed, self.over_from()).hash(&mut hasher);
        Some(hasher.finish())
    }

    /// A count above the limit stays there until the window ends. Hits that are answered from the
    /// cache are not counted: they would change no answer under this limit.
    fn denial(&self, outcome: &AsOf<CheckOutcome>) -> Option<(LimitUse, u64)> {
        let CheckOutcome::Decided { answer, .. } = &outcome.value else { return None };
        let used = *answer.limits.first()?;
        if answer.verdict == Verdict::Ban || used.count < self.over_from() {
            return None;
        }
        // `reset_after` was rounded up, so subtract 1 ms.
        let holds = Millis(used.reset_after.0.saturating_sub(1)).micros();
        (holds > 0).then_some((used, holds.min(self.check.rule.denial_cache.micros())))
    }

    fn deny(&self, denial: &LimitUse, passed: u64, now: Timestamp) -> Option<AsOf<CheckOutcome>> {
        let left = denial.reset_after.micros().saturating_sub(passed).div_ceil(1000);
        let left = Millis(left.max(1));
        let answer = Answer {
            verdict: Verdict::Throttle,
            crossed: false,
            retry_after: Some(left),
            ban: None,
            // As if these hits had been counted: all of them exceed the limit.
            limits: vec![LimitUse {
                count: denial.count + u64::from(self.check.cost),
                reset_after: left,
            }],
        };
        Some(AsOf { value: CheckOutcome::Decided { answer, replayed: false }, now })
    }
}

impl CountHits {
    pub(super) fn on_store_failure(&self) -> OnStoreFailure {
        self.check.on_store_failure()
    }

    fn refused(&self) -> Option<AsOf<CheckOutcome>> {
        // It reports no usage, so the time has no effect.
        Some(AsOf { value: self.check.refused()?, now: Timestamp(0) })
    }

    pub(super) fn for_one_of(&self, replicas: u32) -> CountHits {
        CountHits {
            check: self.check.for_one_of(replicas),
            max: divide(self.max, replicas),
            reports: self.reports,
            is_share: true,
        }
    }
}
