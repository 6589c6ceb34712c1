//! Notes partitions in the index beside decisions, and lists them.
//!
//! `Redis::run` sends a note together with a decision that can put an entry into a partition. The
//! note is a separate command, often to another node: it can be lost although the decision is
//! executed. So it decides nothing, and the next decision notes the partition again.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use tokio::time::timeout_at;

use super::{
    PartitionCursor, PartitionPage, Redis, fair,
    index::{self, IndexOf, Note},
    job::{JobDelivery, LISTING, Pending},
};
use tollgate_core::{
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
        let pending = self.send(&script::index::REGISTER, call.finish(), LISTING, deadline);
        Noting { note, sent, pending }
    }

    /// Waits a moment for the answers of notes, and records the notes in this server's
    /// [`index::Index`].
    pub(super) async fn noted(&self, notes: impl IntoIterator<Item = (&[u8], Noting)>, epoch: u64) {
        let mut end = None;
        for (partition, Noting { note, sent, pending }) in notes {
            let end = *end.get_or_insert_with(|| monotonic() + NOTE_MAX);
            if let Ok(Ok(noted)) = timeout_at(end.into(), pending.wait()).await
                && !noted.repeated
            {
                self.index.noted(partition, note, sent, epoch);
            }
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
            self.noted([(partition, noting)], epoch).await;
        }
    }

    /// Sends the same notes for a batch: one for each partition. Usually none.
    pub(super) fn note_all_sooner<'a, D: Decision>(
        &self,
        decisions: &'a [D],
        outcomes: &[Result<D::Outcome, Error>],
        (deadline, epoch): (Instant, u64),
    ) -> Vec<(&'a [u8], Noting)> {
        let mut lengths: HashMap<&[u8], Millis> = HashMap::new();
        for (decision, outcome) in decisions.iter().zip(outcomes) {
            let Ok(outcome) = outcome else { continue };
            let Some(length) = (D::PROPERTIES.ends_sooner)(decision, outcome) else { continue };
            let shortest = lengths.entry(decision.partition()).or_insert(length);
            *shortest = length.min(*shortest);
        }
        let due = lengths.into_iter().filter_map(|(partition, length)| {
            let listing = Listing::Held(Ends::After(length));
            Some((partition, self.index.due(partition, listing, epoch)?))
        });
        due.map(|(partition, note)| (partition, self.note::<D>(partition, note, deadline)))
            .collect()
    }

    /// Notes partitions again after their connection broke: the new primary may not have the note.
    /// A failure here is repaired by a later call.
    pub(super) async fn note_again<D: Decision>(&self, decisions: &[D], deadline: Instant) {
        let epoch = self.epoch();
        let due = self.unnoted(decisions, epoch).into_iter();
        let notes: Vec<(&[u8], Noting)> = due
            .map(|(partition, note)| (partition, self.note::<D>(partition, note, deadline)))
            .collect();
        self.noted(notes, epoch).await;
    }

    /// The notes that these decisions need: one for each partition, with the earliest end.
    pub(super) fn unnoted<'a, D: Decision>(
        &self,
        decisions: impl IntoIterator<Item = &'a D>,
        epoch: u64,
    ) -> Vec<(&'a [u8], Note)> {
        let mut due: Vec<(&[u8], Note)> = Vec::new();
        let mut places: HashMap<&[u8], usize> = HashMap::new();
        for decision in decisions {
            let partition = decision.partition();
            let listing = (D::PROPERTIES.listing)(decision);
            let Some(note) = self.index.due(partition, listing, epoch) else { continue };
            let place = *places.entry(partition).or_insert(due.len());
            match due.get_mut(place) {
                Some((_, first)) => *first = first.and(note),
                None => due.push((partition, note)),
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
