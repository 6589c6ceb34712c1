//! Which partitions there are, for listings: a zset per capability.
//!
//! The index lives in a slot of its own, so it cannot be written in the same
//! atomic step as a decision. It decides nothing: a server notes a partition
//! beside a decision on it, in the same round trip: at most once a minute, and more often
//! only where leases end sooner.
//!
//! Beside the zset of names stands one of the times at which the sweeper looks at them
//! (`ends`). A note says how long nothing ends: a look is scheduled for then. A decision
//! needs no note of its own while a look is scheduled that comes after the decision and
//! before the end of what it puts there.

use std::{
    collections::HashMap,
    str,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{PartitionCursor, PartitionPage};
use crate::{
    decision::{Call, Ends, Listing, Reply},
    error::Error,
    names::Name,
    time::{Clock, Millis, Timestamp, monotonic},
};

const NOTE_EVERY: Duration = Duration::from_secs(60);
/// Names remembered as noted; past it all are forgotten and noted anew.
const NOTED_MAX: usize = 65_536;

const CAPABILITY: &str = "index";
const PARTITIONS: &[u8] = b"partitions";
const KEPT: &[u8] = b"kept";
const SWEEPER: &[u8] = b"sweeper";
const ENDS: &[u8] = b"ends";

/// What this server has noted of late.
#[derive(Debug)]
pub(super) struct Index {
    noted: Mutex<Noted>,
    clock: Clock,
}

/// How a partition has to be noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Note {
    listing: Listing,
    /// How long nothing of it ends; none where nothing does.
    look: Option<Millis>,
}

/// What is remembered of a note.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// When it was sent.
    at: Instant,
    /// The look that it has scheduled.
    look: Option<Instant>,
}

#[derive(Debug, Default)]
struct Noted {
    /// The monitor's epoch: after a lost connection the store may have lost notes.
    epoch: u64,
    last: HashMap<Box<[u8]>, Last>,
}

impl Default for Index {
    fn default() -> Index {
        Index { noted: Mutex::default(), clock: Clock::system() }
    }
}

impl Index {
    /// How a partition has to be noted beside a decision, if it has to be.
    pub(super) fn due(&self, partition: &[u8], listing: Listing, epoch: u64) -> Option<Note> {
        let look = match listing {
            Listing::Same => return None,
            Listing::Kept | Listing::Released => {
                return Some(Note { listing, look: Some(Millis(0)) });
            }
            Listing::Held(Ends::After(length)) => Some(length),
            // Whose clock is ahead of the store's by some time has it looked at so much too
            // early, and once more in time.
            Listing::Held(Ends::At(end)) => Some(self.clock.now().until(end)),
            Listing::Held(Ends::Never) => None,
        };
        let now = monotonic();
        let noted = self.lock(epoch);
        let is_covered = noted.last.get(partition).is_some_and(|last| last.covers(now, look));
        (!is_covered).then_some(Note { listing, look })
    }

    /// Remembers that a partition was noted, in an epoch that began before it was; `sent` is
    /// when the note was.
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

    fn lock(&self, epoch: u64) -> MutexGuard<'_, Noted> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if epoch > noted.epoch {
            *noted = Noted { epoch, last: HashMap::new() };
        }
        noted
    }
}

impl Note {
    /// One for two decisions on a partition.
    pub(super) fn and(self, next: Note) -> Note {
        let look = self.look.into_iter().chain(next.look).min();
        Note { look, ..next }
    }
}

impl Last {
    /// Whether it stands for a decision that is taken now, too: what that one puts there ends
    /// after so long, if it does.
    fn covers(&self, now: Instant, look: Option<Millis>) -> bool {
        let is_recent = now.saturating_duration_since(self.at) < NOTE_EVERY;
        let is_looked_at = |length: Millis| {
            let end = now.checked_add(length.duration());
            self.look.is_some_and(|look| now <= look && end.is_none_or(|end| look <= end))
        };
        is_recent && look.is_none_or(is_looked_at)
    }

    /// What is remembered once another note was sent, too: the store keeps the earlier look,
    /// unless that is over.
    fn and(self, next: Last) -> Last {
        let to_come = self.look.filter(|look| *look > next.at);
        let look = to_come.into_iter().chain(next.look).min();
        Last { at: next.at, look }
    }
}

/// KEYS and ARGV of `lua/index/note.lua`.
pub(super) fn note<'a>(
    prefix: &'a str,
    capability: &'static str,
    partition: &[u8],
    note: Note,
) -> Call<'a> {
    let mut call = Call::new(prefix, CAPABILITY, capability.as_bytes());
    call.key(&[PARTITIONS]);
    call.key(&[KEPT]);
    call.key(&[ENDS]);
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
pub(super) fn due<'a>(prefix: &'a str, capability: &'static str, limit: u32) -> Call<'a> {
    let mut call = Call::new(prefix, CAPABILITY, capability.as_bytes());
    call.key(&[PARTITIONS]);
    call.key(&[ENDS]);
    call.number(limit.into());
    call
}

/// KEYS and ARGV of `lua/index/latest.lua`.
pub(super) fn latest<'a>(prefix: &'a str, capability: &'static str, limit: u32) -> Call<'a> {
    let mut call = Call::new(prefix, CAPABILITY, capability.as_bytes());
    call.key(&[PARTITIONS]);
    call.number(limit.into());
    call
}

/// What the sweeper has seen of a partition.
#[derive(Debug)]
pub(in super::super) struct Look {
    /// The partition, and when it was noted as the sweeper read it.
    pub(in super::super) seen: PartitionCursor,
    /// When something of it ends next.
    pub(in super::super) next: Option<Timestamp>,
    /// Whether there is nothing of it.
    pub(in super::super) is_vacant: bool,
}

/// KEYS and ARGV of `lua/index/settle.lua`.
pub(super) fn settle<'a>(
    prefix: &'a str,
    capability: &'static str,
    look: &Look,
    before: Timestamp,
) -> Call<'a> {
    let mut call = Call::new(prefix, CAPABILITY, capability.as_bytes());
    call.key(&[PARTITIONS]);
    call.key(&[ENDS]);
    call.bytes(&[look.seen.name.as_bytes()]);
    call.number(look.seen.noted);
    call.number(look.next.map_or(0, |next| next.0));
    call.number(look.is_vacant.into());
    call.number(before.0);
    call
}

/// KEYS and ARGV of `lua/index/lead.lua`.
pub(super) fn lead<'a>(
    prefix: &'a str,
    capability: &'static str,
    server: &str,
    hold: Millis,
) -> Call<'a> {
    let mut call = Call::new(prefix, CAPABILITY, capability.as_bytes());
    call.key(&[SWEEPER]);
    call.bytes(&[server.as_bytes()]);
    call.number(hold.0);
    call
}

/// KEYS and ARGV of `lua/index/list.lua`; `after` is a time noted and a name.
pub(super) fn list<'a>(
    prefix: &'a str,
    capability: &'static str,
    limit: u32,
    after: Option<(u64, &[u8])>,
) -> Call<'a> {
    let mut call = Call::new(prefix, CAPABILITY, capability.as_bytes());
    call.key(&[PARTITIONS]);
    call.number(limit.into());
    call.optional(after.map(|(noted, _)| noted));
    call.bytes(&[after.map_or(&[][..], |(_, name)| name)]);
    call
}

/// Reads the reply of `lua/index/list.lua`.
pub(super) fn parse_page(reply: &mut Reply) -> Result<PartitionPage, Error> {
    let (noted, more) = parse_noted(reply)?;
    let last = noted.last().filter(|_| more).cloned();
    let names = noted.into_iter().map(|cursor| cursor.name).collect();
    Ok(PartitionPage { names, next: last })
}

/// The same, with the time that each was noted at, and whether more follow.
pub(super) fn parse_noted(reply: &mut Reply) -> Result<(Vec<PartitionCursor>, bool), Error> {
    let (_, more) = (reply.number()?, reply.number()? != 0);
    let mut listed = Vec::new();
    while reply.has_more() {
        let name = Name::parse(Bytes::from(reply.bytes()?));
        let noted = reply.bytes()?;
        let noted = str::from_utf8(&noted).ok().and_then(|text| text.parse().ok());
        // An entry that is no name names no pool.
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
        // The store keeps the earlier look, unless that is over.
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
