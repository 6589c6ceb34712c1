//! Export and import of rates: usage, bans and answers in Redis as entries, and back.
//!
//! Between Rust and the scripts a counter is a name and plain numbers (`lua/lib/usage_numbers.lua`
//! lists them by algorithm). Only the scripts know the bytes in which Redis stores them. Events are
//! not exported: watchers of the new store start with an empty history.

use bytes::Bytes;

use super::{
    Answer, Ban, IndexBan, LimitUse, Meter, MeterName, Verdict,
    ban_record::BanRecord,
    meter::{LimitCounter, Notices},
    name::key_part,
    record::{BANNED, REPLAY},
    sliding_window::SlidingWindow,
    token_bucket::TokenBucket,
    usage::Usage,
    window::Window,
};
use crate::{
    Call, Cost, Reply,
    error::Error,
    names::{Name, Namespace, SEPARATOR},
    record::{
        Entry, Export, Exported, Page, Parts, Source, Unreadable, decode, split_part,
        unknown_letter, unknown_part,
    },
    script::{self, Script},
    time::{Millis, Timestamp},
};

/// The source of usage and ban; an answer has [`REPLAY`].
const METER: u8 = b'm';

/// The persisted head.
type Head = (Vec<LimitCounter>, Option<Box<BanRecord>>);
/// A persisted answer.
type Stored = (Timestamp, Answer);

/// Returns the keys of both scripts.
fn keys(partition: &[u8], request: &[u8]) -> [Vec<u8>; 3] {
    let part = |part, request| key_part(partition, part, request);
    [part(b"usage", None), part(b"ban", None), part(b"replay", Some(request))]
}

impl Exported for Meter {
    const EXPORT: &'static Script = &script::rate::EXPORT;
    const IMPORT: &'static Script = &script::rate::IMPORT;
    const IMPORT_COST: Cost = Cost::from_micros(300);
    const UNEXPORTED: &'static [&'static [u8]] = &[b"events"];

    /// The key is in the part, after the kind, if it has a policy. Otherwise it is the tag.
    fn source(tag: &[u8], part: &[u8]) -> Option<(Vec<u8>, Source)> {
        let (kind, rest) = match part.iter().position(|byte| *byte == b':') {
            Some(at) => (&part[..at], &part[at + 1..]),
            None => (part, &[][..]),
        };
        // With a policy the rate key is in the part, without one in the tag.
        let (key, request) = match rest.iter().position(|byte| *byte == SEPARATOR) {
            _ if Namespace::split(tag).1.first() == Some(&SEPARATOR) => (None, rest),
            Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
            None => (Some(rest), &[][..]),
        };
        let partition = match key {
            Some(key) => [tag, &[SEPARATOR], key].concat(),
            None => tag.to_vec(),
        };
        let source = match kind {
            b"usage" | b"ban" => Source::new(METER, &[]),
            b"replay" => Source::new(REPLAY, request),
            _ => return None,
        };
        MeterName::split(&partition)?;
        Some((partition, source))
    }

    fn encode_export(export: &Export<Meter>, call: &mut Call) {
        keys(&export.partition, &export.source.name).iter().for_each(|part| call.key(&[part]));
        call.bytes(&[&[export.source.letter]]);
    }

    fn export_cost(_: &Export<Meter>) -> Cost {
        Cost::from_micros(300)
    }

    fn parse_entry(letter: &[u8], reply: &mut Reply) -> Result<Entry, Error> {
        match letter {
            [] => {
                let mut counters = Vec::new();
                while reply.number()? != 0 {
                    counters.push(parse_counter(reply)?);
                }
                counters.sort_by(|one, other| one.name.cmp(&other.name));
                let ban = match reply.number()? {
                    0 => None,
                    _ => Some(parse_record(reply)?),
                };
                Ok(Entry::new(&[], &(counters, ban)))
            }
            [REPLAY] => parse_answer(reply),
            _ => unknown_letter(letter),
        }
    }

    /// Removes counters that no longer have an effect. Sorts the others by name, like those of a
    /// reply, because the engines store them in different orders.
    fn page(&self, export: &Export<Meter>, now: Timestamp) -> Page {
        let Source { letter, name } = &export.source;
        if *letter == REPLAY {
            let answer = self.replays.entry(name, now);
            return Page::last(answer.map(|answer| Entry::new(&[&[REPLAY]], answer)));
        }
        let mut counters: Vec<LimitCounter> = self.live(now).map(LimitCounter::exported).collect();
        counters.sort_by(|one, other| one.name.cmp(&other.name));
        let ban = self.ban(now);
        let is_empty = counters.is_empty() && ban.is_none();
        Page::last((!is_empty).then(|| Entry::new(&[], &(counters, ban))))
    }

    fn import_arguments(
        partition: &[u8],
        part: &[u8],
        value: &[u8],
    ) -> Result<Option<Parts>, Unreadable> {
        let (letter, request) = split_part(part);
        let parts = Parts::new(keys(partition, request));
        match letter {
            0 => {
                let (counters, ban): Head = decode(value)?;
                let forget = counters.iter().map(|counter| counter.forget.0).max().unwrap_or(0);
                let names: Vec<u8> =
                    counters.iter().flat_map(|of| [&of.name[..], &[0]].concat()).collect();
                let numbers: Vec<u64> = counters.iter().flat_map(numbers_of_counter).collect();
                let parts = parts.bytes(&[METER]).numbers([forget]).bytes(&names).packed(&numbers);
                let ban = ban.map(|ban| *ban);
                let forget = ban.as_ref().map_or(0, |ban| ban.forget.0);
                Ok(Some(with_ban(parts, ban.map(Ban::from), forget)))
            }
            REPLAY => {
                let (forget, answer): Stored = decode(value)?;
                let retry = answer.retry_after.map_or(0, |retry| retry.0);
                let mut numbers = vec![answer.verdict as u64, answer.crossed.into(), retry];
                let limits = answer.limits.iter();
                numbers.extend(limits.flat_map(|of| [of.count, of.reset_after.0]));
                let parts = parts.bytes(&[REPLAY]).numbers([forget.0]).bytes(b"").packed(&numbers);
                Ok(Some(with_ban(parts, answer.ban, 0)))
            }
            _ => unknown_part(part),
        }
    }

    fn import(&mut self, part: &[u8], value: &[u8], now: Timestamp) -> Result<(), Unreadable> {
        match split_part(part) {
            (0, _) => {
                let (counters, ban): Head = decode(value)?;
                self.counters = counters.into_iter().filter(|of| of.forget > now).collect();
                self.ban = ban.filter(|ban| ban.forget > now);
            }
            (_, request) => {
                let (forget, answer): Stored = decode(value)?;
                if forget > now {
                    self.replays.insert(request, answer, forget, now);
                }
            }
        }
        Ok(())
    }
}

impl LimitCounter {
    /// Returns the counter as it is exported: the burst of a token bucket comes from the current
    /// limit.
    pub(super) fn exported(&self) -> LimitCounter {
        let mut usage = self.usage.clone();
        if let Usage::Bucket(bucket) = &mut usage {
            bucket.burst = bucket.max;
        }
        let mut notices = Notices::default();
        self.notices.tiers().iter().for_each(|(above, at)| notices.add(*above, *at));
        LimitCounter { name: self.name.clone(), usage, notices, forget: self.forget }
    }
}

impl IndexBan {
    /// Returns the decision that writes an entry of the ban index. `None` if the name is not valid.
    pub fn import(
        policy: &[u8],
        part: &[u8],
        value: &[u8],
    ) -> Result<Option<IndexBan>, Unreadable> {
        let (BANNED, key) = split_part(part) else { return unknown_part(part) };
        let policy = Name::stored(Bytes::copy_from_slice(policy));
        let key = Name::parse(Bytes::copy_from_slice(key));
        let (Ok(policy), Ok(key)) = (policy, key) else { return Ok(None) };
        let name = MeterName::new(Some(&policy), &key);
        Ok(Some(IndexBan { name, until: decode(value)? }))
    }
}

fn impossible<T>() -> Result<T, Error> {
    Err(Error::Corrupt("a script replied with an impossible usage".to_owned()))
}

/// Reads a number of at most 32 bits.
fn count(reply: &mut Reply) -> Result<u32, Error> {
    u32::try_from(reply.number()?).or_else(|_| impossible())
}

/// Reads a counter, as `lua/rate/export.lua` replies.
fn parse_counter(reply: &mut Reply) -> Result<LimitCounter, Error> {
    let (name, kind, forget) = (reply.bytes()?.into(), reply.number()?, Timestamp(reply.number()?));
    let mut notices = Notices::default();
    for _ in 0..reply.number()? {
        notices.add(count(reply)?, Timestamp(reply.number()?));
    }
    let mut numbers = Vec::new();
    for _ in 0..reply.number()? {
        numbers.push(reply.number()?);
    }
    let usage = usage_of(kind, &numbers).map_or_else(impossible, Ok)?;
    Ok(LimitCounter { name, usage, notices, forget })
}

/// Returns the usage of these numbers (`lua/lib/usage_numbers.lua`).
fn usage_of(kind: u64, numbers: &[u64]) -> Option<Usage> {
    let short = |number: u64| u32::try_from(number).ok();
    let window = |start: &u64, count: &u64| Window { start: Timestamp(*start), count: *count };
    Some(match (kind, numbers) {
        (1, [start, count]) => Usage::Fixed(window(start, count)),
        (2, [start, count]) => Usage::Calendar(window(start, count)),
        (3, [width, buckets @ ..]) => {
            let (buckets, []) = buckets.as_chunks::<2>() else { return None };
            let buckets = buckets.iter().map(|[number, count]| Some((*number, short(*count)?)));
            let buckets = buckets.collect::<Option<_>>()?;
            Usage::Sliding(Box::new(SlidingWindow { width: *width, buckets }))
        }
        (4, [tat, part, max, window, seen]) => {
            let (part, max) = (short(*part)?, short(*max)?);
            let (tat, window, seen) = (*tat, *window, Timestamp(*seen));
            Usage::Bucket(Box::new(TokenBucket { tat, part, max, burst: max, window, seen }))
        }
        _ => return None,
    })
}

/// Returns the numbers of a usage.
fn numbers_of(usage: &Usage) -> Vec<u64> {
    match usage {
        Usage::Fixed(window) | Usage::Calendar(window) => {
            vec![window.start.0, window.count]
        }
        Usage::Sliding(window) => {
            let buckets =
                window.buckets.iter().flat_map(|(number, count)| [*number, u64::from(*count)]);
            [window.width].into_iter().chain(buckets).collect()
        }
        Usage::Bucket(of) => {
            vec![of.tat, of.part.into(), of.max.into(), of.window, of.seen.0]
        }
    }
}

/// Returns the numbers of a counter, as `lua/rate/import.lua` reads them: kind, time to forget,
/// number of notices, number of usage numbers, the notices, the usage numbers.
fn numbers_of_counter(counter: &LimitCounter) -> Vec<u64> {
    let (usage, notices) = (numbers_of(&counter.usage), counter.notices.tiers());
    let kind = counter.usage.algorithm() as u64;
    let lengths = [notices.len() as u64, usage.len() as u64];
    let notices = notices.iter().flat_map(|(above, at)| [u64::from(*above), at.0]);
    [kind, counter.forget.0].into_iter().chain(lengths).chain(notices).chain(usage).collect()
}

/// Reads a ban with its time to forget.
fn parse_record(reply: &mut Reply) -> Result<BanRecord, Error> {
    let (until, forget) = (Timestamp(reply.number()?), Timestamp(reply.number()?));
    let (strikes, reason, actor) = (count(reply)?, reply.bytes()?, reply.bytes()?);
    Ok(BanRecord { until, forget, strikes, reason, actor })
}

/// Reads an answer that is stored for repeats.
fn parse_answer(reply: &mut Reply) -> Result<Entry, Error> {
    let forget = Timestamp(reply.number()?);
    let verdict = Verdict::parse(reply.number()?)?;
    let (crossed, retry) = (reply.number()? != 0, reply.number()?);
    let ban = match reply.number()? {
        0 => None,
        _ => {
            let (until, strikes) = (Timestamp(reply.number()?), count(reply)?);
            Some(Ban { until, strikes, reason: reply.bytes()?, actor: reply.bytes()? })
        }
    };
    let mut limits = Vec::new();
    while reply.has_more() {
        let (count, reset_after) = (reply.number()?, Millis(reply.number()?));
        limits.push(LimitUse { count, reset_after });
    }
    let retry_after = Some(Millis(retry)).filter(|retry| retry.0 > 0);
    let answer = Answer { verdict, crossed, retry_after, ban, limits };
    Ok(Entry::new(&[&[REPLAY]], &(forget, answer)))
}

/// Appends a ban, or the arguments for none.
fn with_ban(parts: Parts, ban: Option<Ban>, forget: u64) -> Parts {
    match ban {
        None => parts.numbers([0, 0, 0]).empty(2, b""),
        Some(Ban { until, strikes, reason, actor }) => {
            parts.numbers([until.0, forget, strikes.into()]).bytes(&reason).bytes(&actor)
        }
    }
}
