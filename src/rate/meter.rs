//! What the embedded engine keeps of one key under one policy.

use std::{mem, sync::Arc};

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{
    Event,
    ban::BanRecord,
    check::Answer,
    rule::{Limit, Rule},
    usage::Usage,
};
use crate::{
    decision::{Bin, State},
    memory::Memory,
    time::Timestamp,
};

/// The most notices that a limit remembers: of the tiers of a few rules.
const NOTICES_MAX: usize = 32;

/// What was used under the names of limits.
pub(super) type Counters = SmallVec<[Counter; 1]>;

/// A key's usage, its ban, and the answers kept for repeats.
#[derive(Debug, Default)]
pub struct Meter {
    /// One, as a rule: it is here itself, and no way to go for it.
    pub(super) counters: Counters,
    pub(super) ban: Option<Box<BanRecord>>,
    pub(super) replays: Memory<Answer>,
    /// What the last decision tells of.
    pub(super) event: Option<Box<Event>>,
}

/// What was used under one name of a limit.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Counter {
    pub(super) name: Arc<[u8]>,
    pub(super) usage: Usage,
    pub(super) notices: Notices,
    /// From then on it is as if it had never been.
    pub(super) forget: Timestamp,
}

impl Counter {
    fn is_of(&self, limit: &Limit) -> bool {
        // The very same, as a rule: nothing of it is read.
        Arc::ptr_eq(&self.name, &limit.name) || self.name == limit.name
    }
}

/// From when on a counter of a limit is as if it had never been.
fn forget(limit: &Limit, usage: &Usage, notices: &Notices, now: Timestamp) -> Timestamp {
    let noticed = if notices.is_empty() { 0 } else { limit.window.micros() };
    Timestamp(now.0 + usage.reset(limit, now).max(noticed))
}

/// What was used of each limit of a rule, at an instant.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) usages: Vec<Usage>,
    /// The notices of the first limit.
    pub(super) notices: Notices,
    /// Whether it has to be put down, see [`Usage::is_moved`].
    pub(super) moved: bool,
}

/// The levels that notices went out for, and when.
///
/// Behind a pointer: a million keys that no notice went out for must not pay.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Notices(Option<Box<Sent>>);

/// Tiers and instants, the oldest first; not empty.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Sent {
    tiers: Vec<(u32, Timestamp)>,
}

impl Notices {
    /// Those of the present window, which began at `since`.
    fn since(&self, since: u64, now: Timestamp) -> Notices {
        let Some(sent) = &self.0 else { return Notices(None) };
        let present = sent.tiers.iter().filter(|(_, at)| at.0 >= since);
        // A clock that was set back must not keep notices back for longer.
        let tiers: Vec<_> = present.map(|(above, at)| (*above, (*at).min(now))).collect();
        Notices((!tiers.is_empty()).then(|| Box::new(Sent { tiers })))
    }

    pub(super) fn contains(&self, above: u32) -> bool {
        self.0.as_ref().is_some_and(|sent| sent.tiers.iter().any(|tier| tier.0 == above))
    }

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

    /// Tiers and instants, the oldest first.
    pub(super) fn tiers(&self) -> &[(u32, Timestamp)] {
        self.0.as_ref().map_or(&[], |sent| &sent.tiers)
    }
}

impl Meter {
    /// Takes the event of the last decision, for the log of the key's shard.
    pub fn take_event(&mut self) -> Option<Box<Event>> {
        self.event.take()
    }

    /// What was used of each limit of a rule, now.
    pub(super) fn load(&self, rule: &Rule, now: Timestamp) -> Loaded {
        let (mut notices, mut moved) = (Notices::default(), false);
        let usages = rule.limits.iter().enumerate().map(|(index, limit)| {
            let counter = self.live(now).find(|counter| counter.is_of(limit));
            let stored = counter.map(|counter| &counter.usage);
            let stored = stored.filter(|usage| usage.algorithm() == limit.algorithm);
            moved |= stored.is_some_and(|usage| usage.is_moved(limit, now));
            let usage = Usage::load(limit, stored, now);
            // A longer window must not lose what a shorter one has counted.
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

    /// Puts down what is used of each limit of a rule.
    pub(super) fn store(
        &mut self,
        rule: &Rule,
        usages: Vec<Usage>,
        mut notices: Notices,
        now: Timestamp,
    ) {
        if self.is_of(rule) {
            // In place, as nearly always: without a new name or room.
            let places = self.counters.iter_mut().zip(&rule.limits);
            for ((counter, limit), usage) in places.zip(usages) {
                let notices = mem::take(&mut notices);
                if !Arc::ptr_eq(&counter.name, &limit.name) {
                    // One that was read from a disk, say: it is shared from now on.
                    counter.name = limit.name.clone();
                }
                counter.forget = forget(limit, &usage, &notices, now);
                (counter.usage, counter.notices) = (usage, notices);
            }
            self.counters.retain(|counter| counter.forget > now);
            return;
        }
        let ours = |counter: &Counter| rule.limits.iter().any(|limit| counter.is_of(limit));
        self.counters.retain(|counter| counter.forget > now && !ours(counter));
        // A million keys must not pay for room that they do not use.
        self.counters.reserve_exact(rule.limits.len());
        for (limit, usage) in rule.limits.iter().zip(usages) {
            let notices = mem::take(&mut notices);
            let forget = forget(limit, &usage, &notices, now);
            if forget > now {
                let name = limit.name.clone();
                self.counters.push(Counter { name, usage, notices, forget });
            }
        }
    }

    /// Whether it counts under the names of a rule and no others.
    fn is_of(&self, rule: &Rule) -> bool {
        let (counters, limits) = (&self.counters, &rule.limits);
        counters.len() == limits.len()
            && counters.iter().zip(limits).all(|(counter, limit)| counter.is_of(limit))
    }

    /// How many live counters there are besides those of a rule.
    pub(super) fn others(&self, rule: &Rule, now: Timestamp) -> usize {
        let ours = |counter: &&Counter| rule.limits.iter().any(|limit| counter.is_of(limit));
        self.live(now).filter(|counter| !ours(counter)).count()
    }

    /// Forgets all usage; whether there was any.
    pub(super) fn reset(&mut self, now: Timestamp) -> bool {
        let existed = self.live(now).next().is_some();
        self.counters = Counters::new();
        existed
    }

    /// The ban record, if it still matters.
    pub(super) fn ban(&self, now: Timestamp) -> Option<&BanRecord> {
        self.ban.as_deref().filter(|ban| ban.forget > now)
    }

    fn live(&self, now: Timestamp) -> impl Iterator<Item = &Counter> {
        self.counters.iter().filter(move |counter| counter.forget > now)
    }
}

impl State for Meter {
    const CAPABILITY: &'static str = "rate";

    fn sweep(&mut self, now: Timestamp, budget: usize, _: &mut Bin) -> usize {
        self.counters.retain(|counter| counter.forget > now);
        self.ban.take_if(|ban| ban.forget <= now);
        self.replays.sweep(now, budget)
    }

    fn is_vacant(&self, now: Timestamp) -> bool {
        self.live(now).next().is_none() && self.ban(now).is_none() && self.replays.is_empty()
    }
}
