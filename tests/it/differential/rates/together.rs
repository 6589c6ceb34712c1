//! Hits of keys, each in its own step or several in one.

use std::sync::Arc;

use rand::{Rng, seq::IndexedRandom};
use tollgate_core::{
    fallback::OnStoreFailure,
    rate::{
        Algorithm, CheckOutcome, CheckRate, CountAll, CountAllOutcome, CountHits, Enforcement,
        MeterName, Rule,
    },
    time::Millis,
};

use super::{History, name};

/// The policy whose keys are decided together.
pub const POLICY: &str = "envoy-all/d";
/// The same keys as in the other decisions.
const KEYS: [&str; 3] = ["a", "b_c", "{x}"];

/// Rules of few names, so that rules meet usage of other rules.
pub fn rules() -> Vec<(Arc<Rule>, u32)> {
    let rule = |name: &[u8], algorithm, max, window| {
        let (none, fail) = (Millis(0), OnStoreFailure::Fail);
        (Arc::new(Rule::counting(name, algorithm, max, Millis(window), none, fail)), max)
    };
    vec![
        rule(b"second", Algorithm::CalendarWindow, 3, 1000),
        rule(b"minute", Algorithm::CalendarWindow, 8, 60_000),
        rule(b"minute", Algorithm::CalendarWindow, 0, 60_000),
        rule(b"minute", Algorithm::SlidingWindow, 6, 60_000),
        rule(b"hour", Algorithm::SlidingWindow, 20, 120_000),
        rule(b"hour", Algorithm::SlidingWindow, 20, 3_600_000),
        rule(b"bucket", Algorithm::TokenBucket, 5, 10_000),
        rule(b"bucket", Algorithm::TokenBucket, 7, 60_000),
        rule(b"year", Algorithm::CalendarWindow, 1000, 31_536_000_000),
        rule(b"fixed", Algorithm::FixedWindow, 9, 5000),
        rule(b"fixed", Algorithm::FixedWindow, u32::MAX, 5000),
        rule(b"hour", Algorithm::SlidingWindow, u32::MAX, 3_600_000),
    ]
}

impl History {
    /// Counts the hits of a key, or of several keys in one batch. The answer has no maximum: Redis sends
    /// the count, and the server compares it.
    pub(super) async fn count_hits(&mut self, context: &str) {
        let number = *[1, 2, 20].choose(&mut self.random).unwrap();
        let counts: Vec<_> = (0..number)
            .map(|_| CountHits { max: u32::MAX, reports: false, ..self.count().0 })
            .collect();
        self.twins.agree_all(&mut self.meters, &counts, context).await;
    }

    /// Counts the hits of some keys, also of one key several times.
    pub(super) async fn count_all(&mut self, context: &str) {
        let number = *[1, 2, 2, 3, 5, 12].choose(&mut self.random).unwrap();
        let counts: Vec<_> = (0..number).map(|_| self.count()).collect();
        let all = CountAll::new(counts.clone());
        let before = self.looks(&counts, context).await;
        let outcome = self.twins.agree_several(&mut self.meters, &all, context).await;
        let CountAllOutcome::Decided(hits) = outcome.value else { return };
        let over = |wanted| {
            let of_kind = counts.iter().zip(&hits).filter(move |((_, kind), _)| *kind == wanted);
            of_kind.map(|(_, hits)| hits.is_over).collect::<Vec<bool>>()
        };
        let quotas = over(Enforcement::Quota);
        let is_refused = over(Enforcement::Enforced).contains(&true)
            || !quotas.is_empty() && !quotas.contains(&false);
        self.refused += usize::from(is_refused);
        let after = self.looks(&counts, context).await;
        if is_refused {
            assert_eq!(before, after, "{context}: a refused request counts nothing");
        }
    }

    /// Returns the counts of the calendar windows. A refused request stores converted usage of the
    /// others, whose counts can then be rounded.
    async fn looks(
        &mut self,
        counts: &[(CountHits, Enforcement)],
        context: &str,
    ) -> Vec<Option<u64>> {
        let mut looks = Vec::new();
        for (count, _) in counts {
            let look = CheckRate { cost: 0, ..count.check.clone() };
            let outcome = self.twins.agree(&mut self.meters, &look, context).await;
            let is_calendar = look.rule.limits[0].algorithm == Algorithm::CalendarWindow;
            if let CheckOutcome::Decided { answer, .. } = outcome
                && is_calendar
            {
                looks.push(answer.limits.first().map(|used| used.count));
            }
        }
        looks
    }

    fn count(&mut self) -> (CountHits, Enforcement) {
        let policy = name(POLICY);
        let key = name(KEYS.choose(&mut self.random).unwrap());
        let (rule, max) = self.counting.choose(&mut self.random).unwrap().clone();
        let cost = *[0, 1, 1, 1, 2, 4, u32::MAX].choose(&mut self.random).unwrap();
        let check =
            CheckRate { name: MeterName::new(Some(&policy), &key), rule, cost, request: None };
        let kinds = [Enforcement::Shadow, Enforcement::Quota, Enforcement::Enforced];
        let kind = match self.random.random_range(0..10) {
            0..6 => Enforcement::Enforced,
            _ => *kinds.choose(&mut self.random).unwrap(),
        };
        let reports = self.random.random_bool(0.3);
        (CountHits { check, max, reports, is_share: false }, kind)
    }
}
