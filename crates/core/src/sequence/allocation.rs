//! Allocations: the values of one caller, and how merged requests share them.

use serde::{Deserialize, Serialize};

use crate::{Item, Reply, error::Error, statuses, unknown_status};

statuses! {
    ALLOCATION_GIVEN = 0, ALLOCATION_OUT_OF_RANGE = 1, ALLOCATION_TOO_FAR_AHEAD = 2,
    ALLOCATION_UNRESERVED = 3,
}
// Flags of a reply.
statuses! { ALLOCATION_FLOOR_APPLIED = 1, ALLOCATION_REPLAYED = 2 }

/// A non-empty range of values with a constant step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The last value.
    pub last: u64,
    /// The difference between two values.
    pub step: u64,
    /// The number of values; at least 1.
    pub count: u64,
}

impl Range {
    /// Returns the first value.
    pub fn first(&self) -> u64 {
        self.last - (self.count - 1) * self.step
    }

    /// Returns the values in ascending order.
    pub fn values(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |i| self.first() + i * self.step)
    }
}

/// The answer to a request for values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allocation {
    /// These values belong to the caller.
    Given {
        /// The values.
        range: Range,
        /// Whether the floor was above the next value.
        floor_applied: bool,
        /// Whether an earlier call with this request id got them.
        replayed: bool,
    },
    /// The sequence has too few values left; nothing changed.
    OutOfRange,
    /// The values would be too far ahead of the clock; nothing changed.
    TooFarAhead {
        /// True if the floor is too far ahead; false if the numbers of the periods are used up.
        by_floor: bool,
    },
    /// The values must be reserved first; nothing changed.
    Unreserved {
        /// The last of the values.
        last: u64,
    },
}

impl Allocation {
    /// Reads a reply of `lua/sequence/next.lua`. Fails if the range is not possible.
    pub(super) fn parse(reply: &mut Reply) -> Result<Allocation, Error> {
        Ok(match reply.number()? {
            ALLOCATION_GIVEN => {
                let flags = reply.number()?;
                let range =
                    Range { last: decimal(reply)?, step: decimal(reply)?, count: decimal(reply)? };
                let values = range.count.checked_sub(1).and_then(|n| n.checked_mul(range.step));
                let replayed = flags & ALLOCATION_REPLAYED != 0;
                if values.is_none_or(|span| span > range.last) {
                    return Err(Error::Corrupt(format!(
                        "a script replied with an impossible range: {range:?}"
                    )));
                }
                let floor_applied = flags & ALLOCATION_FLOOR_APPLIED != 0;
                Allocation::Given { range, floor_applied, replayed }
            }
            ALLOCATION_OUT_OF_RANGE => Allocation::OutOfRange,
            ALLOCATION_TOO_FAR_AHEAD => Allocation::TooFarAhead { by_floor: reply.number()? != 0 },
            ALLOCATION_UNRESERVED => Allocation::Unreserved { last: decimal(reply)? },
            status => return unknown_status(status),
        })
    }

    /// Splits the allocation of merged requests into one for each count, in order. The parts are
    /// ranges that follow each other, as if the requests had come one after the other. `None` if it
    /// was refused: each request is then decided separately.
    pub(super) fn split(&self, counts: impl Iterator<Item = u64>) -> Option<Vec<Allocation>> {
        let Allocation::Given { range, floor_applied, .. } = self else { return None };
        let mut given = 0;
        let parts = counts.map(|count| {
            // After the first part, the sequence is above the floor.
            let floor_applied = *floor_applied && given == 0;
            given += count;
            let last = range.first() + (given - 1) * range.step;
            let range = Range { last, step: range.step, count };
            Allocation::Given { range, floor_applied, replayed: false }
        });
        Some(parts.collect())
    }
}

/// Reads a value, sent as decimal text because Lua numbers are exact only up to 2^53.
pub(super) fn decimal(reply: &mut Reply) -> Result<u64, Error> {
    let bytes = reply.bytes()?;
    let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        Error::Corrupt(format!(
            "expected a decimal value in a script's reply, got {:?}",
            Item::Bytes(bytes)
        ))
    })
}
