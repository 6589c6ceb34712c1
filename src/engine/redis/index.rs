//! Which partitions there are, for listings: a zset per capability.
//!
//! The index lives in a slot of its own, so it cannot be written in the same
//! atomic step as a decision. It decides nothing: a server notes a partition
//! beside a decision on it, in the same round trip, at most once a minute.

use std::{
    collections::HashMap,
    str,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{PartitionCursor, PartitionPage};
use crate::{
    decision::{Call, Listing, Reply},
    error::Error,
    names::Name,
    time::{Millis, monotonic},
};

const NOTE_EVERY: Duration = Duration::from_secs(60);
/// Names remembered as noted; past it all are forgotten and noted anew.
const NOTED_MAX: usize = 65_536;

const CAPABILITY: &str = "index";
const PARTITIONS: &[u8] = b"partitions";
const KEPT: &[u8] = b"kept";
const SWEEPER: &[u8] = b"sweeper";

/// What this server has noted of late.
#[derive(Debug, Default)]
pub(super) struct Index {
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    /// The monitor's epoch: after a lost connection the store may have lost notes.
    epoch: u64,
    last: HashMap<Box<[u8]>, Instant>,
}

impl Index {
    /// Whether a partition has to be noted beside a decision.
    pub(super) fn is_due(&self, partition: &[u8], listing: Listing, epoch: u64) -> bool {
        match listing {
            Listing::Same => false,
            Listing::Kept | Listing::Released => true,
            Listing::Held => {
                let noted = self.lock(epoch);
                let last = noted.last.get(partition);
                last.is_none_or(|last| last.elapsed() >= NOTE_EVERY)
            }
        }
    }

    /// Remembers that a partition was noted, in an epoch that began before it was.
    pub(super) fn noted(&self, partition: &[u8], epoch: u64) {
        let mut noted = self.lock(epoch);
        if noted.epoch > epoch {
            return;
        }
        if noted.last.len() >= NOTED_MAX {
            noted.last.clear();
        }
        noted.last.insert(partition.into(), monotonic());
    }

    fn lock(&self, epoch: u64) -> MutexGuard<'_, Noted> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if epoch > noted.epoch {
            *noted = Noted { epoch, last: HashMap::new() };
        }
        noted
    }
}

/// KEYS and ARGV of `lua/index/note.lua`.
pub(super) fn note<'a>(
    prefix: &'a str,
    capability: &'static str,
    partition: &[u8],
    listing: Listing,
) -> Call<'a> {
    let mut call = Call::new(prefix, CAPABILITY, capability.as_bytes());
    call.key(&[PARTITIONS]);
    call.key(&[KEPT]);
    call.bytes(&[partition]);
    call.number(match listing {
        Listing::Same | Listing::Held => 0,
        Listing::Kept => 1,
        Listing::Released => 2,
    });
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
