//! `ConfirmReservation`: what was reserved is sold.

use super::{Ruling, Sku, order::ReservationState};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
};

/// Confirms the reservation of an order.
#[derive(Debug, Clone)]
pub struct ConfirmReservation {
    /// Of which sku.
    pub sku: Name,
    /// Of which order.
    pub order: Name,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmOutcome {
    /// It is sold to the order.
    Confirmed {
        /// Whether its hold had lapsed, and the quantity was taken again.
        retaken: bool,
    },
    /// It was sold before.
    AlreadyConfirmed,
    /// Its hold has lapsed, and the quantity is no longer to be had for its buyer.
    Expired,
    /// It was cancelled.
    Cancelled,
    /// Nothing is known of the order.
    Unknown,
}

impl Decision for ConfirmReservation {
    type State = Sku;
    type Outcome = Ruling<ConfirmOutcome>;

    const SCRIPT: &'static Script = &script::CONFIRM_RESERVATION;

    fn partition(&self) -> &[u8] {
        self.sku.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn frees_capacity(&self) -> bool {
        true
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"stock"]);
        call.key(&[b"holds"]);
        call.key(&[b"buyers"]);
        call.key(&[b"order:", self.order.as_bytes()]);
        call.bytes(&[self.order.as_bytes()]);
    }

    fn parse(reply: &mut Reply) -> Result<Ruling<ConfirmOutcome>, Error> {
        Ruling::parse(reply, |status, _| {
            Ok(Some(match status {
                0 => ConfirmOutcome::Confirmed { retaken: false },
                1 => ConfirmOutcome::Confirmed { retaken: true },
                2 => ConfirmOutcome::AlreadyConfirmed,
                3 => ConfirmOutcome::Expired,
                4 => ConfirmOutcome::Cancelled,
                5 => ConfirmOutcome::Unknown,
                _ => return Ok(None),
            }))
        })
    }

    fn decide(&self, sku: &mut Sku, now: Timestamp) -> Ruling<ConfirmOutcome> {
        let Some(standing) = sku.reclaim(now) else { return Ruling::NotFound };
        let (mut stock, order) = (standing.stock, self.order.as_bytes());
        let decided = |outcome| Ruling::Decided { outcome, stock };

        let Some(record) = sku.order(order, now).cloned() else {
            return decided(ConfirmOutcome::Unknown);
        };
        let reservation = &record.reservation;
        match reservation.state {
            ReservationState::Confirmed => return decided(ConfirmOutcome::AlreadyConfirmed),
            ReservationState::Cancelled => return decided(ConfirmOutcome::Cancelled),
            ReservationState::Held => {}
        }
        let (quantity, retaken) = (reservation.quantity, !sku.is_held(order, reservation, now));
        if retaken {
            if standing.lapsed_remain {
                // Its own hold may be among them.
                return Ruling::Again;
            }
            let bought = sku.bought(&reservation.buyer) + quantity;
            if stock.available() < quantity || record.limit.is_some_and(|limit| bought > limit) {
                return decided(ConfirmOutcome::Expired);
            }
            sku.take(&reservation.buyer, quantity);
        } else {
            sku.release(order, reservation);
            stock.reserved -= quantity;
        }
        stock.on_hand -= quantity;
        stock.sold += quantity;
        sku.settle(order, record.settled(ReservationState::Confirmed, now), stock, now);
        Ruling::Decided { outcome: ConfirmOutcome::Confirmed { retaken }, stock }
    }
}
