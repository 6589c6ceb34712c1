//! Lists partitions, page by page.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{Embedded, SHARDS, tables::Sharded};
use crate::{
    decision::names::{Name, Namespace},
    engine::{PartitionCursor, PartitionPage},
};

impl Embedded {
    /// Lists names of a namespace in byte order, at most `limit`, after the cursor.
    pub(in super::super) async fn partitions<S: Sharded>(
        &self,
        namespace: &Namespace,
        limit: u32,
        after: Option<&PartitionCursor>,
    ) -> PartitionPage {
        let limit = limit as usize;
        let after = after.map_or(&[][..], |cursor| cursor.name.as_bytes());
        // One more than `limit`: whether another page follows.
        let names = match namespace.is_default() {
            true => self.least::<S>(limit + 1, after).await,
            false => self.namespaces.list::<S>(namespace, limit + 1, after),
        };
        let names = names.into_iter();
        let mut names: Vec<Name> =
            names.filter_map(|name| Name::stored(Bytes::from(name)).ok()).collect();
        let more = names.len() > limit;
        names.truncate(limit);
        let last = names.last().filter(|_| more).cloned();
        PartitionPage { names, next: last.map(|name| PartitionCursor { noted: 0, name }) }
    }

    /// The smallest names of the default namespace, at most `limit`, after this one. Looks at every
    /// partition, so it yields to calls after each shard.
    async fn least<S: Sharded>(&self, limit: usize, after: &[u8]) -> Vec<Box<[u8]>> {
        let mut least: BTreeSet<Box<[u8]>> = BTreeSet::new();
        for shard in 0..SHARDS {
            self.each_part::<S>(shard, |table, part| {
                for (name, _) in table.part(part) {
                    if **name > *after
                        && (least.len() < limit || least.last() > Some(name))
                        && Namespace::DEFAULT.contains(name)
                    {
                        least.insert(name.clone());
                        if least.len() > limit {
                            least.pop_last();
                        }
                    }
                }
            });
            // Calls go first.
            tokio::task::yield_now().await;
        }
        least.into_iter().collect()
    }
}
