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
const SWEEPER: &[u8] = b"sweeper";

/// What this server has noted of late.
#[derive(Debug, Default)]
pub(super) struct Index {
    noted: Mutex<HashMap<Box<[u8]>, Instant>>,
}

impl Index {
    /// Whether a partition has to be noted beside a decision.
    pub(super) fn is_due(&self, partition: &[u8], listing: Listing) -> bool {
        match listing {
            Listing::Same => false,
            Listing::Kept | Listing::Released => true,
            Listing::Held => {
                let noted = self.lock();
                let last = noted.get(partition);
                last.is_none_or(|last| last.elapsed() >= NOTE_EVERY)
            }
        }
    }

    /// Remembers that a partition was noted.
    pub(super) fn noted(&self, partition: &[u8]) {
        let mut noted = self.lock();
        if noted.len() >= NOTED_MAX {
            noted.clear();
        }
        noted.insert(partition.into(), monotonic());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Instant>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
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
    let (_, more) = (reply.number()?, reply.number()? != 0);
    let (mut names, mut last) = (Vec::new(), None);
    while reply.has_more() {
        let name = Name::parse(Bytes::from(reply.bytes()?));
        let noted = reply.bytes()?;
        let noted = str::from_utf8(&noted).ok().and_then(|text| text.parse().ok());
        // An entry that is no name names no pool.
        if let (Ok(name), Some(noted)) = (name, noted) {
            last = Some(PartitionCursor { noted, name: name.clone() });
            names.push(name);
        }
    }
    Ok(PartitionPage { names, next: last.filter(|_| more) })
}
