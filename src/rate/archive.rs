//! Export and import of rates: persisted entries as lines of an export file, and back.

use bytes::Bytes;

use super::{
    Answer, Ban, BanIndex, FILL_MAX, LIMITS_MAX, LimitUse, Meter, MeterName, NAMES_MAX, Verdict,
    ban_record::BanRecord,
    meter::{Counter, Notices},
    record::{BANNED, REPLAY},
    sliding_window::SlidingWindow,
    token_bucket::TokenBucket,
    usage::Usage,
    window::Window,
};
use crate::decision::{
    export::{
        AnswerLine, BanLine, Checked, CounterLine, LimitLine, Line, NoticeLine, RateLine, Text,
        UsageLine, VerdictName,
    },
    names::Name,
    persistence::{Changes, Unreadable, decode, encode, split_part, unknown_part},
    time::{Millis, Timestamp},
};

impl Meter {
    /// The line of a persisted entry.
    pub(crate) fn archive(partition: &[u8], part: &[u8], value: &[u8]) -> Result<Line, Unreadable> {
        let named = MeterName::split(partition);
        let (policy, key) = named.ok_or_else(|| {
            Unreadable("the partition has no separator between policy and key".to_owned())
        })?;
        let (policy, key) = (policy.map(Text::new), Text::new(key));
        match split_part(part) {
            (0, _) => {
                let (counters, ban) = decode::<(Vec<Counter>, Option<Box<BanRecord>>)>(value)?;
                let counters = counters.into_iter().map(counter_line).collect();
                let ban = ban.map(|ban| {
                    let BanRecord { until, forget, strikes, reason, actor } = *ban;
                    let ban = Ban { until, strikes, reason, actor };
                    BanLine { forget: Some(forget.0), ..ban_line(ban) }
                });
                Ok(Line::Rate(RateLine { policy, key, counters, ban }))
            }
            (REPLAY, request) => {
                let (forget, answer) = decode::<(Timestamp, Answer)>(value)?;
                let limits = answer.limits.iter().map(|limit| LimitLine {
                    count: limit.count,
                    reset_after_ms: limit.reset_after.0,
                });
                Ok(Line::RateReplay(AnswerLine {
                    policy,
                    key,
                    request: Text::new(request),
                    verdict: match answer.verdict {
                        Verdict::Allow => VerdictName::Allow,
                        Verdict::Warn => VerdictName::Warn,
                        Verdict::Throttle => VerdictName::Throttle,
                        Verdict::Ban => VerdictName::Ban,
                    },
                    crossed: answer.crossed,
                    retry_after_ms: answer.retry_after.map(|retry| retry.0),
                    limits: limits.collect(),
                    ban: answer.ban.map(ban_line),
                    forget: forget.0,
                }))
            }
            _ => unknown_part(part),
        }
    }
}

/// The line of a counter.
fn counter_line(counter: Counter) -> CounterLine {
    let notices = counter.notices.tiers().iter();
    let notices = notices.map(|(above, at)| NoticeLine { above: *above, at: at.0 }).collect();
    let usage = match counter.usage {
        Usage::Fixed(Window { start, count }) => UsageLine::FixedWindow { start: start.0, count },
        Usage::Calendar(Window { start, count }) => {
            UsageLine::CalendarWindow { start: start.0, count }
        }
        Usage::Sliding(window) => {
            let SlidingWindow { width, buckets } = *window;
            UsageLine::SlidingWindow { width, buckets }
        }
        Usage::Bucket(bucket) => {
            let TokenBucket { tat, part, max, window, seen, .. } = *bucket;
            UsageLine::TokenBucket { tat, part, max, window, seen: seen.0 }
        }
    };
    CounterLine { limit: Text(counter.name.to_vec()), usage, notices, forget: counter.forget.0 }
}

/// The line of a ban, without its forget time.
fn ban_line(ban: Ban) -> BanLine {
    BanLine {
        until: ban.until.0,
        forget: None,
        strikes: ban.strikes,
        reason: Text(ban.reason),
        actor: Text(ban.actor),
    }
}

/// The partition of a key under a policy.
fn name(policy: Option<&Text>, key: &Text) -> Result<MeterName, &'static str> {
    let parse = |name: &Text| Name::parse(Bytes::from(name.0.clone()));
    Ok(MeterName::new(policy.map(parse).transpose()?.as_ref(), &parse(key)?))
}

impl RateLine {
    /// The partition.
    pub(crate) fn name(&self) -> Result<MeterName, &'static str> {
        name(self.policy.as_ref(), &self.key)
    }

    /// Appends the entries of this line to a write batch. A ban also gets an entry in the ban
    /// index.
    pub(crate) fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
        let counters: Vec<Counter> = self.counters.iter().map(CounterLine::counter).collect();
        let ban = self.ban.as_ref().map(|ban| {
            let Ban { until, strikes, reason, actor } = ban.ban();
            let forget = Timestamp(ban.forget.unwrap_or(until.0));
            Box::new(BanRecord { until, forget, strikes, reason, actor })
        });
        let mut head = Vec::new();
        encode(&(counters, ban), &mut head);
        to.of::<Meter>(self.name()?.as_bytes());
        to.head(&head);
        if let (Some(policy), Some(ban)) = (&self.policy, &self.ban) {
            to.of::<BanIndex>(&policy.0);
            to.put(&[&[BANNED], &self.key.0], &Timestamp(ban.until));
        }
        Ok(())
    }
}

impl AnswerLine {
    /// The partition.
    pub(crate) fn name(&self) -> Result<MeterName, &'static str> {
        name(self.policy.as_ref(), &self.key)
    }

    /// Appends the entry of this line to a write batch.
    pub(crate) fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
        let limits = self.limits.iter().map(|limit| LimitUse {
            count: limit.count,
            reset_after: Millis(limit.reset_after_ms),
        });
        let answer = Answer {
            verdict: match self.verdict {
                VerdictName::Allow => Verdict::Allow,
                VerdictName::Warn => Verdict::Warn,
                VerdictName::Throttle => Verdict::Throttle,
                VerdictName::Ban => Verdict::Ban,
            },
            crossed: self.crossed,
            retry_after: self.retry_after_ms.map(Millis),
            ban: self.ban.as_ref().map(BanLine::ban),
            limits: limits.collect(),
        };
        to.of::<Meter>(self.name()?.as_bytes());
        to.put(&[&[REPLAY], &self.request.0], &(Timestamp(self.forget), answer));
        Ok(())
    }
}

impl BanLine {
    /// The ban of this line.
    fn ban(&self) -> Ban {
        let (reason, actor) = (self.reason.0.clone(), self.actor.0.clone());
        Ban { until: Timestamp(self.until), strikes: self.strikes, reason, actor }
    }
}

impl CounterLine {
    /// The counter of this line.
    fn counter(&self) -> Counter {
        let usage = match &self.usage {
            UsageLine::FixedWindow { start, count } => {
                Usage::Fixed(Window { start: Timestamp(*start), count: *count })
            }
            UsageLine::CalendarWindow { start, count } => {
                Usage::Calendar(Window { start: Timestamp(*start), count: *count })
            }
            UsageLine::SlidingWindow { width, buckets } => {
                Usage::Sliding(Box::new(SlidingWindow { width: *width, buckets: buckets.clone() }))
            }
            // The burst is not exported; it comes from the current limit.
            UsageLine::TokenBucket { tat, part, max, window, seen } => {
                let (tat, part, max, window) = (*tat, *part, *max, *window);
                let seen = Timestamp(*seen);
                Usage::Bucket(Box::new(TokenBucket { tat, part, max, burst: max, window, seen }))
            }
        };
        let mut notices = Notices::default();
        self.notices.iter().for_each(|notice| notices.add(notice.above, Timestamp(notice.at)));
        let (name, forget) = (self.limit.0.clone().into(), Timestamp(self.forget));
        Counter { name, usage, notices, forget }
    }
}

impl RateLine {
    /// When all usage and the ban have expired, µs.
    pub(crate) fn forget(&self) -> u64 {
        let counters = self.counters.iter().map(|counter| counter.forget);
        let ban = self.ban.as_ref().and_then(|ban| ban.forget);
        counters.chain(ban).max().unwrap_or(0)
    }

    pub(crate) fn check(&self, checked: &mut Checked) {
        check_key(self.policy.as_ref(), &self.key, checked);
        checked.at_most("counters", self.counters.len() as u64, NAMES_MAX as u64);
        for counter in &self.counters {
            checked.part("limit", &counter.limit);
            checked.times([("forget", counter.forget)]);
            checked.at_most("notices", counter.notices.len() as u64, 32);
            counter.notices.iter().for_each(|notice| checked.times([("at", notice.at)]));
            counter.usage.check(checked);
        }
        if let Some(ban) = &self.ban {
            ban.check(checked);
            if ban.forget.is_none() {
                checked.refuse("ban.forget is required".to_owned());
            }
        }
    }
}

impl UsageLine {
    /// Checks that the numbers describe a state that the algorithm can reach.
    fn check(&self, checked: &mut Checked) {
        match self {
            UsageLine::FixedWindow { start, .. } | UsageLine::CalendarWindow { start, .. } => {
                checked.times([("start", *start)]);
            }
            UsageLine::SlidingWindow { width, buckets } => {
                let last = buckets.last().map_or(0, |(number, _)| *number);
                checked.at_most("buckets", buckets.len() as u64, 255);
                checked.times([("buckets", last.saturating_mul(*width))]);
                let first = buckets.first().map_or(0, |(number, _)| *number);
                let rises = buckets.is_sorted_by(|(one, _), (next, _)| one < next);
                if *width == 0 || !rises || last - first.min(last) > 255 {
                    checked.refuse(
                        "width must not be 0, and the numbers of buckets must rise and span at \
                         most 255"
                            .to_owned(),
                    );
                }
            }
            UsageLine::TokenBucket { tat, part, max, window, seen } => {
                checked.times([("tat", *tat), ("seen", *seen), ("window", *window)]);
                let fits = *max > *part || *max == 0 && *part == 0;
                if !fits || *window == 0 || tat.saturating_sub(*seen) > FILL_MAX.micros() {
                    checked
                        .refuse("tat, part, max, window and seen contradict each other".to_owned());
                }
            }
        }
    }
}

impl BanLine {
    fn check(&self, checked: &mut Checked) {
        checked.times([("until", self.until), ("forget", self.forget.unwrap_or(0))]);
        checked.part("reason", &self.reason);
        checked.part("actor", &self.actor);
    }
}

impl AnswerLine {
    pub(crate) fn check(&self, checked: &mut Checked) {
        check_key(self.policy.as_ref(), &self.key, checked);
        checked.name("request", &self.request);
        checked.times([("forget", self.forget)]);
        checked.times([("retry_after_ms", self.retry_after_ms.unwrap_or(0))]);
        checked.at_most("limits", self.limits.len() as u64, LIMITS_MAX as u64);
        let resets = self.limits.iter().map(|limit| limit.reset_after_ms);
        resets.for_each(|reset| checked.times([("reset_after_ms", reset)]));
        if let Some(ban) = &self.ban {
            ban.check(checked);
        }
    }
}

fn check_key(policy: Option<&Text>, key: &Text, checked: &mut Checked) {
    if let Some(policy) = policy {
        checked.name("policy", policy);
    }
    checked.name("key", key);
}
