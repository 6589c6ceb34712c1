//! The state of one shard: a table of partitions for each capability.
//!
//! A table is an incremental map (`src/decision/incremental_map/`), written by hand for a reason. A
//! map of the standard library moves all entries at once when it grows, under the mutex of the
//! shard. Pauses of 359 ms were measured. The incremental map moves one or two segments of a few
//! hundred entries at a time.

use crate::{
    admission,
    decision::{
        incremental_map::IncrementalMap,
        persistence::{Changes, Recorded},
    },
    lock, rate, sequence, stock,
};

/// The partitions of one capability, by name.
pub type Table<S> = IncrementalMap<Box<[u8]>, S>;

/// The tables of one shard.
#[derive(Debug, Default)]
pub struct Tables {
    pub(super) admission: Table<admission::Pool>,
    pub(super) rate: Table<rate::Meter>,
    /// The histories of rate events, by the tag that they share with their keys.
    pub(super) rate_logs: Table<rate::Log>,
    /// The banned keys of each policy, for ListBans.
    pub(super) bans: Table<rate::BanIndex>,
    pub(super) sequences: Table<sequence::Counter>,
    pub(super) locks: Table<lock::Lock>,
    pub(super) stock: Table<stock::Sku>,
    /// The changes of the current decision. Unused without a data directory.
    pub(super) notes: Notes,
}

/// The changes of a decision, collected for the journal. Their memory is reused by the next
/// decision of the shard.
#[derive(Debug, Default)]
pub struct Notes {
    /// The changes, in the form that the journal queues.
    pub(super) changes: Changes,
    /// The head of the state before and after the decision.
    pub(super) heads: [Vec<u8>; 2],
    /// The number of the shard's last change in the journal.
    pub(super) ticket: u64,
}

/// A state that has a table in every shard.
pub trait Kept: Recorded {
    /// The table of this state.
    fn table(tables: &mut Tables) -> &mut Table<Self>;
    /// The table, and the collector of changes.
    fn table_and_notes(tables: &mut Tables) -> (&mut Table<Self>, &mut Notes);
    /// Takes the event that the last decision has produced, for the log of its tag.
    fn take_event(&mut self) -> Option<Box<rate::Event>> {
        None
    }
}

macro_rules! kept_in {
    ($($state:ty, $place:ident $(, $event:item)?;)*) => {$(
        impl Kept for $state {
            fn table(tables: &mut Tables) -> &mut Table<$state> {
                &mut tables.$place
            }

            fn table_and_notes(tables: &mut Tables) -> (&mut Table<$state>, &mut Notes) {
                (&mut tables.$place, &mut tables.notes)
            }

            $($event)?
        }
    )*};
}

kept_in! {
    admission::Pool, admission;
    rate::Meter, rate, fn take_event(&mut self) -> Option<Box<rate::Event>> {
        rate::Meter::take_event(self)
    };
    rate::Log, rate_logs;
    rate::BanIndex, bans;
    sequence::Counter, sequences;
    lock::Lock, locks;
    stock::Sku, stock;
}
