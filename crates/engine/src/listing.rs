//! Listings that read each of their entries: the pools of a namespace, the bans of a policy.
//!
//! The names of a page come from an index. It decides nothing, and may name entries that have
//! ended. So a decision reads the state of each entry, in one batch for a page. A page is not
//! atomic: an entry may change while the others are read.

use std::{sync::Arc, time::Instant};

use serde::{Deserialize, Serialize};

use super::{Engine, Stages, embedded::Tabled};
use tollgate_core::{
    Decision,
    error::Error,
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
    /// The time of the partition's last note in the index of Redis, in µs. 0 on the embedded
    /// engine, where the order is by name.
    pub noted: u64,
    /// The name of the partition.
    pub name: Name,
}

/// The entries of a page in order: the decision that read the entry, and its outcome. `None` if the
/// stored state is unreadable.
pub type ReadEntries<D> = Vec<(D, Option<<D as Decision>::Outcome>)>;

impl Engine {
    /// Lists at most `limit` partitions of a namespace after the cursor `after`. `read` returns the
    /// decision that reads a partition, or `None` to leave it out. So a page can have fewer than
    /// `limit` entries although more follow. Returns the entries and the cursor of the next page.
    pub async fn list<D>(
        self: &Arc<Engine>,
        namespace: &Namespace,
        limit: u32,
        after: Option<PartitionCursor>,
        deadline: Instant,
        read: impl Fn(Name) -> Option<D>,
    ) -> Result<(ReadEntries<D>, Option<PartitionCursor>), Error>
    where
        D: Decision<State: Tabled, Stages: Stages<D>>,
    {
        let page = self.partitions::<D::State>(namespace, limit, after, deadline).await?;
        let reads = page.names.into_iter().filter_map(read).collect();
        Ok((self.read_all(reads, deadline).await?, page.next))
    }

    /// Reads the entries of a page in one batch. An unreadable entry does not hide the others. Any
    /// other error of an entry fails the page.
    pub async fn read_all<D>(
        self: &Arc<Engine>,
        reads: Vec<D>,
        deadline: Instant,
    ) -> Result<ReadEntries<D>, Error>
    where
        D: Decision<State: Tabled, Stages: Stages<D>>,
    {
        let outcomes = self.store_all(&reads, deadline).await?;
        let entries = reads.into_iter().zip(outcomes).map(|(read, outcome)| match outcome {
            Ok(outcome) => Ok((read, Some(outcome))),
            Err(Error::Corrupt(_)) => Ok((read, None)),
            Err(error) => Err(error),
        });
        entries.collect()
    }

    /// The names of a page. On Redis these are the names in the index (`redis/index.rs`), which
    /// keeps an empty partition for some minutes. On the embedded engine these are the partitions
    /// with state.
    pub async fn partitions<S: Tabled>(
        &self,
        namespace: &Namespace,
        limit: u32,
        after: Option<PartitionCursor>,
        deadline: Instant,
    ) -> Result<PartitionPage, Error> {
        let after = after.as_ref();
        match self {
            Engine::Embedded(engine) => Ok(engine.partitions::<S>(namespace, limit, after)),
            Engine::Redis(engine) => {
                engine.partitions(S::CAPABILITY, namespace, limit, after, deadline).await
            }
        }
    }
}
