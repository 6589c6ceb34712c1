//! Sequences: values that are issued to one caller and never again.
//!
//! A value is an exact whole number up to [`VALUE_MAX`]. Values of one sequence are distinct and
//! rise; there may be gaps. A [`Layout`] formats a value as a serial. With a calendar in the
//! layout, numbers restart in each period (see [`Dating`]), and no value is below that of the
//! engine's clock.
//!
//! If the store loses its last writes, two things keep values distinct: the clock, if it has moved
//! to another period, and [`ReserveSequence`].
//!
//! # Invariants
//! - A value is issued to at most one caller. `last` of [`Counter`] only rises.
//! - `last` is stored before a value is issued, in the same step.
//! - A sequence that reserves values ahead issues no value above the reserved mark, which replicas
//!   have acknowledged beforehand. After a failover all values up to the mark count as issued.
//!
//! | verb | struct | script |
//! |---|---|---|
//! | NextSequence | [`NextSequence`]; [`ReserveSequence`] before it, where values are reserved ahead | `lua/sequence/next.lua`, `lua/sequence/reserve.lua` |
//! | GetSequence | [`GetSequence`] | `lua/sequence/get.lua` |
//! | SetSequenceFloor | [`SetSequenceFloor`] | `lua/sequence/set_floor.lua` |

mod ahead;
mod allocation;
mod calendar;
mod counter;
mod dating;
mod export;
mod get;
mod layout;
mod lines;
mod next;
mod pattern;
mod record;
mod reserve;
mod rules;
mod set_floor;

pub use ahead::RESERVED;
pub use allocation::{Allocation, Range};
pub use calendar::Unit;
pub use counter::{Counter, ReservedBlock};
pub use dating::Dating;
pub use get::GetSequence;
pub use layout::Layout;
pub use lines::{RangeLine, SequenceLine};
pub use next::NextSequence;
pub use record::above_reserved;
pub use reserve::ReserveSequence;
pub use rules::{Reserve, SequenceRule, Sequences};
pub use set_floor::{Floor, SetSequenceFloor};

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    names::{Name, Namespace, SEPARATOR},
    time::Millis,
};

/// The largest value.
pub const VALUE_MAX: u64 = i64::MAX as u64;
/// The maximum number of values of one request.
pub const COUNT_MAX: u64 = 10_000;
/// The largest step of a sequence whose layout has a calendar.
pub const DATED_STEP_MAX: u64 = 1_000_000;
/// Default of `ahead_max`: how far ahead of the clock a floor or a step may move a sequence with a
/// calendar.
pub const AHEAD_DEFAULT: Millis = Millis::from_secs(86_400);
/// The largest configurable `ahead_max`: 366 days.
pub const AHEAD_MAX: Millis = Millis::from_secs(366 * 86_400);
/// The largest configurable block of reserved values.
pub const RESERVE_MAX: u64 = 1_000_000;
/// How long an answer is stored for repeats of its request.
pub const REPLAY: Millis = Millis::from_secs(300);

/// A sequence: its name and the layout of its values.
///
/// With a calendar, the partition also contains the finest unit and the numbers per period. Values
/// that are counted differently therefore belong to another sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    partition: Bytes,
    layout: Option<Arc<Layout>>,
}

impl Sequence {
    /// Creates the sequence of a name with this layout; without a layout it has values only.
    pub fn new(name: &Name, layout: Option<Arc<Layout>>) -> Sequence {
        let dating = layout.as_ref().and_then(|layout| layout.dating());
        let partition = match dating {
            Some(dating) => {
                let counted = format!("{}/{}", dating.unit.name(), dating.capacity());
                // Names contain no separator, so no two sequences have the same partition.
                [name.as_bytes(), &[SEPARATOR], counted.as_bytes()].concat().into()
            }
            None => name.to_bytes(),
        };
        Sequence { partition, layout }
    }

    /// Returns the partition: the name, and with a calendar the unit and the numbers per period.
    pub fn partition(&self) -> &[u8] {
        &self.partition
    }

    /// Returns the name of a partition, with its namespace.
    pub fn name_of(partition: &Bytes) -> Bytes {
        let end = partition.iter().position(|byte| *byte == SEPARATOR);
        partition.slice(..end.unwrap_or(partition.len()))
    }

    /// Returns the name without its namespace.
    pub fn local_name(&self) -> Bytes {
        let name = Sequence::name_of(&self.partition);
        name.slice_ref(Namespace::split(&name).1)
    }

    /// Returns the layout of its values.
    pub fn layout(&self) -> Option<&Arc<Layout>> {
        self.layout.as_ref()
    }

    /// Returns the calendar of the layout.
    pub fn dating(&self) -> Option<&Dating> {
        self.layout.as_ref().and_then(|layout| layout.dating())
    }

    /// Returns the largest value of the sequence.
    pub fn value_max(&self) -> u64 {
        self.dating().map_or(VALUE_MAX, Dating::value_max)
    }
}
