//! `CountAll`: counts the hits of several keys in one step: all of them, or none if the request is
//! refused.
//!
//! The keys have the same tag, because their policy begins with [`TOGETHER`](super::TOGETHER). Each
//! key is counted as by [`CountHits`]; if the request is refused, the step undoes what it has
//! counted.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{
    CheckOutcome, CheckRate, CountHits, Hits, LimitUse, Meter,
    degradation::RETRY,
    meter::{Counters, Loaded},
};
use crate::{
    AsOf, Call, Cost, Decision, Properties, Reply,
    denial::RefusalCaching,
    error::Error,
    fallback::{FallbackRule, OnStoreFailure},
    script::{self, Script},
    statuses,
    time::{Millis, Timestamp},
    unknown_status,
};

statuses! { COUNT_ALL_DECIDED = 0, COUNT_ALL_TOO_MANY_NAMES = 1 }

/// Maximum number of counters of one decision: 32 sliding windows occupy Redis for 2 ms.
pub const COUNT_ALL_MAX: usize = 32;
/// The Redis time of a counter in addition to a check's, µs.
const COST: u32 = 5;

/// Counts the hits of several keys.
#[derive(Debug, Clone)]
pub struct CountAll {
    counts: Vec<CountAllItem>,
    /// The number of partitions. The first counter with a position determines its partition.
    partitions: usize,
}

/// A counter of a [`CountAll`].
#[derive(Debug, Clone)]
struct CountAllItem {
    count: CountHits,
    enforcement: Enforcement,
    /// The position of its partition.
    place: usize,
}

/// What happens to the request if a limit is exceeded, numbered as in the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Enforcement {
    /// Nothing.
    Shadow = 0,
    /// The request is refused.
    Enforced = 1,
    /// The request is refused if all limits with a quota are exceeded.
    Quota = 2,
}

/// The outcome of counting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CountAllOutcome {
    /// The result of each counter, in order. The counts of a refused request are those without its
    /// hits.
    Decided(Vec<CountedHits>),
    /// The fallback refuses all counters.
    Refused,
    /// A key has usage under too many limit names. Nothing was counted.
    TooManyNames,
}

/// The result of one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedHits {
    /// Whether the limit is exceeded, or the key is banned.
    pub is_over: bool,
    /// The count, and when it is 0 again.
    pub used: LimitUse,
}

impl CountAll {
    /// Creates a decision on 1 to [`COUNT_ALL_MAX`] counters, whose keys have the same tag. A key
    /// may occur twice: later counters see the hits of earlier ones.
    pub fn new(counts: impl IntoIterator<Item = (CountHits, Enforcement)>) -> CountAll {
        let mut all = CountAll { counts: Vec::new(), partitions: 0 };
        for (count, enforcement) in counts {
            let same = all.counts.iter().find(|it| it.count.partition() == count.partition());
            let place = same.map_or(all.partitions, |same| same.place);
            all.partitions = all.partitions.max(place + 1);
            all.counts.push(CountAllItem { count, enforcement, place });
        }
        all
    }

    /// Returns the hits in an outcome. `None` if a key has usage under too many limit names.
    pub fn to_hits(&self, outcome: &AsOf<CountAllOutcome>) -> Option<Vec<Hits>> {
        match &outcome.value {
            CountAllOutcome::TooManyNames => None,
            CountAllOutcome::Refused => Some(vec![Hits::unknown(RETRY); self.counts.len()]),
            CountAllOutcome::Decided(counted) => {
                let is_counted = !self.refuses(counted);
                let hits = self.counts.iter().zip(counted).filter_map(|(it, counted)| {
                    let CountedHits { is_over, used } = *counted;
                    let limit = it.count.check.rule.limits.first()?;
                    // A full token bucket in shadow mode counts nothing.
                    let is_counted = is_counted && (!is_over || used.count >= it.count.over_from());
                    Some(Hits::from_usage(limit, used, (is_over, is_counted), outcome.now))
                });
                Some(hits.collect())
            }
        }
    }

    /// Whether these results refuse the request.
    fn refuses(&self, hits: &[CountedHits]) -> bool {
        let over = |wanted: Enforcement| {
            let of_kind = self.counts.iter().zip(hits);
            of_kind.filter(move |(it, _)| it.enforcement == wanted).map(|(_, hits)| hits.is_over)
        };
        let mut quotas = over(Enforcement::Quota).peekable();
        over(Enforcement::Enforced).any(|is_over| is_over)
            || quotas.peek().is_some() && quotas.all(|is_over| is_over)
    }
}

impl CountHits {
    /// Counts the hits. `None` if the key has usage under too many limit names.
    fn count(&self, meter: &mut Meter, now: Timestamp) -> Option<CountedHits> {
        let CheckOutcome::Decided { answer, .. } = self.decide(meter, now).value else {
            return None;
        };
        Some(CountedHits { is_over: self.is_over(&answer), used: *answer.limits.first()? })
    }

    /// Reads the usage without counting hits. Stores it if it was converted, as a refused check
    /// does.
    fn peek(&self, meter: &mut Meter, now: Timestamp) -> Option<LimitUse> {
        let (rule, cost) = (&self.check.rule, self.check.cost);
        let Loaded { usages, notices, moved } = meter.load(rule, now);
        let (usage, limit) = usages.first().zip(rule.limits.first())?;
        let reset_after = Millis(usage.reset(limit, now).div_ceil(1000));
        let used = LimitUse { count: usage.count(now), reset_after };
        if moved && cost > 0 {
            meter.store(rule, usages, notices, now);
        }
        Some(used)
    }
}

impl Decision for CountAll {
    type State = Vec<Meter>;
    type Outcome = AsOf<CountAllOutcome>;

    const SCRIPT: &'static Script = &script::rate::COUNT_ALL;
    const PROPERTIES: Properties<CountAll> = Properties::<Self> {
        is_repeatable: |all| all.counts.iter().all(|it| it.count.check.cost == 0),
        cost: |all| {
            let costs =
                all.counts.iter().map(|it| (CountHits::PROPERTIES.cost)(&it.count).micros());
            Cost::from_micros(costs.map(|cost| cost + COST).sum())
        },
        creates: |all| all.counts.iter().any(|it| it.count.check.cost > 0),
        fallback: Some(FallbackRule::new(
            CountAll::on_store_failure,
            CountAll::refused,
            CountAll::for_one_of,
        )),
        ..Properties::DEFAULT
    }
    .caches_refusals();

    fn partition(&self) -> &[u8] {
        self.counts.first().map_or(&[], |first| first.count.partition())
    }

    fn partitions(&self) -> Vec<&[u8]> {
        let mut partitions = Vec::with_capacity(self.partitions);
        for it in &self.counts {
            if it.place == partitions.len() {
                partitions.push(it.count.partition());
            }
        }
        partitions
    }

    fn encode(&self, call: &mut Call) {
        for it in &self.counts {
            let name = &it.count.check.name;
            name.push_key(call, b"usage");
            name.push_key(call, b"ban");
        }
        for it in &self.counts {
            call.bytes(&[&it.count.check.rule.packed[0]]);
            call.number(it.count.check.cost.into());
            call.number(it.count.over_from());
            call.number(it.enforcement as u64);
        }
    }

    fn parse(reply: &mut Reply) -> Result<AsOf<CountAllOutcome>, Error> {
        let now = reply.now();
        let value = match reply.number()? {
            COUNT_ALL_DECIDED => {
                let mut all = Vec::new();
                while reply.has_more() {
                    let is_over = reply.number()? != 0;
                    let count = reply.number()?;
                    let used = LimitUse { count, reset_after: Millis(reply.number()?) };
                    all.push(CountedHits { is_over, used });
                }
                CountAllOutcome::Decided(all)
            }
            COUNT_ALL_TOO_MANY_NAMES => CountAllOutcome::TooManyNames,
            status => return unknown_status(status),
        };
        Ok(AsOf { value, now })
    }

    fn decide(&self, meters: &mut Vec<Meter>, now: Timestamp) -> AsOf<CountAllOutcome> {
        let before: Vec<Counters> = meters.iter().map(|meter| meter.counters.clone()).collect();
        let hits: Option<Vec<CountedHits>> =
            self.counts.iter().map(|it| it.count.count(&mut meters[it.place], now)).collect();
        let is_refused = hits.as_ref().is_none_or(|hits| self.refuses(hits));
        if is_refused {
            for (meter, counters) in meters.iter_mut().zip(before) {
                meter.counters = counters;
            }
        }
        let value = match hits {
            None => CountAllOutcome::TooManyNames,
            Some(mut hits) => {
                for (it, hits) in self.counts.iter().zip(&mut hits).filter(|_| is_refused) {
                    hits.used = it.count.peek(&mut meters[it.place], now).unwrap_or(hits.used);
                }
                CountAllOutcome::Decided(hits)
            }
        };
        AsOf { value, now }
    }
}

impl RefusalCaching for CountAll {
    /// The results, one of which refuses the request until its window ends.
    type Denial = Vec<CountedHits>;

    fn kind(&self) -> Option<u64> {
        let first = self.counts.first()?;
        if first.count.check.rule.denial_cache.0 == 0 {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        for CountAllItem { count, enforcement, .. } in &self.counts {
            let CheckRate { name, rule, cost, .. } = &count.check;
            let over_from = count.over_from();
            (name.as_bytes(), &rule.packed, cost, over_from, *enforcement as u8).hash(&mut hasher);
        }
        Some(hasher.finish())
    }

    /// A count without room for its hits stays that way until its window ends, whatever the other
    /// counters do. Their counts can be out of date by the age of the entry.
    fn denial(&self, outcome: &AsOf<CountAllOutcome>) -> Option<(Vec<CountedHits>, u64)> {
        let CountAllOutcome::Decided(counted) = &outcome.value else { return None };
        if !self.refuses(counted) {
            return None;
        }
        let lasting = self.counts.iter().zip(counted).filter(|(it, counted)| {
            // A refused request: the count has none of its hits.
            let count = counted.used.count + u64::from(it.count.check.cost);
            let is_full = count >= it.count.over_from();
            is_full && it.enforcement == Enforcement::Enforced && it.count.has_end()
        });
        // `reset_after` was rounded up, so subtract 1 ms.
        let holds =
            lasting.map(|(_, counted)| counted.used.reset_after.0.saturating_sub(1)).max()?;
        let most = self.counts.first()?.count.check.rule.denial_cache;
        (holds > 0).then(|| (counted.clone(), Millis(holds).min(most).micros()))
    }

    fn deny(
        &self,
        denial: &Vec<CountedHits>,
        passed: u64,
        now: Timestamp,
    ) -> Option<AsOf<CountAllOutcome>> {
        let later = |counted: &CountedHits| {
            let left = counted.used.reset_after.micros().saturating_sub(passed).div_ceil(1000);
            CountedHits { used: LimitUse { reset_after: Millis(left), ..counted.used }, ..*counted }
        };
        let value = CountAllOutcome::Decided(denial.iter().map(later).collect());
        Some(AsOf { value, now })
    }
}

impl CountAll {
    fn on_store_failure(&self) -> OnStoreFailure {
        self.counts.first().map_or(OnStoreFailure::Fail, |it| it.count.on_store_failure())
    }

    fn refused(&self) -> Option<AsOf<CountAllOutcome>> {
        Some(AsOf { value: CountAllOutcome::Refused, now: Timestamp(0) })
    }

    fn for_one_of(&self, replicas: u32) -> CountAll {
        let shared = |it: &CountAllItem| (it.count.for_one_of(replicas), it.enforcement);
        CountAll::new(self.counts.iter().map(shared))
    }
}
