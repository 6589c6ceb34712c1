//! The embedded executor with persistence: decides like `Embedded::run`, and queues the changes for
//! the journal.
//!
//! # Invariants
//! - Changes are queued under the mutex of their shard. The file therefore always equals some past
//!   state of each shard.
//! - A call is answered once everything that it can have seen is as durable as `--durability`
//!   promises: its own changes, and all earlier changes of its shard.
//! - While the journal cannot accept changes, calls are refused before the decision.

use std::{
    hash::{BuildHasher, RandomState},
    path::Path,
    sync::Arc,
    time::Instant,
};

use super::{
    Embedded,
    journal::{Durability, Journal, Writer},
    load, memory_full,
    store::{Batch, Disk, OpenError, Store},
    tables::{Kept, Notes},
};
use crate::{
    decision::{
        Decision, State,
        error::Error,
        persistence::Recorded,
        time::{Clock, KeptClock, Millis, Timestamp},
    },
    rate,
};

/// A larger lead over the system clock is logged: the system clock was set back.
const AHEAD_MAX: Millis = Millis::from_secs(10);

impl Embedded {
    /// Opens an engine with the state of a disk, and starts its journal thread.
    pub fn open(source: Clock, disk: Disk, durability: Durability) -> Result<Embedded, OpenError> {
        let salt = RandomState::new().hash_one(durability);
        let (engine, writer) = Embedded::open_unwritten(source, disk, durability, salt)?;
        if let Some(Err(error)) = engine.journal().map(|journal| journal.spawn(writer)) {
            return Err(OpenError::Unusable(format!("cannot start a thread: {error}")));
        }
        Ok(engine)
    }

    /// Opens an engine without a journal thread: the caller runs the returned writer. For the
    /// simulation, which needs a reproducible engine. `salt` selects which partitions share a
    /// shard.
    pub fn open_unwritten(
        source: Clock,
        disk: Disk,
        durability: Durability,
        salt: u64,
    ) -> Result<(Embedded, Writer), OpenError> {
        let mut engine = Embedded::salted(Clock::system(), salt);
        let path = disk.path().to_owned();
        let mut store = Store::open(disk)?;
        let (mark, count) = load::load(&mut engine, &store)?;
        let was_closed = mark.is_none_or(|mark| mark.is_last);
        let clock = Arc::new(KeptClock::resume(source, mark, durability.keeps()));
        tell(&path, count, was_closed, &clock);
        // The reservation of tokens must be on disk before the first call is answered.
        let first = clock.mark();
        store.write(&Batch::default(), first).map_err(OpenError::Unusable)?;
        clock.note_synced(first);
        let (journal, writer) = Journal::new(store, clock.clone(), durability);
        engine.journal = Some(journal);
        engine.token_floor = clock.token_floor();
        engine.clock = Clock::Kept(clock);
        Ok((engine, writer))
    }

    /// Executes a decision. Returns when the outcome may be acknowledged.
    pub(in super::super) async fn run_kept<D>(
        &self,
        journal: &Journal,
        decision: &D,
        deadline: Instant,
    ) -> Result<D::Outcome, Error>
    where
        D: Decision<State: Kept>,
    {
        journal.admit()?;
        let (outcome, ticket) = self.decide_kept(journal, decision);
        journal.settle(ticket, deadline).await?;
        outcome
    }

    /// Executes decisions in order. Returns when all outcomes may be acknowledged.
    pub(in super::super) async fn run_all_kept<D>(
        &self,
        journal: &Journal,
        decisions: &[D],
        deadline: Instant,
    ) -> Result<Vec<Result<D::Outcome, Error>>, Error>
    where
        D: Decision<State: Kept>,
    {
        journal.admit()?;
        let decided = decisions.iter().map(|decision| self.decide_kept(journal, decision));
        let (outcomes, tickets): (Vec<_>, Vec<_>) = decided.unzip();
        journal.settle(tickets.into_iter().max().unwrap_or(0), deadline).await?;
        Ok(outcomes)
    }

    /// Executes a decision of the sweeper. Its changes are queued, and nothing waits for the disk.
    pub(in super::super) fn run_unwaited<D>(&self, decision: &D) -> Result<D::Outcome, Error>
    where
        D: Decision<State: Kept>,
    {
        let Some(journal) = self.journal() else { return self.run(decision) };
        journal.admit()?;
        self.decide_kept(journal, decision).0
    }

    /// Executes a decision and queues its changes. Returns the number of the shard's last change in
    /// the journal.
    fn decide_kept<D>(&self, journal: &Journal, decision: &D) -> (Result<D::Outcome, Error>, u64)
    where
        D: Decision<State: Kept>,
    {
        let mut tables = self.shard(decision.tag());
        let now = self.clock.now();
        let (table, notes) = D::State::table_and_notes(&mut tables);
        let (outcome, event) = match table.get_mut(decision.partition()) {
            Some(state) if self.is_full() && decision.is_new(state, now) => {
                return (Err(memory_full()), notes.ticket);
            }
            Some(state) => self.decide_noted(decision, state, notes, now),
            None => {
                let mut state = D::State::default();
                state.note_changes();
                let (outcome, event) = self.decide_noted(decision, &mut state, notes, now);
                if state.is_vacant(now) {
                    // An empty state is not stored, so its changes are dropped.
                    notes.changes.forget();
                } else if self.is_full() {
                    notes.changes.forget();
                    return (Err(memory_full()), notes.ticket);
                } else {
                    table.add(decision.partition().into(), state);
                }
                (outcome, event)
            }
        };
        if let Some(event) = event {
            let tables = &mut *tables;
            let log = tables.rate_logs.get_or_default(decision.tag());
            log.append(*event, now);
            drain(log, decision.tag(), &mut tables.notes);
        }
        (Ok(outcome), line_up(&mut tables.notes, journal))
    }

    /// Decides, and collects the changes of the state: the head if it differs, and the changed
    /// parts.
    fn decide_noted<D>(
        &self,
        decision: &D,
        state: &mut D::State,
        notes: &mut Notes,
        now: Timestamp,
    ) -> (D::Outcome, Option<Box<rate::Event>>)
    where
        D: Decision<State: Kept>,
    {
        let [before, after] = &mut notes.heads;
        before.clear();
        after.clear();
        state.head(before);
        let outcome = match now <= self.token_floor {
            true => decision.decide_above(state, now, self.token_floor),
            false => decision.decide(state, now),
        };
        let event = state.take_event();
        self.tell(state);
        state.head(after);
        notes.changes.of::<D::State>(decision.partition());
        if before != after {
            notes.changes.head(after);
        }
        state.drain(&mut notes.changes);
        (outcome, event)
    }
}

/// Collects the changes of a state.
pub(super) fn drain<S: Kept>(state: &mut S, partition: &[u8], notes: &mut Notes) {
    notes.changes.of::<S>(partition);
    state.drain(&mut notes.changes);
}

/// Queues the collected changes, if there are any. Returns the number of the shard's last change.
pub(super) fn line_up(notes: &mut Notes, journal: &Journal) -> u64 {
    if !notes.changes.row().is_empty() {
        notes.ticket = journal.push(notes.changes.row());
        notes.changes.forget();
    }
    notes.ticket
}

/// Logs the result of loading.
fn tell(path: &Path, count: usize, was_closed: bool, clock: &KeptClock) {
    let path = path.display();
    if !was_closed {
        tracing::warn!(
            %path,
            "the last server of this data directory was killed: an unfinished write was cut off, \
             finished writes are complete"
        );
    }
    if clock.ahead() > AHEAD_MAX {
        let ahead = humantime::format_duration(clock.ahead().duration());
        tracing::warn!(
            %path,
            %ahead,
            "the system clock was set back: it is behind the last decision in the data \
             directory; time continues from that decision"
        );
    }
    tracing::info!(%path, entries = count, "loaded the data directory");
}

#[cfg(test)]
mod tests;
