//! What the embedded engine keeps of one key under one policy.

use std::collections::HashMap;

use super::{
    ban::BanRecord,
    check::Answer,
    rule::Rule,
    usage::{Kind, Usage},
};
use crate::{decision::State, time::Timestamp};

/// A key's usage, its ban, and the answers kept for repeats.
#[derive(Debug, Default)]
pub struct Meter {
    pub(super) counters: Vec<Counter>,
    pub(super) ban: Option<Box<BanRecord>>,
    replays: Option<Box<Replays>>,
}

/// Answers by `request_id`, each until an instant.
type Replays = HashMap<Box<[u8]>, (Timestamp, Answer)>;

/// What was used under one name of a limit.
#[derive(Debug)]
pub(super) struct Counter {
    name: Box<[u8]>,
    usage: Usage,
    notices: Notices,
    /// From then on it is as if it had never been.
    forget: Timestamp,
}

/// What was used of each limit of a rule, at an instant.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) usages: Vec<Usage>,
    /// The notices of the first limit.
    pub(super) notices: Notices,
    /// Whether the clock has been set back since some of it was put down.
    pub(super) ahead: bool,
}

/// The levels that notices went out for, and when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Notices(Vec<(u32, Timestamp)>);

impl Notices {
    /// Those of the present window, which began at `since`.
    fn since(&self, since: u64) -> Notices {
        Notices(self.0.iter().copied().filter(|(_, at)| at.0 >= since).collect())
    }

    pub(super) fn contains(&self, above: u32) -> bool {
        self.0.iter().any(|notice| notice.0 == above)
    }

    pub(super) fn add(&mut self, above: u32, now: Timestamp) {
        self.0.push((above, now));
    }
}

impl Meter {
    /// What was used of each limit of a rule, now.
    pub(super) fn load(&self, rule: &Rule, now: Timestamp) -> Loaded {
        let (mut notices, mut ahead) = (Notices::default(), false);
        let usages = rule.limits.iter().enumerate().map(|(index, limit)| {
            let counter = self.live(now).find(|counter| counter.name == limit.name);
            let stored = counter.map(|counter| &counter.usage);
            let stored = stored.filter(|usage| usage.kind() == Kind::of(limit.algorithm));
            ahead |= stored.is_some_and(|usage| usage.is_ahead(limit, now));
            let usage = Usage::load(limit, stored, now);
            if let Some(counter) = counter.filter(|_| index == 0) {
                notices = counter.notices.since(usage.notices_since(limit, now));
            }
            usage
        });
        Loaded { usages: usages.collect(), notices, ahead }
    }

    /// Puts down what is used of each limit of a rule.
    pub(super) fn store(
        &mut self,
        rule: &Rule,
        usages: Vec<Usage>,
        mut notices: Notices,
        now: Timestamp,
    ) {
        let ours = |counter: &Counter| rule.limits.iter().any(|limit| limit.name == counter.name);
        self.counters.retain(|counter| counter.forget > now && !ours(counter));
        for (limit, usage) in rule.limits.iter().zip(usages) {
            let notices = std::mem::take(&mut notices);
            let noticed = if notices.0.is_empty() { 0 } else { limit.window.micros() };
            let forget = Timestamp(now.0 + usage.reset(limit, now).max(noticed));
            if forget > now {
                let name = limit.name.clone();
                self.counters.push(Counter { name, usage, notices, forget });
            }
        }
    }

    /// How many live counters there are besides those of a rule.
    pub(super) fn others(&self, rule: &Rule, now: Timestamp) -> usize {
        let ours = |counter: &&Counter| rule.limits.iter().any(|l| l.name == counter.name);
        self.live(now).filter(|counter| !ours(counter)).count()
    }

    /// Forgets all usage; whether there was any.
    pub(super) fn reset(&mut self, now: Timestamp) -> bool {
        let existed = self.live(now).next().is_some();
        self.counters = Vec::new();
        existed
    }

    /// The ban record, if it still matters.
    pub(super) fn ban(&self, now: Timestamp) -> Option<&BanRecord> {
        self.ban.as_deref().filter(|ban| ban.forget > now)
    }

    pub(super) fn replay(&self, request: &[u8], now: Timestamp) -> Option<&Answer> {
        let (forget, answer) = self.replays.as_ref()?.get(request)?;
        (*forget > now).then_some(answer)
    }

    pub(super) fn keep(&mut self, request: &[u8], answer: Answer, forget: Timestamp) {
        self.replays.get_or_insert_default().insert(request.into(), (forget, answer));
    }

    fn live(&self, now: Timestamp) -> impl Iterator<Item = &Counter> {
        self.counters.iter().filter(move |counter| counter.forget > now)
    }
}

impl State for Meter {
    const CAPABILITY: &'static str = "rate";

    // All of it: a key has few counters, and an answer is kept for minutes.
    fn sweep(&mut self, now: Timestamp, _: usize) {
        self.counters.retain(|counter| counter.forget > now);
        self.ban.take_if(|ban| ban.forget <= now);
        if let Some(replays) = &mut self.replays {
            replays.retain(|_, (forget, _)| *forget > now);
        }
        self.replays.take_if(|replays| replays.is_empty());
    }

    fn is_vacant(&self, now: Timestamp) -> bool {
        self.live(now).next().is_none() && self.ban(now).is_none() && self.replays.is_none()
    }
}
