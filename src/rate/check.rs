//! `CheckRate`: counts a call of a key and says whether it may pass.

use std::sync::Arc;

use super::{
    Ban, Meter, MeterName, NAMES_MAX, REPLAY, Rule, Tier, TierAction,
    ban::BanRecord,
    meter::{Loaded, Notices},
    unknown_status,
    usage::Usage,
};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    error::Error,
    names::Name,
    script::{self, Script},
    time::{Millis, Timestamp},
};

/// Asks whether a call of a key may pass.
#[derive(Debug, Clone)]
pub struct CheckRate {
    /// Who is counted, and under which policy.
    pub name: MeterName,
    /// What it is counted against.
    pub rule: Arc<Rule>,
    /// How much it counts; 0 writes nothing and looks as for 1.
    pub cost: u32,
    /// Names the call, so that a repeat gets the first answer.
    pub request: Option<Name>,
}

/// The answer, if the key can be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// Whether the call may pass.
    Decided {
        /// The answer.
        answer: Answer,
        /// Whether an earlier call with this request got it.
        replayed: bool,
    },
    /// The key has usage under [`NAMES_MAX`] other names of limits.
    TooManyNames,
}

/// Whether a call may pass, and what is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether it may pass.
    pub verdict: Verdict,
    /// Whether this call is the one to send a notice for.
    pub crossed: bool,
    /// When the same call passes; none when it may pass now.
    pub retry_after: Option<Millis>,
    /// The ban in force.
    pub ban: Option<Ban>,
    /// The limits in the rule's order.
    pub limits: Vec<LimitUse>,
}

/// Whether a call may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Allow,
    /// It may; a WARN tier is reached.
    Warn,
    /// It may not.
    Throttle,
    /// The key is banned.
    Ban,
}

impl Answer {
    /// Whether the call may pass.
    pub fn is_allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allow | Verdict::Warn)
    }
}

/// How much of a limit is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitUse {
    /// How much.
    pub count: u32,
    /// When all of it is given back.
    pub reset_after: Millis,
}

/// A check under way: what is used before and, if it passes, after it.
struct Check<'a> {
    rule: &'a Rule,
    cost: u32,
    now: Timestamp,
    usages: Vec<Usage>,
    notices: Notices,
    /// Whether there is anything to put down.
    changed: bool,
}

/// What came of it: verdict, notice, and when to come again, in µs.
type Judged = (Verdict, bool, u64);

impl Check<'_> {
    fn wait(&self, index: usize) -> u64 {
        self.usages[index].wait(&self.rule.limits[index], self.cost, self.now)
    }

    fn longest_wait(&self) -> u64 {
        (0..self.usages.len()).map(|index| self.wait(index)).max().unwrap_or(0)
    }

    fn tier(&self) -> Option<(usize, &Tier)> {
        let count = u64::from(self.usages[0].count(self.now)) + u64::from(self.cost);
        self.rule.level(count).map(|level| (level, &self.rule.tiers[level]))
    }

    /// Counts the call on the first so many limits.
    fn spend(&mut self, limits: usize) {
        for usage in &mut self.usages[..limits] {
            usage.spend(self.cost, self.now);
        }
        self.changed = true;
    }

    /// Whether this call is the first of its window on a level. The levels
    /// below are passed with it.
    fn cross(&mut self, level: usize) -> bool {
        if self.notices.contains(self.rule.tiers[level].above) {
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

    /// Judges a key that is not banned, and whose count reaches no ban.
    fn judge(&mut self, look: bool) -> Judged {
        let tier = self.tier().map(|(level, tier)| (level, tier.action));
        let others = (1..self.usages.len()).map(|index| self.wait(index)).max().unwrap_or(0);
        let first = self.wait(0);
        if others > 0 {
            return (Verdict::Throttle, false, others.max(first));
        }
        if first > 0 {
            let mut crossed = false;
            if !look {
                let further = &self.rule.tiers[tier.map_or(0, |(level, _)| level + 1)..];
                // Only so does a count that is throttled ever reach a further
                // tier; the last one is the least mild.
                if further.last().is_some_and(|tier| tier.action != TierAction::Warn) {
                    self.spend(1);
                }
                if let Some((level, TierAction::Throttle)) = tier {
                    crossed = self.cross(level);
                }
            }
            return (Verdict::Throttle, crossed, self.wait(0));
        }
        if !look {
            self.spend(self.usages.len());
        }
        match tier {
            Some((level, _)) => (Verdict::Warn, !look && self.cross(level), 0),
            None => (Verdict::Allow, false, 0),
        }
    }
}

impl CheckRate {
    fn look(&self) -> bool {
        self.cost == 0
    }

    fn answer(&self, meter: &mut Meter, now: Timestamp) -> Answer {
        let Loaded { usages, notices, ahead } = meter.load(&self.rule, now);
        let (cost, changed) = (self.cost.max(1), ahead && !self.look());
        let mut check = Check { rule: &self.rule, cost, now, usages, notices, changed };
        let known = meter.ban(now);
        let in_force = known.filter(|ban| ban.until > now).cloned();
        let ban_tier = check.tier().filter(|(_, tier)| tier.action == TierAction::Ban);

        let (mut new, mut ban) = (None, in_force);
        let judged = if let Some(ban) = &ban {
            (Verdict::Ban, false, (ban.until.0 - now.0).max(check.longest_wait()))
        } else if let Some((level, tier)) = ban_tier {
            let strikes = known.map_or(0, |ban| ban.strikes).saturating_add(1);
            let length = tier.ban_duration(strikes);
            let retry = length.micros().max(check.longest_wait());
            if self.look() {
                (Verdict::Ban, false, retry)
            } else {
                let reason = format!("above {}", tier.above).into_bytes();
                new = Some(BanRecord::new(now, length, self.rule.ban_memory, strikes, reason));
                ban = new.clone();
                (Verdict::Ban, check.cross(level), retry)
            }
        } else {
            check.judge(self.look())
        };

        let (verdict, crossed, retry) = judged;
        let limits = check.usages.iter().zip(&self.rule.limits).map(|(usage, limit)| LimitUse {
            count: usage.count(now),
            reset_after: Millis(usage.reset(limit, now).div_ceil(1000)),
        });
        let answer = Answer {
            verdict,
            crossed,
            retry_after: (retry > 0).then(|| Millis(retry.div_ceil(1000))),
            ban: ban.map(Ban::from),
            limits: limits.collect(),
        };
        if let Some(request) = self.request.as_ref().filter(|_| check.changed || new.is_some()) {
            // A refusal is not repeated once the same call would pass.
            let keep = if retry > 0 { REPLAY.micros().min(retry) } else { REPLAY.micros() };
            meter.keep(request.as_bytes(), answer.clone(), Timestamp(now.0 + keep));
        }
        if check.changed {
            meter.store(&self.rule, check.usages, check.notices, now);
        }
        if let Some(new) = new {
            meter.ban = Some(Box::new(new));
        }
        answer
    }
}

impl Decision for CheckRate {
    type State = Meter;
    type Outcome = Checked;

    const SCRIPT: &'static Script = &script::CHECK_RATE;

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn encode(&self, call: &mut Call) {
        let request = self.request.as_ref().map_or(&[][..], Name::as_bytes);
        call.key(&[b"usage"]);
        call.key(&[b"ban"]);
        call.key(&[b"replay:", request]);
        call.number(self.cost.into());
        let [limits, tiers] = &self.rule.packed;
        call.bytes(&[limits]);
        call.bytes(&[tiers]);
        call.number(self.rule.ban_memory.micros());
        call.number(if request.is_empty() { 0 } else { REPLAY.micros() });
    }

    fn parse(reply: &mut Reply) -> Result<Checked, Error> {
        const CROSSED: u64 = 1;
        const REPLAYED: u64 = 2;
        const BANNED: u64 = 4;

        let verdict = match reply.number()? {
            0 => Verdict::Allow,
            1 => Verdict::Warn,
            2 => Verdict::Throttle,
            3 => Verdict::Ban,
            4 => return Ok(Checked::TooManyNames),
            status => return unknown_status(status),
        };
        let (flags, retry) = (reply.number()?, reply.number()?);
        let ban = if flags & BANNED != 0 { Some(Ban::parse(reply)?) } else { None };
        let mut limits = Vec::with_capacity(2);
        while reply.has_more() {
            let count = u32::try_from(reply.number()?).unwrap_or(u32::MAX);
            limits.push(LimitUse { count, reset_after: Millis(reply.number()?) });
        }
        let retry_after = (retry > 0).then_some(Millis(retry));
        let answer = Answer { verdict, crossed: flags & CROSSED != 0, retry_after, ban, limits };
        Ok(Checked::Decided { answer, replayed: flags & REPLAYED != 0 })
    }

    fn decide(&self, meter: &mut Meter, now: Timestamp) -> Checked {
        let request = self.request.as_ref().filter(|_| !self.look()).map(Name::as_bytes);
        if let Some(answer) = request.and_then(|request| meter.replay(request, now)) {
            return Checked::Decided { answer: answer.clone(), replayed: true };
        }
        if meter.others(&self.rule, now) + self.rule.limits.len() > NAMES_MAX {
            return Checked::TooManyNames;
        }
        Checked::Decided { answer: self.answer(meter, now), replayed: false }
    }
}
