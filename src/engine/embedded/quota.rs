//! The exact counts of the leases and queued tasks of each namespace, for `leases_max` and
//! `queued_max` of `[[namespace]]`. Nothing is counted unless one of them is configured.
//!
//! A decision that takes something is counted before it is decided, so that decisions on several
//! shards together never exceed a limit. The count is corrected after the decision.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

use ahash::RandomState;
use parking_lot::Mutex;

use super::{super::registry::stored_states, Embedded, SHARDS, tables::Tabled};
use crate::decision::{
    Decision, Holds, State, Takes,
    budget::exceeded,
    error::Error,
    names::Namespace,
    time::{Millis, Timestamp},
};

/// When a call at a limit may be repeated: the sweeper removes ended leases every half second.
const RETRY: Millis = Millis(1000);

/// The counts by prefix of the namespace. The mutex is taken within that of a shard.
#[derive(Debug, Default)]
pub(super) struct QuotaCounts {
    is_on: AtomicBool,
    counts: Mutex<HashMap<Box<[u8]>, Holds, RandomState>>,
}

/// A decision whose effect on the counts is not known yet.
#[derive(Debug)]
pub(super) struct QuotaChange {
    before: Holds,
    takes: Option<Takes>,
}

impl QuotaCounts {
    /// Adds to the counts of a namespace, and subtracts.
    fn add(&self, prefix: &[u8], more: Holds, less: Holds) {
        if more == less {
            return;
        }
        let mut counts = self.counts.lock();
        if !counts.contains_key(prefix) {
            counts.insert(prefix.into(), Holds::default());
        }
        let Some(count) = counts.get_mut(prefix) else { return };
        count.leases = (count.leases + more.leases).saturating_sub(less.leases);
        count.queued = (count.queued + more.queued).saturating_sub(less.queued);
        if *count == Holds::default() {
            counts.remove(prefix);
        }
    }

    /// Takes one if the namespace has fewer than `most`.
    fn take(&self, prefix: &[u8], takes: Takes, most: u32) -> bool {
        let mut counts = self.counts.lock();
        if !counts.contains_key(prefix) {
            counts.insert(prefix.into(), Holds::default());
        }
        let Some(count) = counts.get_mut(prefix).map(|count| count.of(takes)) else { return true };
        let has_room = *count < most.into();
        *count += u64::from(has_room);
        has_room
    }
}

macro_rules! count_all {
    ($($table:ident: $state:ty $(, events $event:ty => $history:ident)?;)*) => {
        impl Embedded {
            /// Starts to count leases and queued tasks, those in the tables included. Call it before the
            /// first call; later ones do nothing.
            pub(in super::super) fn count_held(&self) {
                if !self.counts.is_on.swap(true, Ordering::Relaxed) {
                    $(self.count_table::<$state>();)*
                }
            }
        }
    };
}

stored_states!(count_all);

impl Embedded {
    /// Whether leases and queued tasks are counted.
    pub(in super::super) fn counts_held(&self) -> bool {
        self.counts.is_on.load(Ordering::Relaxed)
    }

    fn count_table<S: Tabled>(&self) {
        for shard in 0..if S::HOLDS { SHARDS } else { 0 } {
            self.each_part::<S>(shard, |table, part| {
                for (partition, state) in table.part(part) {
                    let prefix = Namespace::prefix_of(partition);
                    self.counts.add(prefix, state.holds(), Holds::default());
                }
            });
        }
    }

    /// Counts what a decision takes. Fails with [`Error::NamespaceLimit`] if its namespace has as
    /// many as it may.
    pub(super) fn count<D: Decision>(
        &self,
        decision: &D,
        state: &D::State,
        now: Timestamp,
    ) -> Result<Option<QuotaChange>, Error>
    where
        D::State: Tabled,
    {
        if !D::State::HOLDS || !self.counts.is_on.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let prefix = Namespace::prefix_of(decision.partition());
        let mut takes = D::OPTIONAL.takes(decision, state, now);
        if let Some(taken) = takes {
            let used = self.hub().namespaces().of(prefix);
            match used.and_then(|used| used.held_max(taken)) {
                None => takes = None,
                Some((_, most)) if self.counts.take(prefix, taken, most) => {}
                Some((limit, most)) => return Err(exceeded(limit, most, RETRY)),
            }
        }
        Ok(Some(QuotaChange { before: state.holds(), takes }))
    }

    /// Corrects the counts by the state after the decision; `None` if the state is not stored.
    pub(super) fn settle<S: Tabled>(
        &self,
        counted: Option<&QuotaChange>,
        partition: &[u8],
        state: Option<&S>,
    ) {
        let Some(QuotaChange { before, takes }) = counted else { return };
        let mut before = *before;
        if let Some(takes) = takes {
            *before.of(*takes) += 1;
        }
        let after = state.map_or_else(Holds::default, S::holds);
        self.counts.add(Namespace::prefix_of(partition), after, before);
    }
}
