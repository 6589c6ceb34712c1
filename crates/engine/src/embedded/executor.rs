//! The executor runs decisions on the tables of their shard, with or without a data directory.
//!
//! With a data directory, the executor collects the changes of each decision and queues them for
//! the journal. Without one, it collects nothing.
//!
//! # Invariants
//! - Changes are queued under the mutex of their shard, so the file always equals some past state
//!   of each shard.
//! - A call is answered once every change that it may have seen is as durable as `--durability`
//!   promises: its own changes and all earlier changes of its shard.
//! - While the journal cannot accept changes, calls are refused before the decision.

mod several;

use std::time::Instant;

use super::{
    super::registry::stored_states,
    Embedded,
    journal::{Journal, Seen},
    memory_full,
    tables::{ChangeBuffer, Sharded, Tabled, Tables},
};
use tollgate_core::{
    Decision, State,
    error::Error,
    names::Namespace,
    record::Recorded,
    time::{Millis, Timestamp},
};
use tollgate_telemetry::metrics;

/// The retry delay for calls that need a new name: vacant names are dropped every second.
const NAMES_RETRY: Millis = Millis(1000);

/// The event that a decision on a state has produced.
type Produced<S> = Box<<S as Tabled>::Event>;

/// Implements [`Sharded`] for the states of one partition; `several` does so for states of several
/// partitions.
macro_rules! sharded {
    ($($table:ident: $state:ty $(, events $event:ty => $history:ident)?;)*) => {
        $(
            impl Sharded for $state {
                fn execute<D>(engine: &Embedded, decision: &D) -> (Result<D::Outcome, Error>, Seen)
                where
                    D: Decision<State = Self>,
                {
                    engine.execute_one(decision)
                }

                fn execute_run<D>(
                    engine: &Embedded,
                    decisions: &[D],
                    may_block: bool,
                    take: impl FnMut(Result<D::Outcome, Error>) -> bool,
                ) -> Option<Seen>
                where
                    D: Decision<State = Self>,
                {
                    engine.execute_alike(decisions, may_block, take)
                }
            }
        )*
    };
}

stored_states!(sharded);

impl Embedded {
    /// Decides a call: executes the decision, and returns once its changes are as durable as promised.
    pub(crate) async fn decide<D>(
        &self,
        decision: &D,
        deadline: Instant,
    ) -> Result<D::Outcome, Error>
    where
        D: Decision<State: Sharded>,
    {
        self.admit()?;
        let (outcome, seen) = D::State::execute(self, decision);
        if !self.is_synced(seen) {
            // Boxed, because without a data directory no call waits.
            Box::pin(self.synced(seen, deadline)).await?;
        }
        outcome
    }

    /// Executes a decision without waiting until its changes are synced. Fails like
    /// [`Embedded::admit`], and with [`Error::MemoryFull`].
    pub fn run<D>(&self, decision: &D) -> Result<D::Outcome, Error>
    where
        D: Decision<State: Sharded>,
    {
        self.admit()?;
        D::State::execute(self, decision).0
    }

    /// Fails while the journal cannot accept changes.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.journal().map_or(Ok(()), Journal::check)
    }

    /// Admits a call. Fails as [`Embedded::check`] does, and counts the refusal.
    pub(crate) fn admit(&self) -> Result<(), Error> {
        self.journal().map_or(Ok(()), Journal::admit)
    }

    /// Whether a call that has seen these changes may be answered.
    pub(super) fn is_synced(&self, seen: Seen) -> bool {
        self.journal().is_none_or(|journal| journal.is_synced(seen))
    }

    /// Waits until [`Embedded::is_synced`]. Fails with [`Error::DeadlineExceeded`].
    pub(super) async fn synced(&self, seen: Seen, deadline: Instant) -> Result<(), Error> {
        match self.journal() {
            None => Ok(()),
            Some(journal) => journal.synced(seen, deadline).await,
        }
    }

    /// Executes a decision about one partition.
    fn execute_one<D>(&self, decision: &D) -> (Result<D::Outcome, Error>, Seen)
    where
        D: Decision<State: Tabled>,
    {
        let mut tables = self.shard(D::State::tag(decision.partition()));
        // Read under the lock, so that time never runs backwards within a partition.
        let now = self.clock.now();
        self.execute_within(&mut tables, decision, now)
    }

    /// Executes decisions about one shard at a time, under one lock.
    fn execute_alike<D>(
        &self,
        decisions: &[D],
        may_block: bool,
        mut take: impl FnMut(Result<D::Outcome, Error>) -> bool,
    ) -> Option<Seen>
    where
        D: Decision<State: Tabled>,
    {
        let Some(first) = decisions.first() else { return Some(Seen::default()) };
        let tag = D::State::tag(first.partition());
        let is_same = |decision: &&D| D::State::tag(decision.partition()) == tag;
        let run = &decisions[..decisions.iter().take_while(is_same).count()];
        let mut tables = if may_block { self.shard(tag) } else { self.try_shard(tag)? };
        if run.len() > 1
            && let Some(state) = D::State::table(&mut tables).get(first.partition())
        {
            (D::PROPERTIES.warm)(run, state);
        }
        let mut last = Seen::default();
        for decision in run {
            // Different times make their entries in indexes of times cheaper to distinguish.
            let now = self.clock.now();
            let (outcome, seen) = self.execute_within(&mut tables, decision, now);
            last = last.and(seen);
            if !take(outcome) {
                break;
            }
        }
        Some(last)
    }

    /// Executes a decision in its locked shard.
    fn execute_within<D>(
        &self,
        tables: &mut Tables,
        decision: &D,
        now: Timestamp,
    ) -> (Result<D::Outcome, Error>, Seen)
    where
        D: Decision<State: Tabled>,
    {
        let tag = D::State::tag(decision.partition());
        let journal = self.journal();
        let (table, buffer) = D::State::table_and_buffer(tables);
        let (outcome, event) = match table.get_mut(decision.partition()) {
            Some(state) if self.is_full() && (D::PROPERTIES.is_new)(decision, state, now) => {
                return (Err(memory_full()), buffer.seen());
            }
            Some(state) => {
                let counted = match self.count(decision, state, true, now) {
                    Ok(counted) => counted,
                    Err(error) => return (Err(error), buffer.seen()),
                };
                let decided = self.apply(decision, state, journal.map(|_| &mut *buffer), now);
                self.settle(counted.as_ref(), decision.partition(), Some(state));
                decided
            }
            None => {
                let mut state = D::State::default();
                if journal.is_some() {
                    state.track_changes();
                }
                let counted = match self.count(decision, &state, false, now) {
                    Ok(counted) => counted,
                    Err(error) => return (Err(error), buffer.seen()),
                };
                let decided = self.apply(decision, &mut state, journal.map(|_| &mut *buffer), now);
                let partition = decision.partition();
                // An empty state is not stored, so its changes are dropped.
                let is_stored = if state.is_vacant(now) {
                    Ok(false)
                } else if self.is_full() {
                    Err(memory_full())
                } else {
                    self.name::<D::State>(partition).map(|()| true)
                };
                self.settle(
                    counted.as_ref(),
                    partition,
                    Some(&state).filter(|_| is_stored == Ok(true)),
                );
                match is_stored {
                    Ok(true) => table.add(partition.into(), state),
                    Ok(false) => buffer.changes.forget(),
                    Err(error) => {
                        buffer.changes.forget();
                        return (Err(error), buffer.seen());
                    }
                }
                decided
            }
        };
        if let Some(event) = event {
            let is_recorded = journal.is_some();
            D::State::append_event(tables, tag, *event, now, is_recorded);
        }
        let seen =
            journal.map(|journal| line_up_of::<D::State>(tables, decision.partition(), journal));
        (Ok(outcome), seen.unwrap_or_default())
    }

    /// Registers a new partition. Fails with [`Error::NamespaceLimit`] if its namespace has too many.
    fn name<S: Tabled>(&self, partition: &[u8]) -> Result<(), Error> {
        let used = self.hub.namespaces().of(Namespace::prefix_of(partition));
        let limit = used.and_then(|used| used.names_max().map(|most| (used, most)));
        let most = limit.as_ref().map(|(_, most)| *most);
        match (self.namespaces.add::<S>(partition, most), limit) {
            (false, Some((used, most))) => Err(used.exceeded("names_max", most, NAMES_RETRY)),
            _ => Ok(()),
        }
    }

    /// Decides on a state. With `buffer`, collects the changes of the state: the head if it differs, and
    /// the changed parts.
    fn apply<D>(
        &self,
        decision: &D,
        state: &mut D::State,
        buffer: Option<&mut ChangeBuffer>,
        now: Timestamp,
    ) -> (D::Outcome, Option<Produced<D::State>>)
    where
        D: Decision<State: Tabled>,
    {
        let Some(buffer) = buffer else {
            let outcome = decision.decide(state, now);
            self.wake(state);
            return (outcome, state.take_event());
        };
        let [before, after] = &mut buffer.heads;
        before.clear();
        after.clear();
        state.head(before);
        let outcome = if now <= self.token_floor {
            (D::PROPERTIES.decide_above)(decision, state, now, self.token_floor)
        } else {
            decision.decide(state, now)
        };
        let event = state.take_event();
        self.wake(state);
        state.head(after);
        buffer.changes.set_partition::<D::State>(decision.partition());
        if before != after {
            buffer.changes.head(after);
            if D::State::RESERVES && self.journal().is_some_and(Journal::reserves) {
                state.reserve_ahead(now);
            }
        }
        state.drain(&mut buffer.changes);
        (outcome, event)
    }

    /// Wakes the waiting calls that may proceed, and counts the expired leases.
    fn wake<S: State>(&self, state: &mut S) {
        let expired = state.take_expired();
        if expired > 0 {
            metrics::count(|cells| cells.expired_leases.add(expired));
        }
        for (_, number) in state.take_wake_ups() {
            self.hub.wake(number);
        }
    }
}

/// Queues the collected changes, if there are any. Returns the number of the shard's last change.
pub(super) fn line_up(buffer: &mut ChangeBuffer, journal: &Journal) -> u64 {
    if !buffer.changes.row().is_empty() {
        buffer.ticket = journal.push(buffer.changes.row());
        buffer.changes.forget();
    }
    buffer.ticket
}

/// Queues the changes of a decision about a partition. Returns the changes that its answer depends
/// on.
fn line_up_of<S: Tabled>(tables: &mut Tables, partition: &[u8], journal: &Journal) -> Seen {
    let change = line_up(&mut tables.buffer, journal);
    let reservation = if S::RESERVES && journal.reserves() {
        S::table(tables).get_mut(partition).map_or(0, |state| state.reservation(change))
    } else {
        0
    };
    Seen { change, reservation }
}

#[cfg(test)]
mod tests;
