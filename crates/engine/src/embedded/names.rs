//! Lists names by their prefix, shard by shard.
//!
//! Within a shard, names are in byte order. A page reads all names of its shards, a segment at a
//! time, and keeps only the names that it returns.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{Embedded, SHARDS, tables::Tabled};
use crate::listing::{LOOKED_MAX, NameCursor, NamePage, NameQuery};

impl Embedded {
    /// Lists the next names. The hash that selects shards differs between processes, so a position
    /// from another process means the first page.
    pub(in super::super) fn names<S: Tabled>(&self, query: &NameQuery) -> NamePage {
        let process = self.hasher.hash_one("names");
        let start = query.after.clone().filter(|after| after.process == process);
        let NameCursor { place, mut after, .. } = start.unwrap_or_default();
        let (mut partitions, mut looked) = (Vec::new(), 0);
        let limit = query.limit as usize;
        let cursor = |place, after| NameCursor { process, place, position: 0, after };
        for shard in place..SHARDS as u16 {
            if partitions.len() >= limit || looked >= LOOKED_MAX {
                return NamePage { partitions, next: Some(cursor(shard, after)) };
            }
            let room = limit - partitions.len();
            let mut found = self.names_of::<S>(shard.into(), query, &after, room + 1, &mut looked);
            let has_more = found.len() > room;
            if has_more {
                found.pop_last();
            }
            let last = found.last().map(|last| query.local(last).to_vec());
            partitions.extend(found.into_iter().map(Bytes::from));
            if has_more {
                return NamePage { partitions, next: last.map(|last| cursor(shard, last)) };
            }
            after = Vec::new();
        }
        NamePage { partitions, next: None }
    }

    /// Returns the first names of a shard after `after`, at most `limit`. Adds the number of
    /// visited names to `looked`.
    fn names_of<S: Tabled>(
        &self,
        shard: usize,
        query: &NameQuery,
        after: &[u8],
        limit: usize,
        looked: &mut usize,
    ) -> BTreeSet<Box<[u8]>> {
        let mut found: BTreeSet<Box<[u8]>> = BTreeSet::new();
        self.each_part::<S>(shard, |table, part| {
            for (name, _) in table.part(part) {
                *looked += 1;
                let is_first =
                    || found.len() < limit || found.last().is_some_and(|last| name < last);
                if query.contains(name) && query.local(name) > after && is_first() {
                    found.insert(name.clone());
                    if found.len() > limit {
                        found.pop_last();
                    }
                }
            }
        });
        found
    }
}
