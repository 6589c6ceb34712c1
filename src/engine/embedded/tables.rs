//! The partitions of one shard.

use crate::{
    admission, lock,
    parted::Parted,
    rate,
    record::{Changes, Recorded},
    sequence, stock,
};

/// The partitions of one capability.
pub type Table<S> = Parted<Box<[u8]>, S>;

/// The partitions of one shard, by capability.
#[derive(Debug, Default)]
pub struct Tables {
    pub(super) admission: Table<admission::Pool>,
    pub(super) rate: Table<rate::Meter>,
    pub(super) rate_logs: Table<rate::Log>,
    pub(super) bans: Table<rate::BanIndex>,
    pub(super) sequences: Table<sequence::Counter>,
    pub(super) locks: Table<lock::Lock>,
    pub(super) stock: Table<stock::Sku>,
    /// Where changes are written down: what they are noted in.
    pub(super) notes: Notes,
}

/// What a decision has changed, on its way to the journal.
#[derive(Debug, Default)]
pub struct Notes {
    pub(super) changes: Changes,
    /// The head before a decision, and after it.
    pub(super) heads: [Vec<u8>; 2],
    /// The journal's ticket of the shard's last change.
    pub(super) ticket: u64,
}

/// A capability's state with a place in every shard.
pub trait Kept: Recorded {
    /// That place.
    fn table(tables: &mut Tables) -> &mut Table<Self>;
    /// That place, and what changes are noted in.
    fn table_and_notes(tables: &mut Tables) -> (&mut Table<Self>, &mut Notes);
    /// The event that the last decision has left, for the log of its tag.
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
