//! The export lines of rates.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{
    Answer, Ban, BanIndex, FILL_MAX, LIMITS_MAX, Meter, MeterName, NAMES_MAX,
    ban_record::BanRecord,
    meter::LimitCounter,
    record::{BANNED, REPLAY},
    rule::WINDOW_COUNT_MAX,
    usage::Usage,
};
use crate::{
    names::Name,
    record::{Changes, Checked, EntryLine, Text, Unreadable, decode, encode},
    time::Timestamp,
};

/// A key. Without a policy, the rule comes with each call.
#[derive(Debug, Serialize, Deserialize)]
struct Of {
    /// The policy; `None` for rules that come with calls.
    policy: Option<Text>,
    /// The key.
    key: Text,
}

/// The usage and the ban of a key.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLine {
    #[serde(flatten)]
    of: Of,
    /// The usage, by limit name.
    #[serde(default)]
    counters: Vec<LimitCounter>,
    /// The last ban, while it counts as a strike.
    ban: Option<Box<BanRecord>>,
}

/// A replay-cache entry: the answer to a rate request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerLine {
    #[serde(flatten)]
    of: Of,
    /// The request id.
    request: Text,
    #[serde(flatten)]
    answer: Answer,
    /// Until when a repeat gets this answer, in µs.
    forget: Timestamp,
}

impl Of {
    fn new(partition: &[u8]) -> Result<Of, Unreadable> {
        let (policy, key) = MeterName::split(partition).ok_or_else(|| {
            Unreadable("the partition has no separator between policy and key".to_owned())
        })?;
        Ok(Of { policy: policy.map(Text::new), key: Text::new(key) })
    }

    /// Returns the partition.
    fn name(&self) -> Result<MeterName, &'static str> {
        let parse = |name: &Text| Name::parse(Bytes::from(name.0.clone()));
        let policy = self.policy.as_ref().map(parse).transpose()?;
        Ok(MeterName::new(policy.as_ref(), &parse(&self.key)?))
    }

    fn check(&self, checked: &mut Checked) {
        self.policy.iter().for_each(|policy| checked.name("policy", policy));
        checked.name("key", &self.key);
    }
}

impl RateLine {
    /// Returns the line of a head.
    pub fn from_entry(partition: &[u8], value: &[u8]) -> Result<RateLine, Unreadable> {
        let (counters, ban) = decode(value)?;
        Ok(RateLine { of: Of::new(partition)?, counters, ban })
    }
}

impl AnswerLine {
    /// Returns the line of a stored answer.
    pub fn from_entry(partition: &[u8], request: &[u8], value: &[u8]) -> Result<Self, Unreadable> {
        let (forget, answer) = decode(value)?;
        Ok(AnswerLine { of: Of::new(partition)?, request: Text::new(request), answer, forget })
    }
}

impl EntryLine for RateLine {
    fn check(&self, checked: &mut Checked) {
        self.of.check(checked);
        checked.at_most("counters", self.counters.len() as u64, NAMES_MAX as u64);
        for counter in &self.counters {
            let notices = counter.notices.tiers();
            checked.part("limit", &counter.name);
            checked.times([("forget", counter.forget)]);
            checked.at_most("notices", notices.len() as u64, 32);
            notices.iter().for_each(|(_, at)| checked.times([("at", *at)]));
            check_usage(&counter.usage, checked);
        }
        if let Some(ban) = &self.ban {
            checked.times([("forget", ban.forget)]);
            check_ban(&Ban::from((**ban).clone()), checked);
        }
    }

    /// Returns when all usage and the ban have expired.
    fn forget(&self) -> Option<u64> {
        let counters = self.counters.iter().map(|counter| counter.forget.0);
        let ban = self.ban.as_ref().map(|ban| ban.forget.0);
        Some(counters.chain(ban).max().unwrap_or(0))
    }

    /// A ban also gets an entry in the ban index.
    fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
        let counters: Vec<LimitCounter> =
            self.counters.iter().map(LimitCounter::exported).collect();
        let mut head = Vec::new();
        encode(&(counters, &self.ban), &mut head);
        to.set_partition::<Meter>(self.of.name()?.as_bytes());
        to.head(&head);
        if let (Some(policy), Some(ban)) = (&self.of.policy, &self.ban) {
            to.set_partition::<BanIndex>(&policy.0);
            to.put(&[&[BANNED], &self.of.key.0], &ban.until);
        }
        Ok(())
    }
}

impl EntryLine for AnswerLine {
    fn check(&self, checked: &mut Checked) {
        let Answer { retry_after, limits, ban, .. } = &self.answer;
        self.of.check(checked);
        checked.name("request", &self.request);
        checked.times([("forget", self.forget)]);
        checked.token("retry_after_ms", retry_after.map_or(0, |retry| retry.0));
        checked.at_most("limits", limits.len() as u64, LIMITS_MAX as u64);
        limits.iter().for_each(|limit| checked.token("reset_after_ms", limit.reset_after.0));
        ban.iter().for_each(|ban| check_ban(ban, checked));
    }

    fn forget(&self) -> Option<u64> {
        Some(self.forget.0)
    }

    fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
        to.set_partition::<Meter>(self.of.name()?.as_bytes());
        to.put(&[&[REPLAY], &self.request.0], &(self.forget, &self.answer));
        Ok(())
    }
}

/// Checks that the numbers describe a state that the algorithm can reach.
fn check_usage(usage: &Usage, checked: &mut Checked) {
    match usage {
        Usage::Fixed(window) | Usage::Calendar(window) => {
            checked.times([("start", window.start)]);
            checked.at_most("count", window.count, WINDOW_COUNT_MAX);
        }
        Usage::Sliding(window) => {
            let (width, buckets) = (window.width, &window.buckets);
            let last = buckets.last().map_or(0, |(number, _)| *number);
            checked.at_most("buckets", buckets.len() as u64, 255);
            checked.times([("buckets", Timestamp(last.saturating_mul(width)))]);
            let first = buckets.first().map_or(0, |(number, _)| *number);
            // A number occurs twice if its count exceeds 32 bits.
            let thrice = buckets.windows(3).any(|three| three[0].0 == three[2].0);
            let rises = buckets.is_sorted_by_key(|(number, _)| *number) && !thrice;
            if width == 0 || !rises || last - first.min(last) > 255 {
                checked.refuse(
                    "width must not be 0, and the numbers of buckets must rise and span at most \
                     255"
                    .to_owned(),
                );
            }
        }
        Usage::Bucket(of) => {
            checked.times([("tat", Timestamp(of.tat)), ("seen", of.seen)]);
            checked.times([("window", Timestamp(of.window))]);
            let fits = of.max > of.part || of.max == 0 && of.part == 0;
            let debt = of.tat.saturating_sub(of.seen.0);
            if !fits || of.window == 0 || debt > FILL_MAX.micros() {
                checked.refuse("tat, part, max, window and seen contradict each other".to_owned());
            }
        }
    }
}

fn check_ban(ban: &Ban, checked: &mut Checked) {
    checked.times([("until", ban.until)]);
    checked.part("reason", &ban.reason);
    checked.part("actor", &ban.actor);
}
