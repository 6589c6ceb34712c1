//! `CancelReservation`: makes a reserved quantity available again.

use super::{Sku, StockOutcome, order::ReservationState};
use crate::{
    Call, Decision, Outcomes, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    statuses,
    time::Timestamp,
};

statuses! {
    CANCEL_CANCELLED = 0, CANCEL_ALREADY_CANCELLED = 1, CANCEL_ALREADY_CONFIRMED = 2,
    CANCEL_EXPIRED = 3, CANCEL_UNKNOWN = 4,
}

/// Cancels the reservation of an order.
///
/// The quantity is available again, and no longer counts towards the buyer's limit. For 24 hours a
/// repeat answers `AlreadyCancelled` and changes nothing. An order whose hold has expired answers
/// `Expired`: its quantity is already available. A confirmed order cannot be cancelled; record a
/// return with AddStock.
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
    /// Its hold had expired, so the quantity was already available; nothing changed.
    Expired,
    /// The order has no record; nothing changed.
    Unknown,
}

impl Decision for CancelReservation {
    type State = Sku;
    type Outcome = StockOutcome<CancelOutcome>;

    const SCRIPT: &'static Script = &script::stock::CANCEL;
    const PROPERTIES: Properties<CancelReservation> = Properties {
        outcomes: Outcomes::new(
            &[
                "cancelled",
                "already_cancelled",
                "already_confirmed",
                "expired",
                "unknown",
                "not_found",
                "unfinished",
            ],
            |outcome| match outcome {
                StockOutcome::Decided { outcome: CancelOutcome::Cancelled, .. } => 0,
                StockOutcome::Decided { outcome: CancelOutcome::AlreadyCancelled, .. } => 1,
                StockOutcome::Decided { outcome: CancelOutcome::AlreadyConfirmed, .. } => 2,
                StockOutcome::Decided { outcome: CancelOutcome::Expired, .. } => 3,
                StockOutcome::Decided { outcome: CancelOutcome::Unknown, .. } => 4,
                StockOutcome::NotFound => 5,
                StockOutcome::Again => 6,
            },
        ),
        is_unfinished: StockOutcome::is_unfinished,
        ..Properties::FREES_CAPACITY
    };

    fn partition(&self) -> &[u8] {
        self.sku.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"stock"]);
        call.key(&[b"holds"]);
        call.key(&[b"buyers"]);
        call.key(&[b"order:", self.order.as_bytes()]);
        call.bytes(&[self.order.as_bytes()]);
    }

    fn parse(reply: &mut Reply) -> Result<StockOutcome<CancelOutcome>, Error> {
        StockOutcome::parse(reply, |status, _| {
            Ok(Some(match status {
                CANCEL_CANCELLED => CancelOutcome::Cancelled,
                CANCEL_ALREADY_CANCELLED => CancelOutcome::AlreadyCancelled,
                CANCEL_ALREADY_CONFIRMED => CancelOutcome::AlreadyConfirmed,
                CANCEL_EXPIRED => CancelOutcome::Expired,
                CANCEL_UNKNOWN => CancelOutcome::Unknown,
                _ => return Ok(None),
            }))
        })
    }

    fn decide(&self, sku: &mut Sku, now: Timestamp) -> StockOutcome<CancelOutcome> {
        let Some(standing) = sku.reclaim(now) else { return StockOutcome::NotFound };
        let (mut stock, order) = (standing.stock, self.order.as_bytes());
        let decided = |outcome| StockOutcome::Decided { outcome, stock };

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
        sku.subtract_from_buyer(&reservation.buyer, reservation.quantity);
        stock.reserved -= reservation.quantity;
        sku.settle(order, record.settled(ReservationState::Cancelled, now), stock, now);
        StockOutcome::Decided { outcome: CancelOutcome::Cancelled, stock }
    }
}
