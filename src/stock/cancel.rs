//! `CancelReservation`: makes a reserved quantity available again.

use super::{Ruling, Sku, order::ReservationState};
use crate::decision::{
    Call, Decision, Listing, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
};

/// Cancels the reservation of an order.
///
/// A repeat answers `AlreadyCancelled` and changes nothing. A confirmed order cannot be cancelled.
#[derive(Debug, Clone)]
pub struct CancelReservation {
    /// The sku.
    pub sku: Name,
    /// The order.
    pub order: Name,
}

/// The answer to a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The quantity is available again.
    Cancelled,
    /// It was cancelled before; nothing changed.
    AlreadyCancelled,
    /// It is sold; nothing changed.
    AlreadyConfirmed,
    /// Its hold had expired, so the quantity is available already; nothing changed.
    Expired,
    /// The order has no record; nothing changed.
    Unknown,
}

impl Decision for CancelReservation {
    type State = Sku;
    type Outcome = Ruling<CancelOutcome>;

    const SCRIPT: &'static Script = &script::CANCEL_RESERVATION;

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

    fn parse(reply: &mut Reply) -> Result<Ruling<CancelOutcome>, Error> {
        Ruling::parse(reply, |status, _| {
            Ok(Some(match status {
                0 => CancelOutcome::Cancelled,
                1 => CancelOutcome::AlreadyCancelled,
                2 => CancelOutcome::AlreadyConfirmed,
                3 => CancelOutcome::Expired,
                4 => CancelOutcome::Unknown,
                _ => return Ok(None),
            }))
        })
    }

    fn decide(&self, sku: &mut Sku, now: Timestamp) -> Ruling<CancelOutcome> {
        let Some(standing) = sku.reclaim(now) else { return Ruling::NotFound };
        let (mut stock, order) = (standing.stock, self.order.as_bytes());
        let decided = |outcome| Ruling::Decided { outcome, stock };

        let Some(record) = sku.order(order, now).cloned() else {
            return decided(CancelOutcome::Unknown);
        };
        let reservation = &record.reservation;
        match reservation.state {
            ReservationState::Confirmed => return decided(CancelOutcome::AlreadyConfirmed),
            ReservationState::Cancelled => return decided(CancelOutcome::AlreadyCancelled),
            ReservationState::Held if !sku.is_held(order, reservation, now) => {
                return decided(CancelOutcome::Expired);
            }
            ReservationState::Held => {}
        }
        sku.release(order, reservation);
        sku.give_back(&reservation.buyer, reservation.quantity);
        stock.reserved -= reservation.quantity;
        sku.settle(order, record.settled(ReservationState::Cancelled, now), stock, now);
        Ruling::Decided { outcome: CancelOutcome::Cancelled, stock }
    }
}
