//! Pages of listings: of names, and of the entries that are read for them.
//!
//! - Pools and bans have an index of names. The index decides nothing, and may contain entries that
//!   have ended. A decision therefore reads the state of each entry, in one batch per page. A page
//!   is not atomic: an entry may change while the others are read.
//! - Locks, sequences and skus have no index, since every decision that creates one would have to
//!   write to it. Instead, each page continues a scan of the store. It visits a bounded number of
//!   names, so a page can be empty although others follow. The order of the scan has no meaning for
//!   callers.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use tollgate_core::{
    Decision,
    names::{Name, Namespace},
};

/// A page of a listing of partition names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionPage {
    /// The names, in the order of the listing.
    pub names: Vec<Name>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<PartitionCursor>,
}

/// A position in a capability's listing: directly after this partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionCursor {
    /// The time of the partition's last registration in the index of Redis, in µs. 0 on the embedded
    /// engine, where the order is by name.
    pub noted: u64,
    /// The name of the partition.
    pub name: Name,
}

/// The entries of a page in order: the decision that read the entry, and its outcome. `None` if the
/// stored state is unreadable.
pub type ReadEntries<D> = Vec<(D, Option<<D as Decision>::Outcome>)>;

/// The number of names or keys that a page visits before it ends.
pub(super) const LOOKED_MAX: usize = 20_000;

/// The request for a page.
#[derive(Debug, Clone)]
pub struct NameQuery {
    /// The namespace of the names.
    pub namespace: Namespace,
    /// The prefix of the names, without their namespace. Empty for all names.
    pub prefix: Bytes,
    /// Maximum number of names on the page; above 0.
    pub limit: u32,
    /// The position of the page; `None` for the first.
    pub after: Option<NameCursor>,
}

/// A position in a scan. Any value is safe, because it is always some position in the same
/// namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameCursor {
    /// The process whose order the scan follows: that of the Redis node, or this one. In another
    /// process, the scan of the node or shard starts again, and names can be listed twice.
    pub process: u64,
    /// The first hash slot of the Redis node. On the embedded engine, the shard.
    pub place: u16,
    /// The cursor of SCAN. Always 0 on the embedded engine.
    pub position: u64,
    /// The last partition at this position that was listed, without its namespace; empty if none
    /// was.
    pub after: Vec<u8>,
}

/// The partitions of a page, with their namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamePage {
    /// The partitions, each once.
    pub(super) partitions: Vec<Bytes>,
    /// The position of the next page; `None` on the last page.
    pub(super) next: Option<NameCursor>,
}

impl NameQuery {
    /// Whether a partition is in the namespace and starts with the prefix.
    pub(super) fn contains(&self, partition: &[u8]) -> bool {
        self.namespace.contains(partition)
            && partition[self.namespace.prefix().len()..].starts_with(&self.prefix)
    }

    /// Returns a partition of the namespace without the namespace.
    pub(super) fn local<'a>(&self, partition: &'a [u8]) -> &'a [u8] {
        partition.get(self.namespace.prefix().len()..).unwrap_or_default()
    }
}
