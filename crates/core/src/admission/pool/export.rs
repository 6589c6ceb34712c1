//! Export and import of a pool: its keys in Redis as entries, and back.
//!
//! Running leases move with the pool: they keep token, expiry and slot in the new store. Events and
//! waiters do not move. The sources are read one after the other while servers may change the pool,
//! so the entries are made consistent afterwards ([`Exported::reconcile`]).

use bytes::Bytes;

use super::{
    Member, NEVER, Pool,
    record::{DUE, TASK, TaskRecord},
};
use crate::{
    Call, Cost, Ends, Listing, Reply,
    admission::{Lease, Outcome, Overrides, QueueState, Queued, Task, TaskState},
    error::Error,
    names::SEPARATOR,
    record::{
        Entry, Export, Exported, Page, Parts, Source, Unreadable, decode, split_part,
        unknown_letter, unknown_part,
    },
    script::{self, Script},
    statuses,
    time::{Millis, Timestamp},
    unknown_status,
};

statuses! { EXPORT_ON_HOLD = 1 }

/// The source of settings and last token.
const POOL: u8 = b'p';
/// The source of the queued tasks.
const QUEUED: u8 = b'q';
/// The source of leases. It sorts after the task records, because a lease matters only if its
/// record is missing.
const LEASES: u8 = b'x';

/// The persisted head.
pub(super) type Head = (Overrides, u64);

impl Exported for Pool {
    const EXPORT: &'static Script = &script::admission::EXPORT;
    const IMPORT: &'static Script = &script::admission::IMPORT;
    const UNEXPORTED: &'static [&'static [u8]] =
        &[b"backlog", b"due", b"events", b"queue", b"places", b"tickets"];

    fn source(tag: &[u8], part: &[u8]) -> Option<(Vec<u8>, Source)> {
        let source = match part {
            b"settings" | b"token" => Source::new(POOL, &[]),
            b"queued" => Source::new(QUEUED, &[]),
            b"leases" => Source::new(LEASES, &[]),
            _ => Source::new(TASK, part.strip_prefix(b"task:")?),
        };
        Some((tag.to_vec(), source))
    }

    /// The script reads one source, but gets the keys of all.
    fn encode_export(export: &Export<Pool>, call: &mut Call) {
        let member = &export.source.name;
        for part in [&b"settings"[..], b"token", b"queued", b"leases"] {
            call.key(&[part]);
        }
        call.key(&[b"task:", member]);
        export.push_page(&[member], call);
    }

    /// Queued tasks bring their payloads: 20 of the largest are 1.25 MiB.
    fn export_limit(export: &Export<Pool>) -> u32 {
        if export.source.letter == QUEUED { 20 } else { 100 }
    }

    fn export_cost(export: &Export<Pool>) -> Cost {
        match export.source.letter {
            QUEUED | LEASES => Cost::bulk(2000),
            _ => Cost::PLAIN,
        }
    }

    /// Refuses a pool on hold after a failover: its lost leases have no entries.
    fn parse_refusal(status: u64, reply: &mut Reply) -> Result<Page, Error> {
        if status != EXPORT_ON_HOLD {
            return unknown_status(status);
        }
        let left = reply.number()?.div_ceil(1_000_000);
        Err(Error::Refused(format!(
            "the pool admits no new tasks for {left} s more after a failover, and an export cannot \
             contain this: export later, or call ConfigurePool with reset"
        )))
    }

    fn parse_entry(letter: &[u8], reply: &mut Reply) -> Result<Entry, Error> {
        match letter {
            [] => {
                let last_token = reply.number()?;
                let mut next = || optional(reply);
                let capacity = next()?.map(short).transpose()?;
                let (lease_duration, expiry_grace) = (next()?.map(Millis), next()?.map(Millis));
                let paused = next()?.map(|paused| paused == 1);
                let max_attempts = next()?.map(short).transpose()?;
                let overrides =
                    Overrides { capacity, lease_duration, expiry_grace, paused, max_attempts };
                Ok(Entry::new(&[], &(overrides, last_token)))
            }
            [TASK] => parse_task(reply),
            _ => unknown_letter(letter),
        }
    }

    /// Raises the last token to the highest token of a task. That lease may have been granted after
    /// the head was read, and tokens must not repeat in the new store.
    fn reconcile(entries: &mut Vec<Entry>) {
        let tasks = entries.iter().filter_map(|entry| entry.decode::<TaskRecord<Task>>(TASK));
        let given = tasks.map(|kept| kept.task.lease.token).max().unwrap_or(0);
        if entries.iter().all(|entry| !entry.part.is_empty()) && given > 0 {
            entries.insert(0, Entry::new(&[], &(Overrides::default(), 0u64)));
        }
        for entry in entries {
            if let Some((overrides, last_token)) = entry.decode::<Head>(0) {
                entry.set(&(overrides, last_token.max(given)));
            }
        }
    }

    fn page(&self, export: &Export<Pool>, now: Timestamp) -> Page {
        let Source { letter, name } = &export.source;
        let entry = |member: &[u8], task: &Task| {
            let is_disclosed = task.is_disclosed && task.state == TaskState::Leased;
            let is_ended =
                task.state == TaskState::Leased && !self.leases.contains(task.slot_end, member);
            Entry::new(
                &[&[TASK], member],
                &TaskRecord { task: Task { is_disclosed, ..task.clone() }, is_ended },
            )
        };
        match *letter {
            QUEUED => {
                let queued = self.tasks(now).filter(|(_, task)| task.queued.is_some());
                Page::last(queued.map(|(member, task)| entry(member, task)))
            }
            TASK => {
                let task = self.task(name, now).filter(|task| task.queued.is_none());
                Page::last(task.map(|task| entry(name, task)))
            }
            LEASES => {
                let after = export.after.split_first_chunk::<16>().map(|(end, lease)| {
                    let end = str::from_utf8(end).ok().and_then(|end| end.parse().ok());
                    let member = &lease[..lease.len().saturating_sub(29)];
                    (Timestamp(end.unwrap_or(0)), member)
                });
                let leases = self.leases(after).filter(|(_, task)| task.slot_end > now);
                let entries = leases.map(|(member, task)| {
                    let lost =
                        TaskRecord { task: unrecorded(task.lease, task.slot_end), is_ended: false };
                    ((member, task), Entry::new(&[&[TASK], member], &lost))
                });
                Page::first(entries, |(member, task)| position(member, task))
            }
            _ => {
                let head: Head = (self.overrides, self.last_token);
                let is_fresh = head == (Overrides::default(), 0);
                Page::last((!is_fresh).then(|| Entry::new(&[], &head)))
            }
        }
    }

    fn import_arguments(_: &[u8], part: &[u8], value: &[u8]) -> Result<Option<Parts>, Unreadable> {
        let (letter, member) = split_part(part);
        let plain = [&b"settings"[..], b"token", b"queued", b"backlog", b"due", b"leases"];
        let [settings, token, queued, backlog, due, leases] = plain.map(<[u8]>::to_vec);
        let task = [b"task:", member].concat();
        let parts = Parts::new([settings, token, queued, backlog, due, leases, task]);
        match letter {
            0 => {
                let (overrides, last_token): Head = decode(value)?;
                let parts = parts.bytes(&[POOL]).numbers([last_token]);
                let parts = parts
                    .optional(overrides.capacity.map(u64::from))
                    .optional(overrides.lease_duration.map(|lease| lease.0));
                let parts = parts
                    .optional(overrides.expiry_grace.map(|grace| grace.0))
                    .optional(overrides.paused.map(u64::from));
                let parts = parts.optional(overrides.max_attempts.map(u64::from));
                let parts = parts.empty(4, b"").packed(&[0; 5]).empty(2, b"");
                Ok(Some(parts.packed(&[0; 3]).bytes(b"")))
            }
            TASK => Ok(Some(task_arguments(parts, member, decode(value)?))),
            // The schedule follows from the tasks.
            DUE => Ok(None),
            _ => unknown_part(part),
        }
    }

    fn import_listing(part: &[u8], value: &[u8]) -> Listing {
        let head = decode::<Head>(value).ok().filter(|_| part.is_empty());
        if head.is_some_and(|(overrides, _)| overrides != Overrides::default()) {
            Listing::Kept
        } else {
            // The sweeper visits the pool immediately, and schedules its next visit.
            Listing::Held(Ends::After(Millis(0)))
        }
    }

    /// Also adds the entries of the indexes. A restore from a data directory rebuilds them at its
    /// end.
    fn import(&mut self, part: &[u8], value: &[u8], now: Timestamp) -> Result<(), Unreadable> {
        let (TASK, member) = split_part(part) else {
            let (overrides, last_token): Head = decode(value)?;
            (self.overrides, self.last_token) = (overrides, last_token.max(self.last_token));
            return Ok(());
        };
        let TaskRecord { task, is_ended } = decode::<TaskRecord<Task>>(value)?;
        if task.forget <= now {
            return Ok(());
        }
        let (member, forget) = (Member::from(member), task.forget);
        self.touched.record(&[&[TASK], &member]);
        if task.state == TaskState::Leased && !is_ended {
            self.leases.insert(task.slot_end, member.clone());
        } else if forget != NEVER {
            self.ended.insert(forget, member.clone());
        }
        if let Some(queued) = &task.queued {
            match queued.standing {
                QueueState::Queued => self.backlog.add(&member, queued.at),
                _ => self.backlog.set_due(&member, forget),
            }
            if let (QueueState::Queued, Some(ends)) = (queued.standing, queued.ends) {
                self.backlog.set_due(&member, ends);
            }
        }
        self.tasks.add(member, task);
        Ok(())
    }
}

/// The task of a lease whose record is missing: it is forgotten with its slot.
fn unrecorded(lease: Lease, slot_end: Timestamp) -> Task {
    let (state, forget) = (TaskState::Leased, slot_end);
    Task { lease, slot_end, forget, state, is_disclosed: false, queued: None }
}

/// Returns the position of a lease in `leases`: its slot end in 16 digits, and its member.
fn position(member: &[u8], task: &Task) -> Vec<u8> {
    let mut position = format!("{:016}", task.slot_end.0).into_bytes();
    position.extend_from_slice(member);
    position.push(SEPARATOR);
    for number in [task.lease.token, task.lease.grant.0, task.lease.expire.0] {
        position.extend_from_slice(&number.to_le_bytes());
    }
    position.extend_from_slice(&task.attempt().to_le_bytes());
    position
}

/// Reads a number, or an empty text for none.
fn optional(reply: &mut Reply) -> Result<Option<u64>, Error> {
    let text = reply.bytes()?;
    if text.is_empty() {
        return Ok(None);
    }
    let number = str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
    number.map_or_else(
        || Err(Error::Corrupt(format!("expected a number: {text:?}"))),
        |n| Ok(Some(n)),
    )
}

/// Returns a number of 32 bits.
fn short(number: u64) -> Result<u32, Error> {
    u32::try_from(number).map_err(|_| Error::Corrupt(format!("{number} is out of range")))
}

/// Reads a time, where 0 stands for none.
fn time(number: u64) -> Option<Timestamp> {
    Some(Timestamp(number)).filter(|time| time.0 > 0)
}

/// Reads a task.
fn parse_task(reply: &mut Reply) -> Result<Entry, Error> {
    let unknown =
        |what: &[u8]| Err(Error::Corrupt(format!("unknown state {}", what.escape_ascii())));
    let (member, state) = (reply.bytes()?, reply.bytes()?);
    let (is_disclosed, is_listed) = (reply.number()? != 0, reply.number()? != 0);
    let lease = Lease::parse(reply)?;
    let (slot_end, forget) = (Timestamp(reply.number()?), time(reply.number()?).unwrap_or(NEVER));
    let (outcome, text) = (reply.number()?, reply.bytes()?.into());
    let standing = match &*reply.bytes()? {
        b"" => None,
        b"Q" => Some(QueueState::Queued),
        b"X" => Some(QueueState::Dead),
        b"C" => Some(QueueState::Cancelled),
        b"T" => Some(QueueState::Expired),
        other => return unknown(other),
    };
    let (attempt, at, ends) =
        (short(reply.number()?)?, Timestamp(reply.number()?), reply.number()?);
    let payload = Bytes::from(reply.bytes()?);
    let queued = standing
        .map(|standing| Box::new(Queued { standing, attempt, at, ends: time(ends), payload }));
    let state = match &*state {
        b"N" => TaskState::New,
        b"L" => TaskState::Leased,
        b"F" => TaskState::Failed,
        b"E" => TaskState::Evicted { reason: text },
        b"D" => {
            let outcome = if outcome == 1 { Outcome::Succeeded } else { Outcome::Failed };
            TaskState::Completed { outcome, result: text }
        }
        other => return unknown(other),
    };
    let is_ended = state == TaskState::Leased && !is_listed;
    let task = Task { lease, slot_end, forget, state, is_disclosed, queued };
    Ok(Entry::new(&[&[TASK], &member], &TaskRecord { task, is_ended }))
}

/// Returns the arguments of a task.
fn task_arguments(parts: Parts, member: &[u8], kept: TaskRecord<Task>) -> Parts {
    let TaskRecord {
        task: Task { lease, slot_end, forget, state, is_disclosed, queued },
        is_ended,
    } = kept;
    let is_leased = state == TaskState::Leased;
    let (letter, rest): (&[u8], Vec<u8>) = match state {
        TaskState::New => (b"N", Vec::new()),
        TaskState::Leased => (b"L", Vec::new()),
        TaskState::Failed => (b"F", Vec::new()),
        TaskState::Evicted { reason } => (b"E", reason.into()),
        TaskState::Completed { outcome, result } => {
            let digit = if outcome == Outcome::Succeeded { b'1' } else { b'2' };
            (b"D", [&[digit], &*result].concat())
        }
    };
    let forget = if forget == NEVER { 0 } else { forget.0 };
    let times = [lease.token, lease.grant.0, lease.expire.0, slot_end.0, forget];
    let parts = parts.bytes(b"t").numbers([0]).empty(5, b"").bytes(member).bytes(letter);
    let parts =
        parts.numbers([(is_disclosed && is_leased).into(), (is_leased && !is_ended).into()]);
    let parts = parts.packed(&times).bytes(&rest);
    match queued {
        None => parts.bytes(b"").packed(&[0; 3]).bytes(b""),
        Some(queued) => {
            let Queued { standing, attempt, at, ends, payload } = *queued;
            let standing = match standing {
                QueueState::Queued => b"Q",
                QueueState::Dead => b"X",
                QueueState::Cancelled => b"C",
                QueueState::Expired => b"T",
            };
            let ends = ends.map_or(0, |ends| ends.0);
            parts.bytes(standing).packed(&[attempt.into(), at.0, ends]).bytes(&payload)
        }
    }
}
