//! `CountHits`: counts hits of a key, whether they exceed the limit or not, as Envoy's rate limit
//! service does.
//!
//! It is a [`CheckRate`] of a rule whose only limit has no ceiling, without tiers and without a
//! request id, so its script has neither. The count says whether the limit is exceeded. A token bucket
//! cannot count more than its burst: its rule refuses, and a refused hit is not counted.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{
    Algorithm, Answer, CheckOutcome, CheckRate, Limit, LimitUse, Meter, NoteBan, Rule, Verdict,
    rule::NO_CEILING,
};
use crate::decision::{
    AsOf, Call, Decision, Delivery, Indexing, Reply,
    denial::Deniable,
    error::Error,
    fallback::{Degradable, OnStoreFailure, share},
    script::{self, Script},
    stages,
    time::{Millis, Timestamp},
};

/// Counts hits of a key.
#[derive(Debug, Clone)]
pub struct CountHits {
    /// Policy, key and hits (the cost), without a request id. Its rule is of [`Rule::counting`].
    pub check: CheckRate,
    /// The largest count that does not exceed the limit.
    pub max: u32,
}

/// The result of counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hits {
    /// The count with these hits; `None` if it is unknown: the fallback has refused.
    pub count: Option<u32>,
    /// Whether the limit is exceeded, or the key is banned.
    pub is_over: bool,
    /// When the window ends, by the clock of the store. 0 without hits, except for a calendar window.
    /// Of a refusal by the fallback, when to ask again.
    pub left: Millis,
}

impl Hits {
    /// The result of a limit whose usage was read at a time.
    pub(super) fn of(limit: &Limit, used: LimitUse, is_over: bool, now: Timestamp) -> Hits {
        let window = limit.window.micros();
        let left = match (used.reset_after.0, limit.algorithm) {
            // A window without hits is not stored, so it has no end of its own.
            (0, Algorithm::CalendarWindow) => {
                Millis((window - (now.0 + limit.shift) % window).div_ceil(1000))
            }
            _ => used.reset_after,
        };
        Hits { count: Some(used.count), is_over, left }
    }
}

impl Rule {
    /// A rule for [`CountHits`], with one limit of this name.
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
    /// Reads the outcome. `None` if the key has usage under too many limit names.
    pub fn read(&self, outcome: &AsOf<CheckOutcome>) -> Option<Hits> {
        let CheckOutcome::Decided { answer, .. } = &outcome.value else { return None };
        let is_over = self.is_over(answer);
        Some(match (answer.limits.first(), self.check.rule.limits.first()) {
            (Some(used), Some(limit)) => Hits::of(limit, *used, is_over, outcome.now),
            _ => Hits { count: None, is_over, left: answer.retry_after.unwrap_or_default() },
        })
    }

    pub(super) fn is_over(&self, answer: &Answer) -> bool {
        !answer.is_allowed() || answer.limits.first().is_some_and(|used| used.count > self.max)
    }

    /// Whether the window of the limit ends for all its hits at once.
    pub(super) fn has_end(&self) -> bool {
        let algorithm = self.check.rule.limits.first().map(|limit| limit.algorithm);
        matches!(algorithm, Some(Algorithm::CalendarWindow | Algorithm::FixedWindow))
    }
}

impl Decision for CountHits {
    type State = Meter;
    type Outcome = AsOf<CheckOutcome>;
    type Stages = stages::CachedAndIndexed;

    const SCRIPT: &'static Script = &script::rate::COUNT_HITS;
    const DELIVERY: Delivery<CountHits> = Delivery {
        is_repeatable: |count| (CheckRate::DELIVERY.is_repeatable)(&count.check),
        cost: |count| (CheckRate::DELIVERY.cost)(&count.check),
        creates: |count| (CheckRate::DELIVERY.creates)(&count.check),
        ..Delivery::DEFAULT
    };

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
            && answer.verdict == Verdict::Allow
            && self.is_over(answer)
        {
            // A share of the fallback has a smaller `max` than the decision that reads the outcome.
            answer.verdict = Verdict::Throttle;
        }
        AsOf { value: outcome, now }
    }
}

impl Indexing for CountHits {
    type Entry = NoteBan;

    fn entry(&self, outcome: &AsOf<CheckOutcome>) -> Option<NoteBan> {
        self.check.entry(outcome)
    }
}

impl Deniable for CountHits {
    /// The count above the limit, and when its window ends.
    type Denial = LimitUse;

    fn kind(&self) -> Option<u64> {
        if self.check.rule.denial_cache.0 == 0 || !self.has_end() {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        (&self.check.rule.packed, self.max).hash(&mut hasher);
        Some(hasher.finish())
    }

    /// A count above the limit stays there until the window ends. Hits that are answered from the
    /// cache are not counted: they would change no answer under this limit.
    fn denial(&self, outcome: &AsOf<CheckOutcome>) -> Option<(LimitUse, u64)> {
        let CheckOutcome::Decided { answer, .. } = &outcome.value else { return None };
        let used = *answer.limits.first()?;
        if answer.verdict == Verdict::Ban || used.count <= self.max {
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
            limits: vec![LimitUse { reset_after: left, ..*denial }],
        };
        Some(AsOf { value: CheckOutcome::Decided { answer, replayed: false }, now })
    }
}

impl Degradable for CountHits {
    fn on_store_failure(&self) -> OnStoreFailure {
        self.check.on_store_failure()
    }

    fn refused(&self) -> Option<AsOf<CheckOutcome>> {
        // It reports no usage, so the time has no effect.
        Some(AsOf { value: self.check.refused()?, now: Timestamp(0) })
    }

    fn shared(&self, replicas: u32) -> CountHits {
        CountHits { check: self.check.shared(replicas), max: share(self.max, replicas) }
    }
}
