//! Usage, bans and answers of rates, in the packed form of `lua/lib/counters.lua`, `ban.lua` and
//! `replay.lua`.

use super::values::Packed;
use crate::decision::export::{
    AnswerLine, BanLine, CounterLine, LimitLine, NoticeLine, Text, UsageLine, VerdictName,
};

/// Flags of an answer: a limit was crossed; a ban follows.
const CROSSED: u8 = 1;
const BANNED: u8 = 4;

/// Parses the counters of a key. Each is: name of the limit, 0, kind u8, forget u64 µs, number of
/// notices u8, size of the usage u16, the usage, then for each notice its level u32 and time u64
/// µs.
pub(super) fn parse_counters(text: &[u8]) -> Option<Vec<CounterLine>> {
    let (mut packed, mut counters) = (Packed(text), Vec::new());
    while !packed.is_empty() {
        let limit = Text::new(packed.terminated()?);
        let (kind, forget, noticed) = (packed.u8()?, packed.u64()?, packed.u8()?);
        let size = packed.u16()?;
        let usage = parse_usage(kind, Packed(packed.bytes(size.into())?))?;
        let mut notices = Vec::new();
        for _ in 0..noticed {
            notices.push(NoticeLine { above: packed.u32()?, at: packed.u64()? });
        }
        counters.push(CounterLine { limit, usage, notices, forget });
    }
    Some(counters)
}

/// Parses the usage of a counter, by kind: 1 and 2 (fixed and calendar window) are start u64 µs and
/// count u32. 3 (sliding window) is bucket width u64 µs, number of the last bucket u64, total u64,
/// then for each bucket the low byte of its number and its count u32. 4 (token bucket) is tat u64
/// µs, part u32, max u32, window u64 µs, seen u64 µs.
fn parse_usage(kind: u8, mut packed: Packed<'_>) -> Option<UsageLine> {
    Some(match kind {
        1 => UsageLine::FixedWindow { start: packed.u64()?, count: packed.u32()? },
        2 => UsageLine::CalendarWindow { start: packed.u64()?, count: packed.u32()? },
        3 => {
            let (width, last, _) = (packed.u64()?, packed.u64()?, packed.u64()?);
            let mut buckets = Vec::new();
            while !packed.is_empty() {
                let (low, count) = (u64::from(packed.u8()?), packed.u32()?);
                // Only the low byte of a bucket's number is stored. A window has fewer than 256
                // buckets, so the byte identifies it.
                buckets.push((last - (last & 0xff).wrapping_sub(low) % 256, count));
            }
            UsageLine::SlidingWindow { width, buckets }
        }
        4 => {
            let (tat, part, max) = (packed.u64()?, packed.u32()?, packed.u32()?);
            let (window, seen) = (packed.u64()?, packed.u64()?);
            UsageLine::TokenBucket { tat, part, max, window, seen }
        }
        _ => return None,
    })
}

/// The form that [`parse_counters`] reads.
pub(super) fn pack_counters(counters: &[CounterLine]) -> Vec<u8> {
    let mut text = Vec::with_capacity(64);
    for counter in counters {
        let (kind, usage) = pack_usage(&counter.usage);
        text.extend_from_slice(&counter.limit.0);
        text.extend_from_slice(&[0, kind]);
        text.extend_from_slice(&counter.forget.to_le_bytes());
        text.push(counter.notices.len() as u8);
        text.extend_from_slice(&(usage.len() as u16).to_le_bytes());
        text.extend_from_slice(&usage);
        for notice in &counter.notices {
            text.extend_from_slice(&notice.above.to_le_bytes());
            text.extend_from_slice(&notice.at.to_le_bytes());
        }
    }
    text
}

/// The kind and the form that [`parse_usage`] reads.
fn pack_usage(usage: &UsageLine) -> (u8, Vec<u8>) {
    let mut text = Vec::with_capacity(32);
    let kind = match usage {
        UsageLine::FixedWindow { start, count } | UsageLine::CalendarWindow { start, count } => {
            text.extend_from_slice(&start.to_le_bytes());
            text.extend_from_slice(&count.to_le_bytes());
            if matches!(usage, UsageLine::FixedWindow { .. }) { 1 } else { 2 }
        }
        UsageLine::SlidingWindow { width, buckets } => {
            let last = buckets.last().map_or(0, |(number, _)| *number);
            let total: u64 = buckets.iter().map(|(_, count)| u64::from(*count)).sum();
            [*width, last, total].iter().for_each(|n| text.extend_from_slice(&n.to_le_bytes()));
            for (number, count) in buckets {
                text.push(*number as u8);
                text.extend_from_slice(&count.to_le_bytes());
            }
            3
        }
        UsageLine::TokenBucket { tat, part, max, window, seen } => {
            text.extend_from_slice(&tat.to_le_bytes());
            text.extend_from_slice(&part.to_le_bytes());
            text.extend_from_slice(&max.to_le_bytes());
            text.extend_from_slice(&window.to_le_bytes());
            text.extend_from_slice(&seen.to_le_bytes());
            4
        }
    };
    (kind, text)
}

/// Parses a ban: end u64 µs, forget u64 µs, strikes u32, reason, 0, actor, 0.
pub(super) fn parse_ban(text: &[u8]) -> Option<BanLine> {
    let mut packed = Packed(text);
    let (until, forget) = (packed.u64()?, packed.u64()?);
    Some(BanLine { forget: Some(forget), ..parse_ban_from(until, &mut packed)? })
}

/// Parses a ban after its times.
fn parse_ban_from(until: u64, packed: &mut Packed<'_>) -> Option<BanLine> {
    let strikes = packed.u32()?;
    let (reason, actor) = (Text::new(packed.terminated()?), Text::new(packed.terminated()?));
    Some(BanLine { until, forget: None, strikes, reason, actor })
}

/// The form that [`parse_ban`] reads.
pub(super) fn pack_ban(ban: &BanLine) -> Vec<u8> {
    let mut text = ban.until.to_le_bytes().to_vec();
    text.extend_from_slice(&ban.forget.unwrap_or(ban.until).to_le_bytes());
    pack_ban_to(ban, &mut text);
    text
}

fn pack_ban_to(ban: &BanLine, text: &mut Vec<u8>) {
    text.extend_from_slice(&ban.strikes.to_le_bytes());
    for part in [&ban.reason, &ban.actor] {
        text.extend_from_slice(&part.0);
        text.push(0);
    }
}

/// Parses an answer: forget u64 µs, verdict u8, flags u8, retry_after u64 ms, the ban if there is
/// one, then for each limit its count u32 and reset_after u64 ms.
pub(super) fn parse_answer(
    policy: Option<Text>,
    key: Text,
    request: Text,
    text: &[u8],
) -> Option<AnswerLine> {
    let mut packed = Packed(text);
    let (forget, status, flags, retry) = (packed.u64()?, packed.u8()?, packed.u8()?, packed.u64()?);
    let verdict = match status {
        0 => VerdictName::Allow,
        1 => VerdictName::Warn,
        2 => VerdictName::Throttle,
        3 => VerdictName::Ban,
        _ => return None,
    };
    let ban = match flags & BANNED {
        0 => None,
        _ => {
            let until = packed.u64()?;
            Some(parse_ban_from(until, &mut packed)?)
        }
    };
    let mut limits = Vec::new();
    while !packed.is_empty() {
        limits.push(LimitLine { count: packed.u32()?, reset_after_ms: packed.u64()? });
    }
    let (crossed, retry_after_ms) = (flags & CROSSED != 0, (retry > 0).then_some(retry));
    let answer =
        AnswerLine { policy, key, request, verdict, crossed, retry_after_ms, ban, limits, forget };
    Some(answer)
}

/// The form that [`parse_answer`] reads.
pub(super) fn pack_answer(answer: &AnswerLine) -> Vec<u8> {
    let mut text = answer.forget.to_le_bytes().to_vec();
    text.push(match answer.verdict {
        VerdictName::Allow => 0,
        VerdictName::Warn => 1,
        VerdictName::Throttle => 2,
        VerdictName::Ban => 3,
    });
    let banned = if answer.ban.is_some() { BANNED } else { 0 };
    text.push(banned + if answer.crossed { CROSSED } else { 0 });
    text.extend_from_slice(&answer.retry_after_ms.unwrap_or(0).to_le_bytes());
    if let Some(ban) = &answer.ban {
        text.extend_from_slice(&ban.until.to_le_bytes());
        pack_ban_to(ban, &mut text);
    }
    for limit in &answer.limits {
        text.extend_from_slice(&limit.count.to_le_bytes());
        text.extend_from_slice(&limit.reset_after_ms.to_le_bytes());
    }
    text
}
