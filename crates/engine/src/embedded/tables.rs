//! The state of one shard: a table of partitions for each capability.
//!
//! A table is an incremental map (`crates/core/src/collections/incremental_map.rs`), written by
//! hand because a map of the standard library moves all entries together when it grows, under the
//! mutex of the shard. That caused pauses of 4.9 ms for a new key, and of 279 ms in a pool that
//! grew to 1,000,000 leases. The incremental map moves one or two segments of a few hundred entries
//! at a time.

use std::convert::Infallible;

use super::{super::registry::stored_states, Embedded, journal::Seen};
use tollgate_core::{
    Decision, State,
    collections::IncrementalMap,
    error::Error,
    record::{Changes, Recorded},
    time::Timestamp,
};

/// The partitions of one kind of state, by name.
pub type Table<S> = IncrementalMap<Box<[u8]>, S>;

/// The changes of a decision, collected for the journal. Their memory is reused by the next
/// decision of the shard.
#[derive(Debug, Default)]
pub struct ChangeBuffer {
    /// The changes, in the form that the journal queues.
    pub(super) changes: Changes,
    /// The head of the state before and after the decision.
    pub(super) heads: [Vec<u8>; 2],
    /// The number of the shard's last change in the journal.
    pub(super) ticket: u64,
}

impl ChangeBuffer {
    /// Returns the changes that an answer depends on if it has seen the shard.
    pub(super) fn seen(&self) -> Seen {
        Seen { change: self.ticket, reservation: 0 }
    }
}

/// Collects the changes of a state.
pub(super) fn drain<S: Tabled>(state: &mut S, partition: &[u8], buffer: &mut ChangeBuffer) {
    buffer.changes.set_partition::<S>(partition);
    state.drain(&mut buffer.changes);
}

/// A state whose entry or entries the executor can find in a shard.
pub trait Sharded: State {
    /// Executes a decision and queues its changes. Also returns the changes that the outcome
    /// depends on. Fails with [`Error::MemoryFull`] or [`Error::NamespaceLimit`].
    fn execute<D>(engine: &Embedded, decision: &D) -> (Result<D::Outcome, Error>, Seen)
    where
        D: Decision<State = Self>;

    /// Executes the leading decisions that have the same shard as the first, under one lock. Passes
    /// each outcome to `take`, and stops when that returns false. Returns the changes that the
    /// outcomes depend on, or `None` if another thread has locked the shard and this one may not
    /// block.
    fn execute_run<D>(
        engine: &Embedded,
        decisions: &[D],
        may_block: bool,
        take: impl FnMut(Result<D::Outcome, Error>) -> bool,
    ) -> Option<Seen>
    where
        D: Decision<State = Self>;
}

/// A state that has a table in every shard.
pub trait Tabled: Sharded + Recorded {
    /// The event that a decision on the state appends to a history under the same tag.
    type Event: Send + 'static;

    /// Returns the table of this state.
    fn table(tables: &mut Tables) -> &mut Table<Self>;
    /// Returns the table, and the collector of changes.
    fn table_and_buffer(tables: &mut Tables) -> (&mut Table<Self>, &mut ChangeBuffer);
    /// Removes and returns the event that the last decision has produced.
    fn take_event(&mut self) -> Option<Box<Self::Event>> {
        None
    }
    /// Appends an event to the history of its tag. With `is_recorded`, also collects that change.
    fn append_event(
        _tables: &mut Tables,
        _tag: &[u8],
        _event: Self::Event,
        _now: Timestamp,
        _is_recorded: bool,
    ) {
    }
}

macro_rules! tables {
    ($($table:ident: $state:ty $(, events $event:ty => $history:ident)?;)*) => {
        /// The tables of one shard.
        #[derive(Debug, Default)]
        pub struct Tables {
            $($table: Table<$state>,)*
            /// The changes of the current decision. Unused without a data directory.
            pub(super) buffer: ChangeBuffer,
        }

        $(
            impl Tabled for $state {
                kept!($state, $table $(, $event, $history)?);
            }
        )*
    };
}

/// The items of [`Tabled`] for a state, with or without events.
macro_rules! kept {
    ($state:ty, $table:ident) => {
        type Event = Infallible;

        kept!(@ $table);
    };
    ($state:ty, $table:ident, $event:ty, $history:ident) => {
        type Event = $event;

        kept!(@ $table);

        fn take_event(&mut self) -> Option<Box<$event>> {
            <$state>::take_event(self)
        }

        fn append_event(
            tables: &mut Tables,
            tag: &[u8],
            event: $event,
            now: Timestamp,
            is_recorded: bool,
        ) {
            let history = tables.$history.get_or_default(tag);
            history.append(event, now);
            if is_recorded {
                drain(history, tag, &mut tables.buffer);
            }
        }
    };
    (@ $table:ident) => {
        fn table(tables: &mut Tables) -> &mut Table<Self> {
            &mut tables.$table
        }

        fn table_and_buffer(tables: &mut Tables) -> (&mut Table<Self>, &mut ChangeBuffer) {
            (&mut tables.$table, &mut tables.buffer)
        }
    };
}

stored_states!(tables);
