//! The state of one key under one policy in the embedded engine.

use std::{mem, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use super::{
    MeterName, RateEvent,
    answer::Answer,
    ban_record::BanRecord,
    rule::{Limit, Rule},
    usage::{self, Usage},
};
use crate::{
    Bin, ENTRY_BYTES, Footprint, State,
    collections::{ExpiringMap, ExpiringValue},
    record::text,
    time::Timestamp,
};

/// What the usage of a limit counts in an answer for repeats.
pub(super) const LIMIT_BYTES: u64 = 64;

impl ExpiringValue for Answer {
    fn bytes(&self) -> u64 {
        let ban = self.ban.as_ref().map_or(0, |ban| ban.reason.len() + ban.actor.len());
        ban as u64 + self.limits.len() as u64 * LIMIT_BYTES
    }
}

/// The maximum number of notices that a limit stores: enough for the tiers of a few rules.
const NOTICES_MAX: usize = 32;

/// The usage by limit name. Most keys have one limit, which is stored inline.
pub(super) type Counters = SmallVec<[LimitCounter; 1]>;

/// The usage of a key, its ban, and its replay cache.
#[derive(Debug, Default)]
pub struct Meter {
    /// The usage by limit name.
    pub(super) counters: Counters,
    /// The last ban, while it counts as a strike.
    pub(super) ban: Option<Box<BanRecord>>,
    /// Answers for repeats, by request id.
    pub(super) replays: ExpiringMap<Answer>,
    /// The event of the last decision, which the engine appends to the log of the shard.
    pub(super) event: Option<Box<RateEvent>>,
}

/// The usage under one limit name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitCounter {
    /// The limit name.
    #[serde(default, rename = "limit", with = "text")]
    pub(super) name: Arc<[u8]>,
    /// The count, in the form of the algorithm.
    #[serde(with = "usage::form")]
    pub(super) usage: Usage,
    /// The notices sent for the tiers of this limit.
    #[serde(default)]
    pub(super) notices: Notices,
    /// From this time on the counter has no effect.
    pub(super) forget: Timestamp,
}

impl LimitCounter {
    fn is_of(&self, limit: &Limit) -> bool {
        // The same allocation in most cases, so that the name need not be compared.
        Arc::ptr_eq(&self.name, &limit.name) || self.name == limit.name
    }
}

/// Returns the time from which a counter of this limit has no effect.
fn forget(limit: &Limit, usage: &Usage, notices: &Notices, now: Timestamp) -> Timestamp {
    let noticed = if notices.is_empty() { 0 } else { limit.window.micros() };
    Timestamp(now.0 + usage.reset(limit, now).max(noticed))
}

/// The usage of each limit of a rule at one time.
#[derive(Debug)]
pub(super) struct Loaded {
    /// The usages, in the order of the limits.
    pub(super) usages: Vec<Usage>,
    /// The notices of the first limit.
    pub(super) notices: Notices,
    /// Whether the usage must be stored even if nothing is counted; see [`Usage::is_moved`].
    pub(super) moved: bool,
}

/// The tiers for which a notice was sent, and when.
///
/// Behind a pointer: most of a million keys have no notices.
#[derive(Debug, Clone, Default)]
pub(super) struct Notices(Option<Box<Sent>>);

/// Tier threshold (`above`) and time of each notice, the oldest first; not empty.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Sent {
    tiers: Vec<(u32, Timestamp)>,
}

/// A notice in an export.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Notice {
    above: u32,
    at: Timestamp,
}

impl Serialize for Notices {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return self.0.serialize(serializer);
        }
        let notices = self.tiers().iter();
        serializer.collect_seq(notices.map(|&(above, at)| Notice { above, at }))
    }
}

impl<'de> Deserialize<'de> for Notices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Notices, D::Error> {
        if !deserializer.is_human_readable() {
            return Deserialize::deserialize(deserializer).map(Notices);
        }
        let notices = Vec::<Notice>::deserialize(deserializer)?.into_iter();
        let tiers: Vec<_> = notices.map(|notice| (notice.above, notice.at)).collect();
        Ok(Notices((!tiers.is_empty()).then(|| Box::new(Sent { tiers }))))
    }
}

impl Notices {
    /// Returns the notices of the current window, which began at `since`.
    fn since(&self, since: u64, now: Timestamp) -> Notices {
        let Some(sent) = &self.0 else { return Notices(None) };
        let present = sent.tiers.iter().filter(|(_, at)| at.0 >= since);
        // The clock was set back: a notice must not suppress others for longer than one window from
        // now.
        let tiers: Vec<_> = present.map(|(above, at)| (*above, (*at).min(now))).collect();
        Notices((!tiers.is_empty()).then(|| Box::new(Sent { tiers })))
    }

    /// Whether a notice was sent for the tier with this threshold.
    pub(super) fn contains(&self, above: u32) -> bool {
        self.0.as_ref().is_some_and(|sent| sent.tiers.iter().any(|tier| tier.0 == above))
    }

    /// Records a notice; drops the oldest one above [`NOTICES_MAX`].
    pub(super) fn add(&mut self, above: u32, now: Timestamp) {
        let tiers = &mut self.0.get_or_insert_default().tiers;
        if tiers.len() >= NOTICES_MAX {
            tiers.remove(0);
        }
        tiers.push((above, now));
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Tier threshold and time of each notice, the oldest first.
    pub(super) fn tiers(&self) -> &[(u32, Timestamp)] {
        self.0.as_ref().map_or(&[], |sent| &sent.tiers)
    }
}

impl Meter {
    /// Takes the event of the last decision.
    pub fn take_event(&mut self) -> Option<Box<RateEvent>> {
        self.event.take()
    }

    /// Returns the usage of each limit of a rule at `now`.
    pub(super) fn load(&self, rule: &Rule, now: Timestamp) -> Loaded {
        let (mut notices, mut moved) = (Notices::default(), false);
        let usages = rule.limits.iter().enumerate().map(|(index, limit)| {
            let counter = self.live(now).find(|counter| counter.is_of(limit));
            let stored = counter
                .map(|counter| &counter.usage)
                .filter(|usage| usage.algorithm() == limit.algorithm);
            moved |= stored.is_some_and(|usage| usage.is_moved(limit, now));
            let usage = Usage::load(limit, stored, now);
            // A longer window must not forget calls that a shorter one has counted.
            moved |= counter.is_some_and(|counter| {
                stored.is_some() && now.0 + usage.reset(limit, now) > counter.forget.0
            });
            if let Some(counter) = counter.filter(|_| index == 0) {
                notices = counter.notices.since(usage.notices_since(limit, now), now);
            }
            usage
        });
        Loaded { usages: usages.collect(), notices, moved }
    }

    /// Stores the usage of each limit of a rule. Counters of other limit names stay, since another
    /// rule may use them; those that no longer have an effect are dropped.
    pub(super) fn store(
        &mut self,
        rule: &Rule,
        usages: Vec<Usage>,
        mut notices: Notices,
        now: Timestamp,
    ) {
        if self.is_of(rule) {
            // The common case: update in place, without allocation.
            let places = self.counters.iter_mut().zip(&rule.limits);
            for ((counter, limit), usage) in places.zip(usages) {
                let notices = mem::take(&mut notices);
                if !Arc::ptr_eq(&counter.name, &limit.name) {
                    // For example restored from disk: it is shared from now on.
                    counter.name = limit.name.clone();
                }
                counter.forget = forget(limit, &usage, &notices, now);
                (counter.usage, counter.notices) = (usage, notices);
            }
            self.counters.retain(|counter| counter.forget > now);
            return;
        }
        let ours = |counter: &LimitCounter| rule.limits.iter().any(|limit| counter.is_of(limit));
        self.counters.retain(|counter| counter.forget > now && !ours(counter));
        // No spare capacity: it would add up over a million keys.
        self.counters.reserve_exact(rule.limits.len());
        for (limit, usage) in rule.limits.iter().zip(usages) {
            let notices = mem::take(&mut notices);
            let forget = forget(limit, &usage, &notices, now);
            if forget > now {
                let name = limit.name.clone();
                self.counters.push(LimitCounter { name, usage, notices, forget });
            }
        }
    }

    /// Whether the counters are exactly the rule's, in order.
    fn is_of(&self, rule: &Rule) -> bool {
        let (counters, limits) = (&self.counters, &rule.limits);
        counters.len() == limits.len()
            && counters.iter().zip(limits).all(|(counter, limit)| counter.is_of(limit))
    }

    /// Returns the number of live counters that do not belong to the rule.
    pub(super) fn others(&self, rule: &Rule, now: Timestamp) -> usize {
        let ours = |counter: &&LimitCounter| rule.limits.iter().any(|limit| counter.is_of(limit));
        self.live(now).filter(|counter| !ours(counter)).count()
    }

    /// Removes all usage; returns whether there was any.
    pub(super) fn reset(&mut self, now: Timestamp) -> bool {
        let existed = self.live(now).next().is_some();
        self.counters = Counters::new();
        existed
    }

    /// Returns the last ban, while it counts as a strike.
    pub(super) fn ban(&self, now: Timestamp) -> Option<&BanRecord> {
        self.ban.as_deref().filter(|ban| ban.forget > now)
    }

    /// Returns the counters that still have an effect.
    pub(super) fn live(&self, now: Timestamp) -> impl Iterator<Item = &LimitCounter> {
        self.counters.iter().filter(move |counter| counter.forget > now)
    }
}

impl State for Meter {
    const CAPABILITY: &'static str = "rate";
    const NAME_KEY: Option<&'static str> = Some("usage");

    /// With a policy, the shard of the policy, so that one step writes a key and its event. Without
    /// a policy, the partition.
    fn tag(partition: &[u8]) -> &[u8] {
        match MeterName::split(partition) {
            Some((Some(_), key)) => &partition[..partition.len() - key.len() - 1],
            _ => partition,
        }
    }

    fn footprint(&self) -> Footprint {
        let counters = self.counters.iter().map(|it| ENTRY_BYTES + it.name.len() as u64);
        let ban = self.ban.as_ref().map_or(0, |ban| ban.bytes());
        let bytes = counters.sum::<u64>() + ban + self.replays.bytes();
        Footprint { bytes, ..Footprint::default() }
    }

    /// Drops counters and a ban that no longer have an effect, and old answers within the budget.
    fn sweep(&mut self, now: Timestamp, budget: usize, _: &mut Bin) -> usize {
        self.counters.retain(|counter| counter.forget > now);
        self.ban.take_if(|ban| ban.forget <= now);
        self.replays.sweep(now, budget)
    }

    fn is_vacant(&self, now: Timestamp) -> bool {
        self.live(now).next().is_none() && self.ban(now).is_none() && self.replays.is_empty()
    }
}
