//! Sequences: values that are given out once and never again.
//!
//! A value is exact up to [`VALUE_MAX`]. Values of one sequence are distinct and
//! rise; there may be gaps. A [`Layout`] writes a value as a serial; one with a
//! calendar starts its numbers anew with each period ([`Dating`] says how), and
//! never gives out a value below that of the engine's clock.
//!
//! What keeps values distinct when the store loses its last writes is the clock,
//! as far as it has moved on to another period, and [`ReserveSequence`].
//!
//! | verb | struct | script |
//! |---|---|---|
//! | NextSequence | [`NextSequence`], and [`ReserveSequence`] before it where values are reserved ahead | `lua/sequence/next.lua`, `lua/sequence/reserve.lua` |
//! | GetSequence | [`GetSequence`] | `lua/sequence/get.lua` |

mod allotment;
mod archive;
mod calendar;
mod counter;
mod dating;
mod get;
mod layout;
mod next;
mod pattern;
mod record;
mod reserve;
mod rules;

pub use allotment::{Allotment, Range};
pub(crate) use archive::split_calendar;
pub use calendar::Unit;
pub use counter::Counter;
pub use dating::Dating;
pub use get::GetSequence;
pub use layout::Layout;
pub use next::NextSequence;
pub use reserve::{Reservation, ReserveSequence};
pub use rules::{Reserve, SequenceRule, Sequences};

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    names::{Name, SEPARATOR},
    time::Millis,
};

/// The largest value.
pub const VALUE_MAX: u64 = i64::MAX as u64;
/// The most values of one request.
pub const COUNT_MAX: u64 = 10_000;
/// The largest step of a sequence whose layout has a calendar.
pub const DATED_STEP_MAX: u64 = 1_000_000;
/// How far beyond the clock a floor or a step may take a sequence, unless the
/// configuration says otherwise, and at most.
pub const AHEAD_DEFAULT: Millis = Millis::from_secs(86_400);
/// The furthest that it may say.
pub const AHEAD_MAX: Millis = Millis::from_secs(366 * 86_400);
/// The most values that are reserved ahead.
pub const RESERVE_MAX: u64 = 1_000_000;
/// How long an answer is kept for a repeat of its request.
pub const REPLAY: Millis = Millis::from_secs(300);

/// A sequence: its name, and how its values are written. Values that are counted in
/// another unit or width of a calendar are another sequence's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    partition: Bytes,
    layout: Option<Arc<Layout>>,
}

impl Sequence {
    /// Of a name that is written by a layout; by none, it has values alone.
    pub fn new(name: &Name, layout: Option<Arc<Layout>>) -> Sequence {
        let dating = layout.as_ref().and_then(|layout| layout.dating());
        let partition = match dating {
            Some(dating) => {
                let counted = format!("{}/{}", dating.unit.name(), dating.capacity());
                // Names hold no separator, so no two sequences share one.
                [name.as_bytes(), &[SEPARATOR], counted.as_bytes()].concat().into()
            }
            None => name.to_bytes(),
        };
        Sequence { partition, layout }
    }

    /// The unit of atomicity: the name, and what a calendar counts in.
    pub fn partition(&self) -> &[u8] {
        &self.partition
    }

    /// How values are written.
    pub fn layout(&self) -> Option<&Arc<Layout>> {
        self.layout.as_ref()
    }

    /// How a calendar numbers them, if the layout has one.
    pub fn dating(&self) -> Option<&Dating> {
        self.layout.as_ref().and_then(|layout| layout.dating())
    }

    /// The greatest value there is.
    pub fn value_max(&self) -> u64 {
        self.dating().map_or(VALUE_MAX, Dating::value_max)
    }
}
