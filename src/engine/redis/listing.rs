//! Which partitions there are: noted beside decisions, and listed.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::{LISTING, PartitionCursor, PartitionPage, Pending, Redis, index};
use crate::{
    decision::{Decision, Listing, State},
    error::Error,
    script,
};

/// How long a call waits for its note once it is answered itself.
const NOTE_MAX: Duration = Duration::from_millis(20);

impl Redis {
    /// Notes a partition for listings.
    pub(super) fn note<D: Decision>(
        &self,
        partition: &[u8],
        listing: Listing,
        deadline: Instant,
    ) -> Pending {
        let note = index::note(&self.key_prefix, D::State::CAPABILITY, partition, listing);
        self.send(&script::NOTE_PARTITION, note.finish(), LISTING, deadline)
    }

    /// Remembers that a partition was noted. Its answer is there as a rule, and does not
    /// keep a caller: the index may be on another node.
    pub(super) async fn noted(&self, note: Pending, partition: &[u8], epoch: u64) {
        if let Ok(Ok(noted)) = timeout(NOTE_MAX, note.wait()).await
            && !noted.repeated
        {
            self.index.noted(partition, epoch);
        }
    }

    /// Notes partitions whose connection was lost on the way: the store behind the new one
    /// may never have heard of them. What goes wrong here is made good by a later call.
    pub(super) async fn note_again<D: Decision>(
        &self,
        listed: &[(&[u8], Listing)],
        deadline: Instant,
    ) {
        let epoch = self.epoch();
        let is_due = |(partition, listing): &&(&[u8], Listing)| {
            self.index.is_due(partition, *listing, epoch)
        };
        let due: Vec<_> = listed.iter().filter(is_due).collect();
        let notes: Vec<Pending> = due
            .iter()
            .map(|(partition, listing)| self.note::<D>(partition, *listing, deadline))
            .collect();
        for (note, (partition, _)) in notes.into_iter().zip(due) {
            self.noted(note, partition, epoch).await;
        }
    }

    /// The partitions that have to be noted beside these decisions, each once.
    pub(super) fn unnoted<'a, D: Decision>(
        &self,
        decisions: &'a [D],
        epoch: u64,
    ) -> Vec<(&'a [u8], Listing)> {
        let listed = decisions.iter().map(|decision| (decision.partition(), decision.listing()));
        let mut due: Vec<_> = listed
            .filter(|(partition, listing)| self.index.is_due(partition, *listing, epoch))
            .collect();
        due.dedup_by_key(|(partition, _)| *partition);
        due
    }

    pub(in super::super) async fn partitions(
        &self,
        capability: &'static str,
        limit: u32,
        after: Option<&PartitionCursor>,
        deadline: Instant,
    ) -> Result<PartitionPage, Error> {
        self.check()?;
        let _permit = self.permit()?;
        let after = after.map(|cursor| (cursor.noted, cursor.name.as_bytes()));
        let list = index::list(&self.key_prefix, capability, limit, after).finish();
        let pending = self.send(&script::LIST_PARTITIONS, list, LISTING, deadline);
        index::parse_page(&mut pending.wait().await?.reply)
    }
}
