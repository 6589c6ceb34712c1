//! The exact counts of the leases, queued tasks and bytes of each namespace, for `leases_max`,
//! `queued_max` and `bytes_max` of `[[namespace]]`. Nothing is counted unless one of them is configured.
//!
//! A decision that takes something is counted before it is made, so that decisions on several
//! shards together never exceed a limit. The count is corrected after the decision.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

use ahash::RandomState;
use parking_lot::Mutex;

use super::{super::registry::stored_states, Embedded, SHARDS, tables::Tabled};
use tollgate_core::{
    Decision, Footprint, PARTITION_BYTES, State, Takes,
    error::Error,
    names::Namespace,
    time::{Millis, Timestamp},
};

/// The retry delay for calls at a limit: the sweeper removes ended leases every half second.
const RETRY: Millis = Millis(1000);

/// The counts, by prefix of the namespace. The mutex is locked only while a shard's mutex is
/// locked.
#[derive(Debug, Default)]
pub(super) struct QuotaCounts {
    is_on: AtomicBool,
    counts: Mutex<HashMap<Box<[u8]>, Footprint, RandomState>>,
}

/// A decision whose effect on the counts is not known yet.
#[derive(Debug)]
pub(super) struct QuotaChange {
    before: Footprint,
    takes: Option<Takes>,
    /// The bytes that were counted before the decision.
    adds: u64,
}

/// Returns the footprint of a stored partition.
fn held<S: Tabled>(partition: &[u8], state: &S) -> Footprint {
    let holds = state.footprint();
    Footprint { bytes: holds.bytes + PARTITION_BYTES + partition.len() as u64, ..holds }
}

impl QuotaCounts {
    /// Whether counting is on.
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Returns the footprint of a partition before a change that is not made by a decision; `None`
    /// if nothing is counted.
    pub(super) fn before<S: Tabled>(&self, partition: &[u8], state: &S) -> Option<Footprint> {
        (S::IS_NAMED && self.is_on()).then(|| held(partition, state))
    }

    /// Counts that change; `state` is the partition after it, or `None` if it was removed.
    pub(super) fn after<S: Tabled>(&self, partition: &[u8], before: Footprint, state: Option<&S>) {
        let after = state.map_or_else(Footprint::default, |state| held(partition, state));
        self.add(Namespace::prefix_of(partition), after, before);
    }

    /// Adds `more` to the counts of a namespace, and subtracts `less`.
    fn add(&self, prefix: &[u8], more: Footprint, less: Footprint) {
        if more == less {
            return;
        }
        let mut counts = self.counts.lock();
        if !counts.contains_key(prefix) {
            counts.insert(prefix.into(), Footprint::default());
        }
        let Some(count) = counts.get_mut(prefix) else { return };
        count.leases = (count.leases + more.leases).saturating_sub(less.leases);
        count.queued = (count.queued + more.queued).saturating_sub(less.queued);
        count.bytes = (count.bytes + more.bytes).saturating_sub(less.bytes);
        if *count == Footprint::default() {
            counts.remove(prefix);
        }
    }

    /// Takes one if the namespace has fewer than `most`.
    fn take(&self, prefix: &[u8], takes: Takes, most: u64) -> bool {
        let mut counts = self.counts.lock();
        if !counts.contains_key(prefix) {
            counts.insert(prefix.into(), Footprint::default());
        }
        let Some(count) = counts.get_mut(prefix).map(|count| count.count_mut(takes)) else {
            return true;
        };
        let has_room = *count < most;
        *count += u64::from(has_room);
        has_room
    }

    /// Adds bytes if the namespace then uses at most `most`.
    pub(super) fn take_bytes(&self, prefix: &[u8], bytes: u64, most: u64) -> bool {
        let mut counts = self.counts.lock();
        if !counts.contains_key(prefix) {
            counts.insert(prefix.into(), Footprint::default());
        }
        let Some(count) = counts.get_mut(prefix) else { return true };
        let has_room = count.bytes + bytes <= most;
        if has_room {
            count.bytes += bytes;
        }
        has_room
    }
}

macro_rules! count_all {
    ($($table:ident: $state:ty $(, events $event:ty => $history:ident)?;)*) => {
        impl Embedded {
            /// Starts to count leases, queued tasks and bytes, including those already in the
            /// tables. It must run before the first call; repeated calls do nothing.
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
    /// Whether leases, queued tasks and bytes are counted.
    pub(in super::super) fn counts_held(&self) -> bool {
        self.counts.is_on.load(Ordering::Relaxed)
    }

    fn count_table<S: Tabled>(&self) {
        for shard in 0..if S::IS_NAMED { SHARDS } else { 0 } {
            self.each_part::<S>(shard, |table, part| {
                for (partition, state) in table.part(part) {
                    let prefix = Namespace::prefix_of(partition);
                    self.counts.add(prefix, held(partition, state), Footprint::default());
                }
            });
        }
    }

    /// Counts what a decision takes and adds; `is_stored` says whether its partition exists. Fails
    /// with [`Error::NamespaceLimit`] if its namespace has reached its limit.
    pub(super) fn count<D: Decision>(
        &self,
        decision: &D,
        state: &D::State,
        is_stored: bool,
        now: Timestamp,
    ) -> Result<Option<QuotaChange>, Error>
    where
        D::State: Tabled,
    {
        if !D::State::IS_NAMED || !self.counts.is_on() {
            return Ok(None);
        }
        let partition = decision.partition();
        let prefix = Namespace::prefix_of(partition);
        let before = if is_stored { held(partition, state) } else { Footprint::default() };
        let Some(used) = self.hub().namespaces().of(prefix) else {
            return Ok(Some(QuotaChange { before, takes: None, adds: 0 }));
        };
        let mut takes = (D::PROPERTIES.takes)(decision, state, now);
        if let Some(taken) = takes {
            match used.held_max(taken) {
                None => takes = None,
                Some((_, most)) if self.counts.take(prefix, taken, most) => {}
                Some((limit, most)) => return Err(used.exceeded(limit, most, RETRY)),
            }
        }
        let mut change = QuotaChange { before, takes, adds: 0 };
        if let Some(most) = used.bytes_max() {
            let new = if is_stored || !(D::PROPERTIES.creates)(decision) {
                0
            } else {
                PARTITION_BYTES + partition.len() as u64
            };
            let adds = new + (D::PROPERTIES.adds)(decision);
            if adds > 0 && (!is_stored || (D::PROPERTIES.may_add)(decision, state, now)) {
                if !self.counts.take_bytes(prefix, adds, most) {
                    self.settle(Some(&change), partition, Some(state).filter(|_| is_stored));
                    return Err(used.exceeded("bytes_max", most, RETRY));
                }
                change.adds = adds;
            }
        }
        Ok(Some(change))
    }

    /// Corrects the counts by the state after the decision; `None` if the state is not stored.
    pub(super) fn settle<S: Tabled>(
        &self,
        counted: Option<&QuotaChange>,
        partition: &[u8],
        state: Option<&S>,
    ) {
        let Some(QuotaChange { before, takes, adds }) = counted else { return };
        let mut before = *before;
        before.bytes += adds;
        if let Some(takes) = takes {
            *before.count_mut(*takes) += 1;
        }
        self.counts.after(partition, before, state);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use bytes::Bytes;

    use super::*;
    use crate::budget::{NamespaceLimits, NamespaceRule};
    use tollgate_core::{
        admission::{AdmitTask, CompleteTask, Outcome, Settings, TaskName},
        names::Name,
        time::Clock,
    };

    fn name(text: &str) -> Name {
        Name::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    fn engine(most: u64) -> (Embedded, Arc<AtomicU64>) {
        let now = Arc::new(AtomicU64::new(1_000_000));
        let engine = Embedded::new(Clock::Stepped(now.clone()));
        let limits = NamespaceLimits { bytes_max: Some(most), ..NamespaceLimits::default() };
        let rule = NamespaceRule { pattern: String::new(), limits };
        engine.hub().namespaces().set(&[rule], 1).unwrap();
        engine.count_held();
        (engine, now)
    }

    fn counted(engine: &Embedded) -> u64 {
        engine.counts.counts.lock().get(&[][..]).map_or(0, |count| count.bytes)
    }

    /// Recounts the tables.
    fn recounted(engine: &Embedded) -> u64 {
        engine.counts.counts.lock().clear();
        engine.counts.is_on.store(false, Ordering::Relaxed);
        engine.count_held();
        counted(engine)
    }

    fn task(number: usize) -> TaskName {
        let device = name(&format!("d{number}"));
        TaskName { pool: name(&format!("p{}", number % 7)), device, task: name("t") }
    }

    fn run_task(engine: &Embedded, number: usize, result: usize) -> Result<(), Error> {
        let settings = Settings { capacity: 1000, ..Settings::default() };
        let TaskName { pool, device, task: id } = task(number);
        let (waiting, lease_duration) = (None, None);
        engine.run(&AdmitTask {
            pool,
            device,
            task: Some(id),
            lease_duration,
            settings,
            waiting,
        })?;
        let (name, outcome) = (task(number), Outcome::Succeeded);
        let result = Bytes::from(vec![0; result]);
        engine.run(&CompleteTask { name, token: None, outcome, result, settings }).map(drop)
    }

    #[test]
    fn j14_the_bytes_of_a_namespace_are_exact_and_never_above_the_limit() {
        let (engine, now) = engine(200_000);
        let mut refused = 0;
        for number in 0..400 {
            refused += u32::from(run_task(&engine, number, 31 * (number % 50)).is_err());
            assert!(counted(&engine) <= 200_000);
        }
        assert!(refused > 50, "{refused} are refused");
        let before = counted(&engine);
        assert!(before > 195_000, "{before}");
        assert_eq!(recounted(&engine), before);
        // A repeat adds nothing.
        run_task(&engine, 1, 31).unwrap();
        assert_eq!(counted(&engine), before);
        now.fetch_add(Millis::from_secs(40 * 86_400).micros(), Ordering::SeqCst);
        for _ in 0..100 {
            engine.sweep_all();
        }
        let after = counted(&engine);
        assert!(after < before / 2, "{after} bytes are left");
        assert_eq!(recounted(&engine), after);
    }
}
