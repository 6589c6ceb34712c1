//! Decisions that span several partitions of one shard, in one step.

use std::mem;

use super::{
    super::{
        Embedded,
        journal::Seen,
        memory_full,
        tables::{Sharded, Tabled},
    },
    NAMES_RETRY, line_up,
};
use tollgate_core::{Decision, Footprint, PARTITION_BYTES, error::Error, names::Namespace};

impl<S: Tabled> Sharded for Vec<S> {
    fn execute<D>(engine: &Embedded, decision: &D) -> (Result<D::Outcome, Error>, Seen)
    where
        D: Decision<State = Self>,
    {
        engine.execute_several(decision)
    }

    fn execute_run<D>(
        engine: &Embedded,
        decisions: &[D],
        _may_block: bool,
        mut take: impl FnMut(Result<D::Outcome, Error>) -> bool,
    ) -> Option<Seen>
    where
        D: Decision<State = Self>,
    {
        let (outcome, seen) = engine.execute_several(decisions.first()?);
        take(outcome);
        Some(seen)
    }
}

impl Embedded {
    /// Executes a decision that spans several partitions. Its changes form one journal entry.
    ///
    /// New partitions are registered before the decision, because it cannot be undone. Partitions
    /// that it leaves empty are removed again. Leases and queued tasks are not limited here, and
    /// states that reserve ahead are not supported.
    fn execute_several<S, D>(&self, decision: &D) -> (Result<D::Outcome, Error>, Seen)
    where
        S: Tabled,
        D: Decision<State = Vec<S>>,
    {
        const { assert!(!S::RESERVES, "the reservations of several states are not tracked") };
        let (partitions, tag) = (decision.partitions(), S::tag(decision.partition()));
        let mut tables = self.shard(tag);
        // Read under the lock, as for a single partition.
        let now = self.clock.now();
        let is_recorded = self.journal().is_some();
        let (table, buffer) = S::table_and_buffer(&mut tables);
        let is_new = |partition: &&[u8]| table.get(partition).is_none();
        let new: Vec<&[u8]> = if (D::PROPERTIES.creates)(decision) {
            partitions.iter().copied().filter(is_new).collect()
        } else {
            Vec::new()
        };
        if let Err(error) = self.has_bytes(&new).and_then(|()| self.name_all::<S>(&new)) {
            return (Err(error), buffer.seen());
        }
        let before: Vec<Footprint> = partitions
            .iter()
            .map(|partition| {
                let state = table.get(partition);
                state.and_then(|state| self.counts.before(partition, state)).unwrap_or_default()
            })
            .collect();
        let take = |partition: &&[u8]| match table.get_mut(partition) {
            Some(state) => mem::take(state),
            None => {
                let mut state = S::default();
                if is_recorded {
                    state.track_changes();
                }
                state
            }
        };
        let mut states: Vec<S> = partitions.iter().map(take).collect();
        let heads: Vec<Vec<u8>> =
            if is_recorded { states.iter().map(head).collect() } else { Vec::new() };
        let outcome = decision.decide(&mut states, now);
        let mut events = Vec::new();
        for (index, (partition, mut state)) in partitions.into_iter().zip(states).enumerate() {
            events.extend(state.take_event());
            if is_recorded {
                buffer.changes.set_partition::<S>(partition);
                let after = head(&state);
                if heads[index] != after {
                    buffer.changes.head(&after);
                }
                state.drain(&mut buffer.changes);
            }
            match table.get_mut(partition) {
                Some(entry) => *entry = state,
                None if !state.is_vacant(now) => table.add(partition.into(), state),
                None if new.contains(&partition) => self.namespaces.remove::<S>(partition),
                None => {}
            }
            if self.counts.is_on() {
                self.counts.after(partition, before[index], table.get(partition));
            }
        }
        for event in events {
            S::append_event(&mut tables, tag, *event, now, is_recorded);
        }
        let change = self.journal().map_or(0, |journal| line_up(&mut tables.buffer, journal));
        (Ok(outcome), Seen { change, reservation: 0 })
    }

    /// Fails with [`Error::NamespaceLimit`] if new partitions exceed the bytes of their namespace.
    fn has_bytes(&self, new: &[&[u8]]) -> Result<(), Error> {
        let Some(first) = new.first().filter(|_| self.counts.is_on()) else { return Ok(()) };
        let prefix = Namespace::prefix_of(first);
        let used = self.hub().namespaces().of(prefix);
        match used.and_then(|used| used.bytes_max().map(|most| (used, most))) {
            Some((used, most))
                if !self.counts.take_bytes(prefix, 0, most.saturating_sub(PARTITION_BYTES)) =>
            {
                Err(used.exceeded("bytes_max", most, NAMES_RETRY))
            }
            _ => Ok(()),
        }
    }

    /// Registers all new partitions, or none if it fails.
    fn name_all<S: Tabled>(&self, new: &[&[u8]]) -> Result<(), Error> {
        if self.is_full() && !new.is_empty() {
            return Err(memory_full());
        }
        for (index, partition) in new.iter().enumerate() {
            if let Err(error) = self.name::<S>(partition) {
                new[..index].iter().for_each(|named| self.namespaces.remove::<S>(named));
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Returns the encoded head of a state.
fn head<S: Tabled>(state: &S) -> Vec<u8> {
    let mut head = Vec::new();
    state.head(&mut head);
    head
}
