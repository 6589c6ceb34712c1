//! Lists partitions, page by page.

use bytes::Bytes;

use super::{Embedded, tables::Tabled};
use crate::{PartitionCursor, PartitionPage};
use tollgate_core::names::{Name, Namespace};

impl Embedded {
    /// Lists names of a namespace in byte order, at most `limit`, after the cursor.
    pub(in super::super) fn partitions<S: Tabled>(
        &self,
        namespace: &Namespace,
        limit: u32,
        after: Option<&PartitionCursor>,
    ) -> PartitionPage {
        let limit = limit as usize;
        let after = after.map_or(&[][..], |cursor| cursor.name.as_bytes());
        // One more than `limit`, to find out whether another page follows.
        let names = self.namespaces.list::<S>(namespace, limit + 1, after).into_iter();
        let mut names: Vec<Name> =
            names.filter_map(|name| Name::stored(Bytes::from(name)).ok()).collect();
        let more = names.len() > limit;
        names.truncate(limit);
        let last = names.last().filter(|_| more).cloned();
        PartitionPage { names, next: last.map(|name| PartitionCursor { noted: 0, name }) }
    }
}
