//! The results of decisions about stock.

use serde::{Deserialize, Serialize};

use crate::{Reply, error::Error, statuses, unknown_status};

statuses! { STOCK_UNKNOWN = 8, STOCK_AGAIN = 9 }
statuses! {
    RESTOCK_CHANGED = 0, RESTOCK_REPLAYED = 1, RESTOCK_BELOW_RESERVED = 2, RESTOCK_OUT_OF_RANGE = 3,
}

/// The names of the outcomes of SetStock and AddStock in the metrics.
pub(super) const RESTOCK_NAMES: &[&str] =
    &["changed", "below_reserved", "out_of_range", "not_found", "unfinished"];

/// Returns the position of an outcome in [`RESTOCK_NAMES`].
pub(super) fn restock_index(outcome: &StockOutcome<Restocked>) -> usize {
    match outcome {
        StockOutcome::Decided { outcome: Restocked::Changed { .. }, .. } => 0,
        StockOutcome::Decided { outcome: Restocked::BelowReserved, .. } => 1,
        StockOutcome::Decided { outcome: Restocked::OutOfRange, .. } => 2,
        StockOutcome::NotFound => 3,
        StockOutcome::Again => 4,
    }
}

/// The stock of a sku.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stock {
    /// The quantity on hand, including the reserved quantity.
    pub on_hand: u64,
    /// The quantity reserved for orders.
    pub reserved: u64,
    /// The quantity sold.
    pub sold: u64,
}

impl Stock {
    /// Returns the quantity that can be reserved.
    pub fn available(&self) -> u64 {
        self.on_hand - self.reserved
    }
}

/// The result of a decision about stock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StockOutcome<T> {
    /// The decision was made.
    Decided {
        /// The answer.
        outcome: T,
        /// The stock after the decision.
        stock: Stock,
    },
    /// The stock of the sku was never set.
    NotFound,
    /// Undecided: more holds have expired than one decision reclaims, and the rest may change the
    /// answer. Decide again.
    Again,
}

impl<T> StockOutcome<T> {
    /// Whether the step only reclaimed expired holds.
    pub(super) fn is_unfinished(&self) -> bool {
        matches!(self, StockOutcome::Again)
    }

    /// Reads a reply: the status, the stock, and the part that `outcome` reads. `outcome` returns
    /// `None` for an unknown status.
    pub(super) fn parse(
        reply: &mut Reply,
        outcome: impl FnOnce(u64, &mut Reply) -> Result<Option<T>, Error>,
    ) -> Result<StockOutcome<T>, Error> {
        let status = match reply.number()? {
            STOCK_UNKNOWN => return Ok(StockOutcome::NotFound),
            STOCK_AGAIN => return Ok(StockOutcome::Again),
            status => status,
        };
        let stock =
            Stock { on_hand: reply.number()?, reserved: reply.number()?, sold: reply.number()? };
        match outcome(status, reply)? {
            Some(outcome) => Ok(StockOutcome::Decided { outcome, stock }),
            None => unknown_status(status),
        }
    }
}

/// The answer to a change of the quantity on hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restocked {
    /// The quantity has changed.
    Changed {
        /// Whether an earlier call with this request id changed it. The stock is then the one in
        /// the first answer.
        replayed: bool,
    },
    /// The quantity would fall below the reserved quantity; nothing changed.
    BelowReserved,
    /// The sum of on-hand and sold quantity would exceed [`super::QUANTITY_MAX`]; nothing changed.
    OutOfRange,
}

impl Restocked {
    /// Reads a reply of `lua/stock/set.lua` or `lua/stock/add.lua`.
    pub(super) fn parse(reply: &mut Reply) -> Result<StockOutcome<Restocked>, Error> {
        StockOutcome::parse(reply, |status, _| {
            Ok(Some(match status {
                RESTOCK_CHANGED => Restocked::Changed { replayed: false },
                RESTOCK_REPLAYED => Restocked::Changed { replayed: true },
                RESTOCK_BELOW_RESERVED => Restocked::BelowReserved,
                RESTOCK_OUT_OF_RANGE => Restocked::OutOfRange,
                _ => return Ok(None),
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::*, StockOutcome};
    use crate::Decision;

    fn label<T, D: Decision<Outcome = StockOutcome<T>>>(outcome: &StockOutcome<T>) -> &'static str {
        D::PROPERTIES.outcomes.labels[(D::PROPERTIES.outcomes.index)(outcome)]
    }

    fn check<T, D: Decision<Outcome = StockOutcome<T>>>() {
        assert_eq!(label::<T, D>(&StockOutcome::Again), "unfinished", "{}", D::SCRIPT.name);
        assert_eq!(label::<T, D>(&StockOutcome::NotFound), "not_found", "{}", D::SCRIPT.name);
        assert!((D::PROPERTIES.is_unfinished)(&StockOutcome::Again), "{}", D::SCRIPT.name);
    }

    /// A verb that ran out of steps answers UNAVAILABLE, and the metrics must not count it as an
    /// unknown sku.
    #[test]
    fn j23_a_verb_that_ran_out_of_steps_has_an_outcome_of_its_own() {
        check::<_, SetStock>();
        check::<_, AddStock>();
        check::<_, ReserveStock>();
        check::<_, ConfirmReservation>();
        check::<_, CancelReservation>();
        check::<_, GetStock>();
    }
}
