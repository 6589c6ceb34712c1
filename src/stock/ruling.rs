//! How a step about stock ends.

use serde::{Deserialize, Serialize};

use crate::{
    decision::{Reply, unknown_status},
    error::Error,
};

/// How many there are of a sku.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stock {
    /// How many there are, reserved ones among them.
    pub on_hand: u64,
    /// How many are held for orders.
    pub reserved: u64,
    /// How many were confirmed.
    pub sold: u64,
}

impl Stock {
    /// How many can be reserved.
    pub fn available(&self) -> u64 {
        self.on_hand - self.reserved
    }
}

/// How a step ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling<T> {
    /// It is decided.
    Decided {
        /// What.
        outcome: T,
        /// The stock then.
        stock: Stock,
    },
    /// No stock of the sku was ever set.
    NotFound,
    /// Nothing is decided: more holds have lapsed than a step takes back, and what
    /// they give back may change the answer. Decide again.
    Again,
}

impl<T> Ruling<T> {
    /// Reads a reply: its status, the stock, and what `outcome` reads behind them;
    /// none for a status that it does not know.
    pub(super) fn parse(
        reply: &mut Reply,
        outcome: impl FnOnce(u64, &mut Reply) -> Result<Option<T>, Error>,
    ) -> Result<Ruling<T>, Error> {
        let status = match reply.number()? {
            8 => return Ok(Ruling::NotFound),
            9 => return Ok(Ruling::Again),
            status => status,
        };
        let stock =
            Stock { on_hand: reply.number()?, reserved: reply.number()?, sold: reply.number()? };
        match outcome(status, reply)? {
            Some(outcome) => Ok(Ruling::Decided { outcome, stock }),
            None => unknown_status(status),
        }
    }
}

/// What became of a change to what is on hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restocked {
    /// It is changed.
    Changed {
        /// By an earlier call with this request; the stock is as it was then.
        replayed: bool,
    },
    /// More are reserved than would be on hand; nothing changed.
    BelowReserved,
    /// On hand and sold together would be above the largest quantity; nothing changed.
    OutOfRange,
}

impl Restocked {
    /// Reads a reply of `lua/stock/set.lua` or `lua/stock/add.lua`.
    pub(super) fn parse(reply: &mut Reply) -> Result<Ruling<Restocked>, Error> {
        Ruling::parse(reply, |status, _| {
            Ok(Some(match status {
                0 => Restocked::Changed { replayed: false },
                1 => Restocked::Changed { replayed: true },
                2 => Restocked::BelowReserved,
                3 => Restocked::OutOfRange,
                _ => return Ok(None),
            }))
        })
    }
}
