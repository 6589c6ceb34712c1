//! What a caller is given, and how callers that wait together share it.

use serde::{Deserialize, Serialize};

use crate::{
    decision::{Item, Reply},
    error::Error,
};

/// Values with even steps between them, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The last.
    pub last: u64,
    /// From one to the next.
    pub step: u64,
    /// How many.
    pub count: u64,
}

impl Range {
    /// The first.
    pub fn first(&self) -> u64 {
        self.last - (self.count - 1) * self.step
    }

    /// The values, rising.
    pub fn values(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |i| self.first() + i * self.step)
    }
}

/// The answer to a request for values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allotment {
    /// These values are the caller's, and nobody else's ever.
    Given {
        /// The values.
        range: Range,
        /// Whether the floor lay above what was next.
        floor_applied: bool,
        /// Whether an earlier call with this request got them.
        replayed: bool,
    },
    /// There are not so many values left; nothing changed.
    OutOfRange,
    /// They would lie too far beyond the clock; nothing changed.
    TooFarAhead {
        /// Whether the floor itself does; if not, the period's numbers are used up.
        by_floor: bool,
    },
    /// They have to be reserved first; nothing changed.
    Unreserved {
        /// The last of them.
        last: u64,
    },
}

impl Allotment {
    /// Reads a reply of `lua/sequence/next.lua`.
    pub(super) fn parse(reply: &mut Reply) -> Result<Allotment, Error> {
        const FLOOR_APPLIED: u64 = 1;
        const REPLAYED: u64 = 2;
        Ok(match reply.number()? {
            0 => {
                let flags = reply.number()?;
                let range =
                    Range { last: decimal(reply)?, step: decimal(reply)?, count: decimal(reply)? };
                let values = range.count.checked_sub(1).and_then(|n| n.checked_mul(range.step));
                let replayed = flags & REPLAYED != 0;
                if values.is_none_or(|span| span > range.last) {
                    return Err(Error::Corrupt(format!("a range that is none: {range:?}")));
                }
                let floor_applied = flags & FLOOR_APPLIED != 0;
                Allotment::Given { range, floor_applied, replayed }
            }
            1 => Allotment::OutOfRange,
            2 => Allotment::TooFarAhead { by_floor: reply.number()? != 0 },
            3 => Allotment::Unreserved { last: decimal(reply)? },
            status => return Err(Error::Corrupt(format!("a reply of unknown status {status}"))),
        })
    }

    /// The parts of requests that were joined, in order; none where each must be
    /// decided by itself.
    pub(super) fn share(&self, counts: impl Iterator<Item = u64>) -> Option<Vec<Allotment>> {
        let Allotment::Given { range, floor_applied, .. } = self else { return None };
        let mut given = 0;
        let parts = counts.map(|count| {
            // Behind the first one the floor is passed.
            let floor_applied = *floor_applied && given == 0;
            given += count;
            let last = range.first() + (given - 1) * range.step;
            let range = Range { last, step: range.step, count };
            Allotment::Given { range, floor_applied, replayed: false }
        });
        Some(parts.collect())
    }
}

/// A value as text: Lua's numbers do not hold them all.
pub(super) fn decimal(reply: &mut Reply) -> Result<u64, Error> {
    let bytes = reply.bytes()?;
    let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        Error::Corrupt(format!("expected a value in a reply, got {:?}", Item::Bytes(bytes)))
    })
}
