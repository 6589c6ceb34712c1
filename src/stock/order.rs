//! What is kept of an order.

use serde::{Deserialize, Serialize};

use super::{RESERVE_MAX, RETENTION};
use crate::{
    decision::Reply,
    error::Error,
    names::SEPARATOR,
    time::{Millis, Timestamp},
};

/// What became of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReservationState {
    /// Held for its order; lapsed once its hold is no longer listed.
    Held,
    /// Sold.
    Confirmed,
    /// Available again.
    Cancelled,
}

/// A reservation of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// What became of it.
    pub state: ReservationState,
    /// How many.
    pub quantity: u64,
    /// When it was made.
    pub grant: Timestamp,
    /// When its hold lapses.
    pub expire: Timestamp,
    /// Who buys; empty for nobody in particular.
    pub buyer: Box<[u8]>,
}

impl Reservation {
    /// Reads the part of a reply that is one.
    pub(super) fn parse(reply: &mut Reply) -> Result<Reservation, Error> {
        let state = match reply.bytes()?.as_slice() {
            b"H" => ReservationState::Held,
            b"C" => ReservationState::Confirmed,
            b"X" => ReservationState::Cancelled,
            other => return Err(Error::Corrupt(format!("a state {other:?} of an order"))),
        };
        Ok(Reservation {
            state,
            quantity: reply.number()?,
            grant: Timestamp(reply.number()?),
            expire: Timestamp(reply.number()?),
            buyer: reply.bytes()?.into(),
        })
    }

    /// How its hold is listed, as the script writes it: holds that end together lapse in
    /// the order of these bytes.
    pub(super) fn hold(&self, order: &[u8]) -> (Timestamp, Box<[u8]>) {
        debug_assert!(self.quantity <= RESERVE_MAX, "{self:?}");
        let (quantity, expire) = (self.quantity.to_string(), self.expire.0.to_string());
        let parts = [order, quantity.as_bytes(), &self.buyer, expire.as_bytes()];
        (self.expire, parts.join(&SEPARATOR).into())
    }
}

/// An order's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) reservation: Reservation,
    /// What its buyer may have reserved and bought.
    pub(super) limit: Option<u64>,
    /// When it is forgotten.
    pub(super) forget: Timestamp,
}

impl Order {
    /// A hold that begins now.
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

    /// The same, settled now.
    pub(super) fn settled(mut self, state: ReservationState, now: Timestamp) -> Order {
        self.reservation.state = state;
        self.forget = now.after(RETENTION);
        self
    }
}
