//! Listings of names by their prefix: of locks, sequences and skus.
//!
//! No index has these names, since each decision that creates one would have to write it. A page
//! continues a walk through the store instead. It visits a bounded number of names, so a page can be
//! empty although others follow. The order of the walk has no meaning to callers.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Engine, ReadEntries, Stages, embedded::Tabled};
use tollgate_core::{Decision, State, error::Error, names::Namespace};

/// The number of names or keys that a page visits before it ends.
pub(super) const LOOKED_MAX: usize = 20_000;

/// A page that is asked for.
#[derive(Debug, Clone)]
pub struct NameQuery {
    /// The namespace of the names.
    pub namespace: Namespace,
    /// How the names begin, without their namespace. Empty for all names.
    pub prefix: Bytes,
    /// The most names of the page; above 0.
    pub limit: u32,
    /// The position of the page; `None` for the first.
    pub after: Option<NameCursor>,
}

/// A position of a walk. Any value is safe: it is some position in the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameCursor {
    /// The process whose order the walk follows: that of the Redis node, or this one. In another
    /// process the walk of the node or shard starts again, and names can be listed twice.
    pub process: u64,
    /// The first hash slot of the Redis node. On the embedded engine, the shard.
    pub place: u16,
    /// The cursor of SCAN. Always 0 on the embedded engine.
    pub position: u64,
    /// The last partition of the position that was listed, without its namespace; empty if none
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
    /// Whether a partition is of the namespace and begins with the prefix.
    pub(super) fn contains(&self, partition: &[u8]) -> bool {
        self.namespace.contains(partition)
            && partition[self.namespace.prefix().len()..].starts_with(&self.prefix)
    }

    /// A partition of the namespace without it.
    pub(super) fn local<'a>(&self, partition: &'a [u8]) -> &'a [u8] {
        partition.get(self.namespace.prefix().len()..).unwrap_or_default()
    }
}

impl Engine {
    /// Lists a page of the partitions of one kind. `read` returns the decision that reads a
    /// partition, or `None` to leave it out. Returns the entries, in no order, and the position of
    /// the next page. A partition that exists during the whole walk is listed at least once, unless
    /// slots of a Redis Cluster move.
    pub async fn list_names<D>(
        self: &Arc<Engine>,
        query: &NameQuery,
        deadline: Instant,
        read: impl Fn(Bytes) -> Option<D>,
    ) -> Result<(ReadEntries<D>, Option<NameCursor>), Error>
    where
        D: Decision<State: Tabled, Stages: Stages<D>>,
    {
        const { assert!(D::State::NAME_KEY.is_some(), "the index has the names") };
        let page = match &**self {
            Engine::Embedded(engine) => engine.names::<D::State>(query),
            Engine::Redis(engine) => Box::pin(engine.names::<D::State>(query, deadline)).await?,
        };
        let reads = page.partitions.into_iter().filter_map(read).collect();
        Ok((self.read_all(reads, deadline).await?, page.next))
    }
}
