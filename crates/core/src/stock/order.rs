//! The records of orders.

use serde::{Deserialize, Serialize};

use super::{RESERVE_MAX, RETENTION};
use crate::{
    AsOf, Reply,
    error::Error,
    names::SEPARATOR,
    record::text,
    time::{Millis, Timestamp},
};

/// The state of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservationState {
    /// Held for its order. Expired once its hold is no longer stored.
    Held,
    /// Sold.
    Confirmed,
    /// Cancelled: the quantity is available again.
    Cancelled,
}

/// A reservation of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Its state.
    pub state: ReservationState,
    /// The reserved quantity, 1 to [`RESERVE_MAX`].
    pub quantity: u64,
    /// When it was made.
    pub grant: Timestamp,
    /// When its hold expires.
    pub expire: Timestamp,
    /// The buyer; empty for an order without a buyer.
    #[serde(default, with = "text")]
    pub buyer: Box<[u8]>,
}

impl ReservationState {
    /// Returns the letter of the scripts, in order records and replies.
    pub(super) fn letter(self) -> &'static [u8] {
        match self {
            ReservationState::Held => b"H",
            ReservationState::Confirmed => b"C",
            ReservationState::Cancelled => b"X",
        }
    }
}

impl Reservation {
    /// Reads state, quantity, times and buyer.
    pub(super) fn parse(reply: &mut Reply) -> Result<Reservation, Error> {
        let state = match reply.bytes()?.as_slice() {
            b"H" => ReservationState::Held,
            b"C" => ReservationState::Confirmed,
            b"X" => ReservationState::Cancelled,
            other => return Err(Error::Corrupt(format!("unknown order state {other:?}"))),
        };
        Ok(Reservation {
            state,
            quantity: reply.number()?,
            grant: Timestamp(reply.number()?),
            expire: Timestamp(reply.number()?),
            buyer: reply.text()?.into(),
        })
    }

    /// Returns the reservation as of `now`.
    pub(super) fn at(self, now: Timestamp) -> AsOf<Reservation> {
        AsOf { value: self, now }
    }

    /// Returns the key of its hold.
    pub(super) fn hold(&self, order: &[u8]) -> (Timestamp, Box<[u8]>) {
        debug_assert!(self.quantity <= RESERVE_MAX, "{self:?}");
        (self.expire, hold_member(order, self.quantity, &self.buyer, self.expire))
    }
}

/// Returns the key of a hold without its expiry, in the same bytes as the script's: holds that
/// expire at the same time are reclaimed in the order of these bytes.
pub(super) fn hold_member(
    order: &[u8],
    quantity: u64,
    buyer: &[u8],
    expire: Timestamp,
) -> Box<[u8]> {
    let (quantity, expire) = (quantity.to_string(), expire.0.to_string());
    [order, quantity.as_bytes(), buyer, expire.as_bytes()].join(&SEPARATOR).into()
}

/// The record of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    /// The reservation.
    pub(super) reservation: Reservation,
    /// The quantity that its buyer may have reserved and bought; `None` for no limit. Checked again
    /// when a late confirmation reserves the quantity anew.
    pub(super) limit: Option<u64>,
    /// When the record is dropped.
    pub(super) forget: Timestamp,
}

impl Order {
    /// Creates a hold that begins at `now`.
    pub(super) fn new(
        quantity: u64,
        hold: Millis,
        buyer: &[u8],
        limit: Option<u64>,
        now: Timestamp,
    ) -> Order {
        let (state, expire) = (ReservationState::Held, now.after(hold));
        let reservation = Reservation { state, quantity, grant: now, expire, buyer: buyer.into() };
        Order { reservation, limit, forget: expire.after(RETENTION) }
    }

    /// Returns the record after the reservation was confirmed or cancelled at `now`.
    pub(super) fn settled(mut self, state: ReservationState, now: Timestamp) -> Order {
        self.reservation.state = state;
        self.forget = now.after(RETENTION);
        self
    }
}
