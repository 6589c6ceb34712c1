//! What is kept of a key's rates, as lines of an archive and back.

use bytes::Bytes;

use super::{
    Answer, Ban, BanIndex, LimitUse, Meter, MeterName, Verdict,
    ban::BanRecord,
    meter::{Counter, Notices},
    record::{BANNED, REPLAY},
    sliding_window::SlidingWindow,
    token_bucket::TokenBucket,
    usage::Usage,
    window::Window,
};
use crate::{
    archive::{
        AnswerLine, BanLine, CounterLine, LimitLine, Line, NoticeLine, RateLine, Text, UsageLine,
        VerdictName,
    },
    names::Name,
    record::{Changes, Unreadable, decode, encode, split_part, unknown_part},
    time::{Millis, Timestamp},
};

impl Meter {
    /// The line that an entry is.
    pub(crate) fn archive(partition: &[u8], part: &[u8], value: &[u8]) -> Result<Line, Unreadable> {
        let named = MeterName::split(partition);
        let (policy, key) = named.ok_or_else(|| Unreadable("a key without a name".to_owned()))?;
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

fn ban_line(ban: Ban) -> BanLine {
    BanLine {
        until: ban.until.0,
        forget: None,
        strikes: ban.strikes,
        reason: Text(ban.reason),
        actor: Text(ban.actor),
    }
}

/// The unit of atomicity of a key under a policy.
fn name(policy: Option<&Text>, key: &Text) -> Result<MeterName, &'static str> {
    let parse = |name: &Text| Name::parse(Bytes::from(name.0.clone()));
    Ok(MeterName::new(policy.map(parse).transpose()?.as_ref(), &parse(key)?))
}

impl RateLine {
    /// The unit of atomicity.
    pub(crate) fn name(&self) -> Result<MeterName, &'static str> {
        name(self.policy.as_ref(), &self.key)
    }

    /// Appends the entries that it is: its place among a policy's bans is one of its own.
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
    /// The unit of atomicity.
    pub(crate) fn name(&self) -> Result<MeterName, &'static str> {
        name(self.policy.as_ref(), &self.key)
    }

    /// Appends the entry that it is.
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
    fn ban(&self) -> Ban {
        let (reason, actor) = (self.reason.0.clone(), self.actor.0.clone());
        Ban { until: Timestamp(self.until), strikes: self.strikes, reason, actor }
    }
}

impl CounterLine {
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
            // The burst is the limit's, whatever it is now.
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
