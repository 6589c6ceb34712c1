//! `ConfirmReservation`: sells a reserved quantity.

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
    CONFIRM_CONFIRMED = 0, CONFIRM_RETAKEN = 1, CONFIRM_ALREADY_CONFIRMED = 2, CONFIRM_EXPIRED = 3,
    CONFIRM_CANCELLED = 4, CONFIRM_UNKNOWN = 5,
}

/// Confirms the reservation of an order, usually after its payment.
///
/// While the hold runs, the confirmation always succeeds: the quantity moves from `on_hand` and
/// `reserved` to `sold`. After the hold has expired, the quantity is reserved anew and sold, marked
/// `retaken`, if it is available and within the buyer's limit of the reservation. Otherwise the
/// answer is `Expired`. A repeat may then succeed, up to 24 hours after the expiry.
///
/// After a confirmation, a repeat within 24 hours answers `AlreadyConfirmed` and changes nothing.
/// Later the order is `Unknown`. While more expired holds remain than one step reclaims, an order
/// with an expired hold gets `Again`: its own hold may be one of them.
#[derive(Debug, Clone)]
pub struct ConfirmReservation {
    /// The sku.
    pub sku: Name,
    /// The order.
    pub order: Name,
}

/// The answer to a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmOutcome {
    /// The quantity is sold to the order.
    Confirmed {
        /// Whether the hold had expired and the quantity was reserved anew.
        retaken: bool,
    },
    /// It was sold before; nothing changed.
    AlreadyConfirmed,
    /// Its hold has expired, and the quantity is not available for its buyer; nothing changed.
    Expired,
    /// It was cancelled; nothing changed.
    Cancelled,
    /// The order has no record; nothing changed.
    Unknown,
}

impl Decision for ConfirmReservation {
    type State = Sku;
    type Outcome = StockOutcome<ConfirmOutcome>;

    const SCRIPT: &'static Script = &script::stock::CONFIRM;
    const PROPERTIES: Properties<ConfirmReservation> = Properties {
        outcomes: Outcomes::new(
            &[
                "confirmed",
                "already_confirmed",
                "expired",
                "cancelled",
                "unknown",
                "not_found",
                "unfinished",
            ],
            |outcome| match outcome {
                StockOutcome::Decided { outcome: ConfirmOutcome::Confirmed { .. }, .. } => 0,
                StockOutcome::Decided { outcome: ConfirmOutcome::AlreadyConfirmed, .. } => 1,
                StockOutcome::Decided { outcome: ConfirmOutcome::Expired, .. } => 2,
                StockOutcome::Decided { outcome: ConfirmOutcome::Cancelled, .. } => 3,
                StockOutcome::Decided { outcome: ConfirmOutcome::Unknown, .. } => 4,
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

    fn parse(reply: &mut Reply) -> Result<StockOutcome<ConfirmOutcome>, Error> {
        StockOutcome::parse(reply, |status, _| {
            Ok(Some(match status {
                CONFIRM_CONFIRMED => ConfirmOutcome::Confirmed { retaken: false },
                CONFIRM_RETAKEN => ConfirmOutcome::Confirmed { retaken: true },
                CONFIRM_ALREADY_CONFIRMED => ConfirmOutcome::AlreadyConfirmed,
                CONFIRM_EXPIRED => ConfirmOutcome::Expired,
                CONFIRM_CANCELLED => ConfirmOutcome::Cancelled,
                CONFIRM_UNKNOWN => ConfirmOutcome::Unknown,
                _ => return Ok(None),
            }))
        })
    }

    fn decide(&self, sku: &mut Sku, now: Timestamp) -> StockOutcome<ConfirmOutcome> {
        let Some(standing) = sku.reclaim(now) else { return StockOutcome::NotFound };
        let (mut stock, order) = (standing.stock, self.order.as_bytes());
        let decided = |outcome| StockOutcome::Decided { outcome, stock };

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
                // The remaining expired holds may include the order's own.
                return StockOutcome::Again;
            }
            // The hold had been reclaimed, so both the stock and the buyer's limit apply again.
            let bought = sku.bought(&reservation.buyer) + quantity;
            if stock.available() < quantity || record.limit.is_some_and(|limit| bought > limit) {
                return decided(ConfirmOutcome::Expired);
            }
            sku.add_to_buyer(&reservation.buyer, quantity);
        } else {
            sku.release(order, reservation);
            stock.reserved -= quantity;
        }
        stock.on_hand -= quantity;
        stock.sold += quantity;
        sku.settle(order, record.settled(ReservationState::Confirmed, now), stock, now);
        StockOutcome::Decided { outcome: ConfirmOutcome::Confirmed { retaken }, stock }
    }
}
