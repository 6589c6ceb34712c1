//! Lists names by their prefix, by scanning the keys of each node with SCAN.
//!
//! A partition has one key with the part that its state declares ([`State::NAME_KEY`]). A step of
//! the scan visits up to [`COUNT_MAX`] keys in one script call (`lua/index/scan.lua`), on the
//! pipeline for long decisions. A page takes steps until it is nearly full, or has visited
//! [`LOOKED_MAX`] keys.
//!
//! The nodes are visited in the order of their first hash slots. A failover changes no slots, and
//! the new primary is scanned from its start, since it orders its keys differently.
//!
//! A step can match more names than fit into the page. It is then left to the next page, or
//! repeated with fewer keys. Even a step of one key can match several names, which share a bucket
//! of Redis's table. If they do not fit into a page, the cursor contains the last name that was
//! listed.

use std::{collections::BTreeSet, time::Instant};

use bytes::Bytes;

use super::{
    Redis,
    export::KeyBuilder,
    fair,
    job::{JobDelivery, LISTING, Pending},
    shared::Router,
    slot::Slot,
};
use crate::listing::{LOOKED_MAX, NameCursor, NamePage, NameQuery};
use tollgate_core::{Call, Cost, Reply, State, error::Error, script, time::monotonic};

/// Maximum number of keys that a step visits.
const COUNT_MAX: usize = 1000;
/// A step without any match is followed by one with this many times as many keys.
const GROWTH: usize = 8;

/// The names of one state under a prefix.
struct Walk<'a> {
    redis: &'a Redis,
    query: &'a NameQuery,
    keys: KeyBuilder,
    /// The capability, and the part of its keys that identifies a name.
    of: (&'static str, &'static str),
    /// The MATCH pattern.
    pattern: Vec<u8>,
    deadline: Instant,
}

/// The result of a step.
struct ScanStep {
    /// The Redis process of the node, from its run_id.
    process: u64,
    /// The SCAN cursor that the step has used, and the next one; 0 at the end of the node.
    positions: (u64, u64),
    /// The partitions that are still to be listed, in order.
    names: BTreeSet<Vec<u8>>,
}

impl Redis {
    /// Lists the next names. Fails if the first step fails. If a later one fails, the page ends
    /// before it.
    pub(in super::super) async fn names<S: State>(
        &self,
        query: &NameQuery,
        deadline: Instant,
    ) -> Result<NamePage, Error> {
        self.check()?;
        let _call = self.calls.enter(fair::line_of(query.namespace.prefix()))?;
        let of = (S::CAPABILITY, S::NAME_KEY.unwrap_or_default());
        let keys = KeyBuilder::new(&self.key_prefix);
        let start = [query.namespace.prefix(), &query.prefix].concat();
        let pattern = keys.pattern_of(of.0, &start, of.1);
        Walk { redis: self, query, keys, of, pattern, deadline }.page().await
    }
}

impl Walk<'_> {
    async fn page(&self) -> Result<NamePage, Error> {
        let limit = self.query.limit as usize;
        // Half of the time is reserved for reading the entries.
        let begin = monotonic();
        let until = begin + self.deadline.saturating_duration_since(begin) / 2;
        let start = self.query.after.clone().or_else(|| self.node_after(None));
        let unknown = || Error::Unavailable("no node owns a slot".to_owned());
        let mut cursor = start.ok_or_else(unknown)?;
        // Only a step of one key leaves a position that is partly listed.
        let mut count = if cursor.after.is_empty() { self.count(limit) } else { 1 };
        let (mut partitions, mut visited, mut is_first) = (BTreeSet::new(), 0, true);
        while is_first
            || partitions.len() * 4 < limit * 3 && visited < LOOKED_MAX && monotonic() < until
        {
            let step = match self.step(&cursor, count).await {
                Ok(step) => step,
                Err(error) if is_first => return Err(error),
                Err(_) => break,
            };
            visited += count;
            is_first = false;
            (cursor.process, cursor.position) = (step.process, step.positions.0);
            let (found, room) = (step.names.len(), limit - partitions.len());
            if found > room {
                if !partitions.is_empty() {
                    break;
                }
                if count == 1 {
                    partitions = step.names.into_iter().take(room).collect();
                    let last = partitions.last().map(|last| self.query.local(last).to_vec());
                    cursor.after = last.unwrap_or_default();
                    break;
                }
                count = (count / 4).max(1);
                is_first = true;
                continue;
            }
            partitions.extend(step.names);
            let next = match step.positions.1 {
                0 => self.node_after(Some(cursor.place)),
                position => Some(NameCursor { position, after: Vec::new(), ..cursor }),
            };
            match next {
                Some(next) => cursor = next,
                None => return Ok(page(partitions, None)),
            }
            count = match count * (limit - partitions.len()) / found.max(1) {
                _ if found == 0 => (count * GROWTH).min(COUNT_MAX),
                fitting => self.count(fitting),
            };
        }
        Ok(page(partitions, Some(cursor)))
    }

    /// Returns the number of keys for a step that probably matches at most `fitting` names even if
    /// all keys match. SCAN returns a few more than asked for.
    fn count(&self, fitting: usize) -> usize {
        (fitting * 3 / 4).clamp(1, COUNT_MAX)
    }

    /// Returns the start of the node after the one with this first slot.
    fn node_after(&self, place: Option<u16>) -> Option<NameCursor> {
        let Slot(place) = self.redis.topology.node_after(place.map(Slot))?;
        Some(NameCursor { place, ..NameCursor::default() })
    }

    /// Visits `count` keys at a position.
    async fn step(&self, cursor: &NameCursor, count: usize) -> Result<ScanStep, Error> {
        let mut answer = self.send(cursor, count).wait().await?;
        self.parse(&mut answer.reply, cursor)
    }

    fn send(&self, cursor: &NameCursor, count: usize) -> Pending {
        let tag = self.redis.topology.scan_tag(Slot(cursor.place)).to_string();
        let mut call = Call::new(&self.redis.key_prefix, "scan", tag.as_bytes());
        call.key(&[b"node"]);
        call.bytes(&[format!("{:016x}", cursor.process).as_bytes()]);
        call.number(cursor.position);
        call.number(count as u64);
        call.bytes(&[&self.pattern]);
        let delivery = JobDelivery { cost: Cost::bulk(50 + count as u32), ..LISTING };
        let (mut job, pending) =
            self.redis.job(&script::index::SCAN, call.finish(), delivery, self.deadline);
        job.namespace = fair::line_of(self.query.namespace.prefix());
        self.redis.topology.push(job);
        pending
    }

    fn parse(&self, reply: &mut Reply, cursor: &NameCursor) -> Result<ScanStep, Error> {
        reply.ok()?;
        let process = number(&reply.bytes()?, 16)?;
        let positions = (number(&reply.bytes()?, 10)?, number(&reply.bytes()?, 10)?);
        let is_same = process == cursor.process && positions.0 == cursor.position;
        let after: &[u8] = if is_same { &cursor.after } else { &[] };
        let mut names = BTreeSet::new();
        while reply.has_more() {
            let Some(named) = self.keys.parse(&reply.any_bytes()?) else { continue };
            if (named.capability, named.part) == (self.of.0.into(), self.of.1.into())
                && self.query.contains(&named.name)
                && self.query.local(&named.name) > after
            {
                names.insert(named.name);
            }
        }
        Ok(ScanStep { process, positions, names })
    }
}

fn page(partitions: BTreeSet<Vec<u8>>, next: Option<NameCursor>) -> NamePage {
    NamePage { partitions: partitions.into_iter().map(Bytes::from).collect(), next }
}

/// Parses a number of the script's reply.
fn number(text: &[u8], radix: u32) -> Result<u64, Error> {
    let number = std::str::from_utf8(text).ok();
    let number = number.and_then(|text| u64::from_str_radix(text, radix).ok());
    number.ok_or_else(|| Error::Corrupt("a script replied with an unreadable number".to_owned()))
}
