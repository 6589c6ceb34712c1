//! Notes partitions in the index beside decisions, and lists them.
//!
//! `Redis::run` sends a note together with a decision that can put an entry into a partition. The
//! note is a separate command, often to another node: it can be lost although the decision is
//! executed. So it decides nothing, and the next decision notes the partition again.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::{
    PartitionCursor, PartitionPage, Redis, fair,
    index::{self, IndexOf, Note},
    job::{JobDelivery, LISTING, Pending},
};
use crate::decision::{
    Cost, Decision, Ends, Listing, State,
    error::Error,
    names::Namespace,
    script,
    time::{Millis, monotonic},
};

/// The time that an answered call waits for its note. A late note is not recorded, and the next
/// call sends another one.
const NOTE_MAX: Duration = Duration::from_millis(20);

/// The options for listing `limit` names: bulk, with the cost of that many names.
pub(super) fn pages(delivery: JobDelivery, limit: u32) -> JobDelivery {
    JobDelivery { cost: Cost::bulk(50 + 5 * limit / 2), ..delivery }
}

/// A note in flight.
#[derive(Debug)]
pub(super) struct Noting {
    note: Note,
    /// When the note was sent.
    sent: Instant,
    pending: Pending,
}

impl Redis {
    /// Sends a note for a partition.
    pub(super) fn note<D: Decision>(
        &self,
        partition: &[u8],
        note: Note,
        deadline: Instant,
    ) -> Noting {
        let call = index::note(&self.key_prefix, D::State::CAPABILITY, partition, note);
        let sent = monotonic();
        let pending = self.send(&script::index::NOTE, call.finish(), LISTING, deadline);
        Noting { note, sent, pending }
    }

    /// Waits a moment for the answer of a note, and records the note in this server's
    /// [`index::Index`].
    pub(super) async fn noted(&self, noting: Noting, partition: &[u8], epoch: u64) {
        let Noting { note, sent, pending } = noting;
        if let Ok(Ok(noted)) = timeout(NOTE_MAX, pending.wait()).await
            && !noted.repeated
        {
            self.index.noted(partition, note, sent, epoch);
        }
    }

    /// Notes a partition again if a lease ends before the scheduled look of the sweeper. Settings
    /// of ConfigurePool can shorten leases, which is known only from the outcome.
    pub(super) async fn note_sooner<D: Decision>(
        &self,
        partition: &[u8],
        length: Millis,
        deadline: Instant,
    ) {
        let (listing, epoch) = (Listing::Held(Ends::After(length)), self.epoch());
        if let Some(note) = self.index.due(partition, listing, epoch) {
            let noting = self.note::<D>(partition, note, deadline);
            self.noted(noting, partition, epoch).await;
        }
    }

    /// Notes partitions again after their connection broke: the new primary may not have the note.
    /// A failure here is repaired by a later call.
    pub(super) async fn note_again<D: Decision>(&self, decisions: &[D], deadline: Instant) {
        let epoch = self.epoch();
        let due = self.unnoted(decisions, epoch);
        let notes: Vec<Noting> = due
            .iter()
            .map(|(partition, note)| self.note::<D>(partition, *note, deadline))
            .collect();
        for (noting, (partition, _)) in notes.into_iter().zip(due) {
            self.noted(noting, partition, epoch).await;
        }
    }

    /// The notes that these decisions need: one for decisions on the same partition in a row, with
    /// the earliest end.
    pub(super) fn unnoted<'a, D: Decision>(
        &self,
        decisions: impl IntoIterator<Item = &'a D>,
        epoch: u64,
    ) -> Vec<(&'a [u8], Note)> {
        let mut due: Vec<(&[u8], Note)> = Vec::new();
        for decision in decisions {
            let partition = decision.partition();
            let listing = (D::DELIVERY.listing)(decision);
            let Some(note) = self.index.due(partition, listing, epoch) else { continue };
            match due.last_mut() {
                Some((last, first)) if *last == partition => *first = first.and(note),
                _ => due.push((partition, note)),
            }
        }
        due
    }

    /// Lists a page of the partition names of a namespace from the index.
    pub(in super::super) async fn partitions(
        &self,
        capability: &'static str,
        namespace: &Namespace,
        limit: u32,
        after: Option<&PartitionCursor>,
        deadline: Instant,
    ) -> Result<PartitionPage, Error> {
        self.check()?;
        let _call = self.calls.enter(fair::line_of(namespace.prefix()))?;
        let after = after.map(|cursor| (cursor.noted, cursor.name.as_bytes()));
        let index = IndexOf { capability, is_default: namespace.is_default() };
        let list = index::list(&self.key_prefix, index, namespace, limit, after).finish();
        let pending = self.send(&script::index::LIST, list, pages(LISTING, limit), deadline);
        index::parse_page(&mut pending.wait().await?.reply)
    }
}
