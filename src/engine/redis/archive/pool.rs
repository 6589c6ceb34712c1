//! Pools, in the form of `lua/lib/admission.lua`, `token.lua`, `leases.lua` and `tasks.lua`.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
};

use super::values::{Packed, Stored, number, optional};
use crate::decision::{
    export::{Line, PoolLine, QueuedLine, StandingName, StateName, TaskLine, Text},
    names::SEPARATOR,
};

/// The largest payload in a task's record, in bytes. A longer one has a separate field, so that
/// listings need not read it.
const INLINE_MAX: usize = 512;

/// A parsed pool.
#[derive(Default)]
pub(super) struct Read {
    pub(super) lines: Vec<Line>,
    /// Device and task of running leases whose record was not read.
    pub(super) unrecorded: Vec<Vec<u8>>,
}

/// Parses a pool. A running lease without a record becomes a line only if `is_last`: before that,
/// its record may exist under a key that was not read yet.
pub(super) fn parse(
    pool: &Text,
    stored: &[Stored],
    is_last: bool,
    now: u64,
) -> Result<Read, String> {
    let mut read = Read::default();
    let mut of_pool = pool_line(pool);
    let mut is_there = false;
    let mut leases: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for of in stored.iter().filter(|of| of.part == b"leases") {
        let scored = of.pairs().into_iter();
        leases.extend(scored.filter_map(|(lease, end)| Some((lease, score(&end)?))));
    }
    let mut known: HashSet<Vec<u8>> = HashSet::new();
    // The records that exist, whatever their state.
    for Stored { part, .. } in stored {
        if let Some(member) = part.strip_prefix(b"task:") {
            known.insert(member.to_vec());
        }
    }
    let mut listed: HashSet<Vec<u8>> = HashSet::new();
    for of in stored {
        let unread = || format!("{} cannot be read", of.part.escape_ascii());
        match &of.part[..] {
            b"settings" => {
                let Some(text) = of.text() else { continue };
                parse_settings(&text, &mut of_pool).ok_or_else(unread)?;
                is_there = true;
            }
            b"token" => {
                let Some(text) = of.text() else { continue };
                let parts: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
                of_pool.last_token = number(parts[0]).ok_or_else(unread)?;
                let held = parts.get(4).and_then(|held| number(held)).unwrap_or(0);
                if held > now {
                    return Err(format!(
                        "the pool admits no new tasks for {} s more after a failover, and an \
                         export cannot contain this: export later, or call ConfigurePool with \
                         reset",
                        (held - now).div_ceil(1_000_000)
                    ));
                }
                is_there = true;
            }
            b"queued" => {
                let is_payload = |(field, _): &(Vec<u8>, _)| field.first() == Some(&SEPARATOR);
                let (payloads, records): (Vec<_>, Vec<_>) =
                    of.pairs().into_iter().partition(is_payload);
                let payloads: HashMap<Vec<u8>, Vec<u8>> = payloads.into_iter().collect();
                for (member, text) in records {
                    let payload = payloads.get(&payload_field(&member));
                    let payload = payload.map(Vec::as_slice);
                    let mut task =
                        parse_queued(pool, &member, &text, payload).ok_or_else(unread)?;
                    list(&mut task, &leases, &mut listed);
                    known.insert(member);
                    read.lines.push(Line::Task(task));
                }
            }
            part => {
                let Some(member) = part.strip_prefix(b"task:") else { continue };
                let Some(text) = of.text() else { continue };
                let mut task = parse_task(pool, member, &text).ok_or_else(unread)?;
                list(&mut task, &leases, &mut listed);
                read.lines.push(Line::Task(task));
            }
        }
    }
    // Running leases whose record does not refer to them.
    for (lease, end) in leases.iter().filter(|(lease, end)| **end > now && !listed.contains(*lease))
    {
        let (member, task) = lost(pool, lease, *end)
            .ok_or_else(|| format!("the lease {} cannot be read", lease.escape_ascii()))?;
        match known.contains(&member) {
            false => read.unrecorded.push(member),
            true if is_last => read.lines.push(Line::Task(task)),
            true => {}
        }
    }
    if is_there {
        read.lines.insert(0, Line::Pool(of_pool));
    }
    Ok(read)
}

/// A pool without settings.
fn pool_line(pool: &Text) -> PoolLine {
    PoolLine {
        pool: pool.clone(),
        last_token: 0,
        capacity: None,
        lease_ms: None,
        grace_ms: None,
        paused: None,
        max_attempts: None,
    }
}

/// A zset score as a whole number.
fn score(text: &[u8]) -> Option<u64> {
    let score: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (score >= 0.0 && score.fract() == 0.0).then_some(score as u64)
}

/// Parses the settings; empty fields are not overridden.
fn parse_settings(text: &[u8], line: &mut PoolLine) -> Option<()> {
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b',').collect();
    let [capacity, lease, grace, paused, ref rest @ ..] = parts[..] else { return None };
    line.capacity = optional(capacity)?.map(u32::try_from).transpose().ok()?;
    (line.lease_ms, line.grace_ms) = (optional(lease)?, optional(grace)?);
    line.paused = optional(paused)?.map(|paused| paused == 1);
    let attempts = optional(rest.first().copied().unwrap_or_default())?;
    line.max_attempts = attempts.map(u32::try_from).transpose().ok()?;
    Some(())
}

/// The settings in the form `capacity,lease_ms,grace_ms,paused,max_attempts`; `None` if all are the
/// configured ones.
pub(super) fn settings(line: &PoolLine) -> Option<String> {
    let text = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
    let parts = [
        text(line.capacity.map(u64::from)),
        text(line.lease_ms),
        text(line.grace_ms),
        text(line.paused.map(u64::from)),
        text(line.max_attempts.map(u64::from)),
    ];
    parts.iter().any(|part| !part.is_empty()).then(|| parts.join(","))
}

/// The entry of a task's lease in the list: device and task, token, grant, expire, attempt.
pub(super) fn lease(task: &TaskLine) -> Vec<u8> {
    let mut lease = task.member();
    lease.push(SEPARATOR);
    for number in [task.token, task.grant, task.expire] {
        lease.extend_from_slice(&number.to_le_bytes());
    }
    let attempt = task.queued.as_ref().map_or(0, |queued| queued.attempt);
    lease.extend_from_slice(&attempt.to_le_bytes());
    lease
}

/// Records whether a task's lease is in the list.
fn list(task: &mut TaskLine, leases: &BTreeMap<Vec<u8>, u64>, listed: &mut HashSet<Vec<u8>>) {
    if task.state == StateName::Leased {
        let lease = lease(task);
        task.listed = leases.contains_key(&lease);
        listed.insert(lease);
    }
}

/// A task rebuilt from its lease, because its record was lost.
fn lost(pool: &Text, lease: &[u8], end: u64) -> Option<(Vec<u8>, TaskLine)> {
    let (member, numbers) = lease.split_at_checked(lease.len().checked_sub(29)?)?;
    let mut packed = Packed(numbers.get(1..)?);
    let (token, grant, expire) = (packed.u64()?, packed.u64()?, packed.u64()?);
    let mut task = blank(pool, member)?;
    (task.state, task.listed) = (StateName::Leased, true);
    (task.token, task.grant, task.expire, task.slot_end) = (token, grant, expire, end);
    task.forget = Some(end);
    Some((member.to_vec(), task))
}

/// A task without a lease, by its device and task name.
fn blank(pool: &Text, member: &[u8]) -> Option<TaskLine> {
    let at = member.iter().position(|byte| *byte == SEPARATOR)?;
    Some(TaskLine {
        pool: pool.clone(),
        device: Text::new(&member[..at]),
        task: Text::new(&member[at + 1..]),
        state: StateName::New,
        token: 0,
        grant: 0,
        expire: 0,
        slot_end: 0,
        forget: None,
        told: false,
        listed: false,
        succeeded: None,
        text: Text::default(),
        queued: None,
    })
}

/// Parses a task record: state byte; token, grant, expire, slot end and forget, each u64; for a
/// completed task one byte for its outcome; then its result or reason.
fn parse_task(pool: &Text, member: &[u8], text: &[u8]) -> Option<TaskLine> {
    let mut task = blank(pool, member)?;
    let mut packed = Packed(text);
    let state = packed.u8()?;
    (task.token, task.grant, task.expire) = (packed.u64()?, packed.u64()?, packed.u64()?);
    (task.slot_end, task.forget) = (packed.u64()?, Some(packed.u64()?));
    task.told = state == b'l';
    task.state = match state {
        b'L' | b'l' => StateName::Leased,
        b'D' => StateName::Completed,
        b'E' => StateName::Evicted,
        _ => return None,
    };
    if task.state == StateName::Completed {
        task.succeeded = Some(packed.u8()? == b'1');
    }
    task.text = Text::new(packed.0);
    Some(task)
}

/// The record in the task's own key.
pub(super) fn task_record(task: &TaskLine) -> Vec<u8> {
    let mut record = Vec::with_capacity(64);
    record.push(match task.state {
        StateName::Completed => b'D',
        StateName::Evicted => b'E',
        _ if task.told => b'l',
        _ => b'L',
    });
    let forget = task.forget.unwrap_or(0);
    for number in [task.token, task.grant, task.expire, task.slot_end, forget] {
        record.extend_from_slice(&number.to_le_bytes());
    }
    if let Some(succeeded) = task.succeeded {
        record.push(if succeeded { b'1' } else { b'2' });
    }
    record.extend_from_slice(&task.text.0);
    record
}

/// The hash field of a payload above [`INLINE_MAX`] bytes.
pub(super) fn payload_field(member: &[u8]) -> Vec<u8> {
    [&[SEPARATOR], member].concat()
}

/// Parses the record of a queued task:
/// `SS token grant expire slot_end attempt at ends forget payload` as text. The two letters are the
/// standing in the queue and the state. A small first letter means that the payload has a separate
/// field.
fn parse_queued(
    pool: &Text,
    member: &[u8],
    text: &[u8],
    payload: Option<&[u8]>,
) -> Option<TaskLine> {
    let mut task = blank(pool, member)?;
    let parts: Vec<&[u8]> = text.splitn(10, |byte| *byte == b' ').collect();
    let [states, token, grant, expire, slot_end, attempt, at, ends, forget, inline] = parts[..]
    else {
        return None;
    };
    let [standing, state] = *states else { return None };
    let payload = if standing.is_ascii_lowercase() { payload? } else { inline };
    let standing = match standing.to_ascii_uppercase() {
        b'Q' => StandingName::Queued,
        b'X' => StandingName::Dead,
        b'C' => StandingName::Cancelled,
        b'T' => StandingName::Expired,
        _ => return None,
    };
    task.state = match state {
        b'N' => StateName::New,
        b'L' | b'l' => StateName::Leased,
        b'F' => StateName::Failed,
        b'E' => StateName::Evicted,
        _ => return None,
    };
    task.told = state == b'l';
    (task.token, task.grant) = (number(token)?, number(grant)?);
    (task.expire, task.slot_end) = (number(expire)?, number(slot_end)?);
    task.forget = Some(number(forget)?).filter(|forget| *forget > 0);
    let attempt = u32::try_from(number(attempt)?).ok()?;
    let ends = Some(number(ends)?).filter(|ends| *ends > 0);
    let (at, payload) = (number(at)?, Text::new(payload));
    task.queued = Some(QueuedLine { standing, attempt, at, ends, payload });
    Some(task)
}

/// The hash fields of a queued task: its record, and its payload if that is above [`INLINE_MAX`]
/// bytes.
pub(super) fn queued_fields<'a>(task: &TaskLine, queued: &'a QueuedLine) -> Vec<Cow<'a, [u8]>> {
    let (member, payload) = (task.member(), &queued.payload.0[..]);
    let mut record = queued_record(task, queued);
    if payload.len() <= INLINE_MAX {
        record.extend_from_slice(payload);
        return vec![member.into(), record.into()];
    }
    record[..1].make_ascii_lowercase();
    let field = payload_field(&member);
    vec![member.into(), record.into(), field.into(), payload.into()]
}

/// The record without the payload.
fn queued_record(task: &TaskLine, queued: &QueuedLine) -> Vec<u8> {
    let standing = match queued.standing {
        StandingName::Queued => 'Q',
        StandingName::Dead => 'X',
        StandingName::Cancelled => 'C',
        StandingName::Expired => 'T',
    };
    let state = match task.state {
        StateName::Leased if task.told => 'l',
        StateName::Leased => 'L',
        StateName::Failed => 'F',
        StateName::Evicted => 'E',
        _ => 'N',
    };
    let TaskLine { token, grant, expire, slot_end, .. } = task;
    let (ends, forget) = (queued.ends.unwrap_or(0), task.forget.unwrap_or(0));
    let QueuedLine { attempt, at, .. } = queued;
    format!("{standing}{state} {token} {grant} {expire} {slot_end} {attempt} {at} {ends} {forget} ")
        .into_bytes()
}
