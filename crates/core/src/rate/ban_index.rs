//! The ban index: the banned keys of a policy, for ListBans.
//!
//! The bans of a policy are in other partitions, so the index cannot be written in the same atomic
//! step as a ban. It decides nothing: ListBans looks up each key that it names. A server adds a ban
//! right after setting it, and again about once a minute while the key calls, in case the first
//! entry was lost. Entries of two servers can arrive in either order, so the later end wins. A
//! lifted ban stays in the index until its end.

use std::{collections::BTreeSet, ops::Bound, str};

use serde::{Deserialize, Serialize};

use super::{BANS_MAX, BanEntry, MeterName};
use crate::{
    Bin, Call, Cost, Decision, Outcomes, Properties, Reply, State, Steps,
    collections::IncrementalMap,
    error::Error,
    names::{Name, Namespace},
    record::Touched,
    script::{self, Script},
    time::Timestamp,
};

/// The banned keys of one policy.
#[derive(Debug, Default)]
pub struct BanIndex {
    /// The keys in order of the end of their ban.
    pub(super) by_end: BTreeSet<(Timestamp, Box<[u8]>)>,
    /// The end of the ban by key.
    pub(super) ends: IncrementalMap<Box<[u8]>, Timestamp>,
    /// The keys whose end has changed, for persistence.
    pub(super) touched: Touched,
}

impl BanIndex {
    /// Records the end of a key's ban, unless a later one is recorded.
    pub(super) fn insert(&mut self, key: &[u8], until: Timestamp) {
        match self.ends.get(key) {
            Some(recorded) if *recorded >= until => return,
            Some(recorded) => {
                self.by_end.remove(&(*recorded, key.into()));
            }
            None => {}
        }
        self.touched.record(&[key]);
        self.ends.insert(key.into(), until);
        self.by_end.insert((until, key.into()));
    }

    /// Removes ended bans, and those that end first while there are more than `most` entries.
    /// Removes at most `budget` entries; returns the number removed.
    pub(super) fn trim(&mut self, now: Timestamp, most: usize, budget: usize) -> usize {
        for dropped in 0..budget {
            let due = |until: Timestamp| until <= now || self.by_end.len() > most;
            match self.by_end.first() {
                Some(&(until, _)) if due(until) => {
                    let key = self.by_end.pop_first().map(|(_, key)| key);
                    if let Some(key) = key {
                        self.touched.record(&[&key]);
                        self.ends.remove(&key);
                    }
                }
                _ => return dropped,
            }
        }
        budget
    }
}

impl State for BanIndex {
    const CAPABILITY: &'static str = "bans";
    const IS_NAMED: bool = false;

    fn sweep(&mut self, now: Timestamp, budget: usize, _: &mut Bin) -> usize {
        self.trim(now, usize::MAX, budget)
    }

    fn is_vacant(&self, _: Timestamp) -> bool {
        self.by_end.is_empty()
    }
}

/// The maximum number of entries that one call removes.
const TRIM_MAX: usize = 100;

/// Adds a ban to the ban index. A repeat changes nothing.
///
/// An entry keeps the later of two ends. Above [`BANS_MAX`] entries, the ones that end first are
/// removed: their bans stay in force, but are no longer listed.
#[derive(Debug, Clone)]
pub struct IndexBan {
    /// The policy and the key.
    pub name: MeterName,
    /// When the ban ends.
    pub until: Timestamp,
}

impl Decision for IndexBan {
    type State = BanIndex;
    type Outcome = ();

    const SCRIPT: &'static Script = &script::rate::INDEX_BAN;
    const PROPERTIES: Properties<IndexBan> =
        Properties { cost: |_| Cost::from_micros(20), ..Properties::DEFAULT };

    fn partition(&self) -> &[u8] {
        self.name.index()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"banned"]);
        call.bytes(&[self.name.key()]);
        call.number(self.until.0);
        call.number(BANS_MAX as u64);
    }

    fn parse(reply: &mut Reply) -> Result<(), Error> {
        reply.ok()
    }

    fn decide(&self, index: &mut BanIndex, now: Timestamp) {
        index.insert(self.name.key(), self.until);
        index.trim(now, BANS_MAX, TRIM_MAX);
    }
}

impl From<BanEntry> for IndexBan {
    fn from(BanEntry { name, until }: BanEntry) -> IndexBan {
        IndexBan { name, until }
    }
}

/// Reads a page of the ban index, in order of the end of the bans.
///
/// The index can name keys whose ban was lifted, and can lack keys (see [`super::IndexBan`]), so the
/// caller looks up each key with [`super::GetBan`]. A key that is banned again during a listing
/// moves to its new end, and can appear again.
#[derive(Debug, Clone)]
pub struct ListBans {
    /// The policy; `None` for the rules that come with calls.
    pub policy: Option<Name>,
    /// The namespace, for a listing without a policy.
    pub namespace: Namespace,
    /// The maximum number of keys of the page; above 0.
    pub limit: u32,
    /// The last key of the previous page.
    pub after: Option<BanCursor>,
}

/// The position of a key in the listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanCursor {
    /// When its ban ends.
    pub until: Timestamp,
    /// The key.
    pub key: Vec<u8>,
}

/// A page of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BanPage {
    /// The keys.
    pub keys: Vec<Vec<u8>>,
    /// The position of the last key, if more follow.
    pub next: Option<BanCursor>,
}

impl Decision for ListBans {
    type State = BanIndex;
    type Outcome = BanPage;

    const SCRIPT: &'static Script = &script::rate::LIST_BANS;
    const PROPERTIES: Properties<ListBans> = Properties {
        cost: |list| Cost::bulk(50 + 2 * list.limit),
        outcomes: Outcomes::OK,
        steps: Some(Steps {
            max: 500,
            limit: |list| list.limit,
            limited: |list, limit| ListBans { limit, ..list.clone() },
            after: |list, page| {
                page.next.clone().map(|next| ListBans { after: Some(next), ..list.clone() })
            },
            append: |page, next| {
                page.keys.extend(next.keys);
                page.next = next.next;
            },
        }),
        ..Properties::DEFAULT
    };

    fn partition(&self) -> &[u8] {
        self.policy.as_ref().map_or(self.namespace.prefix(), Name::as_bytes)
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"banned"]);
        call.number(self.limit.into());
        call.optional(self.after.as_ref().map(|cursor| cursor.until.0));
        call.bytes(&[self.after.as_ref().map_or(&[], |cursor| &cursor.key)]);
    }

    fn parse(reply: &mut Reply) -> Result<BanPage, Error> {
        reply.ok()?;
        let more = reply.number()? != 0;
        let (mut keys, mut last) = (Vec::new(), None);
        while reply.has_more() {
            let (key, until) = (reply.text()?, reply.bytes()?);
            let until = str::from_utf8(&until).ok().and_then(|text| text.parse().ok());
            last = until.map(|until| BanCursor { until: Timestamp(until), key: key.clone() });
            keys.push(key);
        }
        Ok(BanPage { keys, next: last.filter(|_| more) })
    }

    fn decide(&self, index: &mut BanIndex, now: Timestamp) -> BanPage {
        let after = self.after.as_ref().map(|cursor| (cursor.until, cursor.key.clone().into()));
        // The empty key precedes all keys.
        let first_of = |until| (until, Box::default());
        let ended = first_of(Timestamp(now.0 + 1));
        let start = match after {
            // The bans up to the cursor have ended since: continue with the first that is in force.
            Some(after) if after < ended => Bound::Included(ended),
            Some(after) if index.by_end.contains(&after) => Bound::Excluded(after),
            Some(after) => Bound::Included(first_of(after.0)),
            None => Bound::Included(ended),
        };
        let limit = self.limit as usize;
        let page: Vec<_> = index.by_end.range((start, Bound::Unbounded)).take(limit + 1).collect();
        let more = page.len() > limit;
        let page = &page[..page.len().min(limit)];
        let cursor =
            |entry: &&(Timestamp, Box<[u8]>)| BanCursor { until: entry.0, key: entry.1.to_vec() };
        BanPage {
            keys: page.iter().map(|entry| entry.1.to_vec()).collect(),
            next: page.last().filter(|_| more).map(cursor),
        }
    }
}
