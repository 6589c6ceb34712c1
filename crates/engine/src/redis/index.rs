//! The index of partitions: the names that Redis knows, for listings and for the sweeper.
//!
//! For each capability there are two zsets: `partitions`, the names by the time of their last note,
//! and `ends`, the names by the time at which the sweeper looks at them next. The index lies in
//! another hash slot than the partitions, so it cannot be written in the atomic step of a decision.
//! It decides nothing.
//!
//! Names of the default namespace have an index of their own; those of all other namespaces share
//! one ([`IndexOf`]). The shared index has a further zset for each namespace, `partitions:NAMESPACE`,
//! which its listings read. So the listings of a namespace do not depend on other names.
//!
//! A server notes a partition beside a decision, in the same round trip. [`Index`] remembers these
//! notes, so that a partition is noted about once a minute only. A note contains the time until
//! something in the partition ends. The sweeper's next look is scheduled for that time.
//!
//! # Invariant
//! A decision may skip its note only if a note of the last minute has scheduled a look that is still
//! to come, and that is not later than the end of the decision's new entry.

use std::{
    collections::HashMap,
    str,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ahash::RandomState;
use bytes::Bytes;

use super::{PartitionCursor, PartitionPage};
use tollgate_core::{
    Call, Ends, Listing, Reply,
    error::Error,
    names::{Name, Namespace},
    time::{Clock, Millis, Timestamp, monotonic},
};

/// The longest time for which a note is relied on.
const NOTE_EVERY: Duration = Duration::from_secs(60);
/// The most names that are remembered. Above it all are forgotten and noted again.
const NOTED_MAX: usize = 65_536;

/// The capability in the keys of an index of the default namespace.
const DEFAULT: &str = "index";
/// The capability in the keys of an index of all other namespaces.
const NAMESPACES: &str = "namespaces";
/// The zset of names by the time of their last note.
const PARTITIONS: &[u8] = b"partitions";
/// The set of names with permanent entries, such as settings.
const KEPT: &[u8] = b"kept";
/// The key of the server that sweeps.
const SWEEPER: &[u8] = b"sweeper";
/// The zset of names by the time of the sweeper's next look.
const ENDS: &[u8] = b"ends";

/// An index: of the partitions of a capability in the default namespace, or in all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct IndexOf {
    pub(in super::super) capability: &'static str,
    pub(in super::super) is_default: bool,
}

impl IndexOf {
    /// Both indexes of a capability.
    pub(in super::super) fn both(capability: &'static str) -> [IndexOf; 2] {
        [true, false].map(|is_default| IndexOf { capability, is_default })
    }

    /// The index of a partition.
    pub(super) fn of(capability: &'static str, partition: &[u8]) -> IndexOf {
        IndexOf { capability, is_default: Namespace::split(partition).0.is_empty() }
    }

    /// KEYS and ARGV of a script on this index.
    fn call(self, prefix: &str) -> Call<'_> {
        let index = if self.is_default { DEFAULT } else { NAMESPACES };
        Call::new(prefix, index, self.capability.as_bytes())
    }
}

/// Appends the key of the zset that the listings of a partition's namespace read.
fn push_listed(call: &mut Call, partition: &[u8]) {
    match Namespace::split(partition).0 {
        [] => call.key(&[PARTITIONS]),
        namespace => call.key(&[PARTITIONS, b":", namespace]),
    }
}

/// The recent notes of this server.
#[derive(Debug)]
pub(super) struct Index {
    /// The notes sent since the last lost connection.
    noted: Mutex<Noted>,
    /// Converts an end time into a length.
    clock: Clock,
}

/// The content of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Note {
    /// The effect of the decision on the partition's place in listings.
    listing: Listing,
    /// The time until something in the partition ends; `None` if nothing does.
    look: Option<Millis>,
}

/// A remembered note.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// The time when it was sent.
    at: Instant,
    /// The look that it has scheduled.
    look: Option<Instant>,
}

#[derive(Debug, Default)]
struct Noted {
    /// The number of lost connections: after each, Redis may have lost notes.
    epoch: u64,
    /// The last note of each partition.
    last: HashMap<Box<[u8]>, Last, RandomState>,
}

impl Default for Index {
    fn default() -> Index {
        Index { noted: Mutex::default(), clock: Clock::system() }
    }
}

impl Index {
    /// The note that must be sent beside a decision, if any.
    pub(super) fn due(&self, partition: &[u8], listing: Listing, epoch: u64) -> Option<Note> {
        let look = match listing {
            Listing::Same => return None,
            Listing::Kept | Listing::Released => {
                return Some(Note { listing, look: Some(Millis(0)) });
            }
            Listing::Held(Ends::After(length)) => Some(length),
            // If this clock is ahead of the store's, the look comes too early, and is scheduled
            // again for the right time.
            Listing::Held(Ends::At(end)) => Some(self.clock.now().until(end)),
            Listing::Held(Ends::Never) => None,
        };
        let now = monotonic();
        let noted = self.lock(epoch);
        let is_covered = noted.last.get(partition).is_some_and(|last| last.covers(now, look));
        (!is_covered).then_some(Note { listing, look })
    }

    /// Records an answered note that was sent at `sent`. A note from before the last lost
    /// connection is ignored.
    pub(super) fn noted(&self, partition: &[u8], note: Note, sent: Instant, epoch: u64) {
        let mut noted = self.lock(epoch);
        if noted.epoch > epoch {
            return;
        }
        if noted.last.len() >= NOTED_MAX {
            noted.last.clear();
        }
        let look = note.look.and_then(|look| sent.checked_add(look.duration()));
        match noted.last.get_mut(partition) {
            Some(last) => *last = last.and(Last { at: sent, look }),
            None => {
                noted.last.insert(partition.into(), Last { at: sent, look });
            }
        }
    }

    /// Locks the notes; drops them if a connection was lost since.
    fn lock(&self, epoch: u64) -> MutexGuard<'_, Noted> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if epoch > noted.epoch {
            *noted = Noted { epoch, last: HashMap::default() };
        }
        noted
    }
}

impl Note {
    /// One note for two decisions on a partition.
    pub(super) fn and(self, next: Note) -> Note {
        let look = self.look.into_iter().chain(next.look).min();
        Note { look, ..next }
    }
}

impl Last {
    /// Whether this note also covers a decision of now, whose entry ends after `look`, if at all.
    fn covers(&self, now: Instant, look: Option<Millis>) -> bool {
        let is_recent = now.saturating_duration_since(self.at) < NOTE_EVERY;
        let is_looked_at = |length: Millis| {
            let end = now.checked_add(length.duration());
            self.look.is_some_and(|look| now <= look && end.is_none_or(|end| look <= end))
        };
        is_recent && look.is_none_or(is_looked_at)
    }

    /// The remembered note after a further one. The store keeps the earlier look, unless its time
    /// is over.
    fn and(self, next: Last) -> Last {
        let to_come = self.look.filter(|look| *look > next.at);
        let look = to_come.into_iter().chain(next.look).min();
        Last { at: next.at, look }
    }
}

/// KEYS and ARGV of `lua/index/register.lua`.
pub(super) fn note<'a>(
    prefix: &'a str,
    capability: &'static str,
    partition: &[u8],
    note: Note,
) -> Call<'a> {
    let mut call = IndexOf::of(capability, partition).call(prefix);
    call.key(&[PARTITIONS]);
    call.key(&[KEPT]);
    call.key(&[ENDS]);
    push_listed(&mut call, partition);
    call.bytes(&[partition]);
    call.number(match note.listing {
        Listing::Same | Listing::Held(_) => 0,
        Listing::Kept => 1,
        Listing::Released => 2,
    });
    call.optional(note.look.map(|look| look.0));
    call
}

/// KEYS and ARGV of `lua/index/due.lua`.
pub(super) fn due(prefix: &str, index: IndexOf, limit: u32) -> Call<'_> {
    let mut call = index.call(prefix);
    call.key(&[PARTITIONS]);
    call.key(&[ENDS]);
    call.number(limit.into());
    call
}

/// KEYS and ARGV of `lua/index/latest.lua`.
pub(super) fn latest(prefix: &str, index: IndexOf, limit: u32) -> Call<'_> {
    let mut call = index.call(prefix);
    call.key(&[PARTITIONS]);
    call.number(limit.into());
    call
}

/// The result of a look of the sweeper at a partition.
#[derive(Debug)]
pub(in super::super) struct Look {
    /// The partition, and the time of its last note as the sweeper read it.
    pub(in super::super) seen: PartitionCursor,
    /// The time at which something in it ends next.
    pub(in super::super) next: Option<Timestamp>,
    /// Whether the partition is empty.
    pub(in super::super) is_vacant: bool,
}

/// KEYS and ARGV of `lua/index/schedule.lua`. Empty partitions that were noted before `before` leave
/// the index.
pub(super) fn schedule<'a>(
    prefix: &'a str,
    index: IndexOf,
    look: &Look,
    before: Timestamp,
) -> Call<'a> {
    let mut call = index.call(prefix);
    call.key(&[PARTITIONS]);
    call.key(&[ENDS]);
    push_listed(&mut call, look.seen.name.as_bytes());
    call.bytes(&[look.seen.name.as_bytes()]);
    call.number(look.seen.noted);
    call.number(look.next.map_or(0, |next| next.0));
    call.number(look.is_vacant.into());
    call.number(before.0);
    call
}

/// KEYS and ARGV of `lua/index/claim.lua`.
pub(super) fn claim<'a>(prefix: &'a str, index: IndexOf, server: &str, hold: Millis) -> Call<'a> {
    let mut call = index.call(prefix);
    call.key(&[SWEEPER]);
    call.bytes(&[server.as_bytes()]);
    call.number(hold.0);
    call
}

/// KEYS and ARGV of `lua/index/known.lua`, for a partition of a listed state.
pub(super) fn known<'a>(prefix: &'a str, capability: &'static str, partition: &[u8]) -> Call<'a> {
    let mut call = IndexOf::of(capability, partition).call(prefix);
    push_listed(&mut call, partition);
    call.bytes(&[partition]);
    call
}

/// KEYS of `lua/index/size.lua`, for the names of one namespace.
pub(super) fn size<'a>(
    prefix: &'a str,
    capability: &'static str,
    namespace: &Namespace,
) -> Call<'a> {
    let mut call = IndexOf::of(capability, namespace.prefix()).call(prefix);
    push_listed(&mut call, namespace.prefix());
    call
}

/// KEYS and ARGV of `lua/index/list.lua`. With a namespace, lists the names of that one only.
/// `after` is the time of the last note, in µs, and the name.
pub(super) fn list<'a>(
    prefix: &'a str,
    index: IndexOf,
    namespace: &Namespace,
    limit: u32,
    after: Option<(u64, &[u8])>,
) -> Call<'a> {
    let mut call = index.call(prefix);
    push_listed(&mut call, namespace.prefix());
    call.number(limit.into());
    call.optional(after.map(|(noted, _)| noted));
    call.bytes(&[after.map_or(&[][..], |(_, name)| name)]);
    call
}

/// Parses the reply of `lua/index/list.lua` into a page of names.
pub(super) fn parse_page(reply: &mut Reply) -> Result<PartitionPage, Error> {
    let (noted, more) = parse_noted(reply)?;
    let last = noted.last().filter(|_| more).cloned();
    let names = noted.into_iter().map(|cursor| cursor.name).collect();
    Ok(PartitionPage { names, next: last })
}

/// Parses the same reply into names with the time of their last note. Returns whether more follow.
pub(super) fn parse_noted(reply: &mut Reply) -> Result<(Vec<PartitionCursor>, bool), Error> {
    let (_, more) = (reply.number()?, reply.number()? != 0);
    let mut listed = Vec::new();
    while reply.has_more() {
        let name = Name::stored(Bytes::from(reply.any_bytes()?));
        let noted = reply.bytes()?;
        let noted = str::from_utf8(&noted).ok().and_then(|text| text.parse().ok());
        // Skips an entry that is no valid name.
        if let (Ok(name), Some(noted)) = (name, noted) {
            listed.push(PartitionCursor { noted, name });
        }
    }
    Ok((listed, more))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_note_stands_for_leases_that_end_after_its_look() {
        let sent = monotonic();
        let seconds = |count: u64| Some(Millis::from_secs(count));
        let last = Last { at: sent, look: Some(sent + 30 * SECOND) };
        assert!(last.covers(sent, seconds(30)));
        assert!(last.covers(sent, None), "what does not end needs no look");
        assert!(!last.covers(sent, seconds(29)), "it ends before the look");
        assert!(last.covers(sent + 29 * SECOND, seconds(5)));
        assert!(!last.covers(sent + 31 * SECOND, seconds(30)), "the look is over");
        assert!(!last.covers(sent + 60 * SECOND, None), "the note is a minute old");
        // The store keeps the earlier look, unless its time is over.
        let next = Last { at: sent + SECOND, look: Some(sent + 300 * SECOND) };
        assert_eq!(last.and(next).look, last.look);
        let late = Last { at: sent + 40 * SECOND, look: Some(sent + 300 * SECOND) };
        assert_eq!(last.and(late).look, late.look);
    }

    #[test]
    fn a_partition_is_noted_again_where_a_lease_ends_sooner() {
        let index = Index::default();
        let held = |seconds| Listing::Held(Ends::After(Millis::from_secs(seconds)));
        let note = index.due(b"p", held(300), 0).expect("it was never noted");
        index.noted(b"p", note, monotonic(), 0);
        assert_eq!(index.due(b"p", held(300), 0), None);
        assert_eq!(index.due(b"p", Listing::Held(Ends::Never), 0), None);
        assert!(index.due(b"p", held(1), 0).is_some());
        assert!(index.due(b"p", Listing::Kept, 0).is_some());
        assert!(index.due(b"p", held(300), 1).is_some(), "the store may have lost the note");
    }
}
