//! Converts outcomes to responses.

use bytes::Bytes;
use tonic::Status;

use super::super::{
    convert::{duration, left, timestamp},
    pb, status,
};
use tollgate_core::{
    names::Name,
    stock::{
        AddStock, CancelOutcome, ConfirmOutcome, Reservation, ReservationState, ReserveOutcome,
        ReserveStock, Restocked, SetStock, Stock,
    },
};

/// Converts the stock of a sku. `available` is `on_hand` minus `reserved`.
pub(super) fn stock(stock: Stock, sku: &Name) -> pb::Stock {
    pb::Stock {
        sku: sku.local_bytes(),
        on_hand: stock.on_hand,
        available: stock.available(),
        reserved: stock.reserved,
        sold: stock.sold,
    }
}

/// Returns whether the change is a repeat. Fails if nothing changed.
fn changed(outcome: Restocked, now: Stock, sku: &Name) -> Result<bool, Status> {
    match outcome {
        Restocked::Changed { replayed } => Ok(replayed),
        Restocked::BelowReserved => Err(status::below_reserved(sku, now.reserved)),
        Restocked::OutOfRange => Err(status::too_much_stock()),
    }
}

/// Converts an answer to SetStock; fails if nothing changed.
pub(super) fn set_stock(
    outcome: Restocked,
    now: Stock,
    set: &SetStock,
) -> Result<pb::SetStockResponse, Status> {
    changed(outcome, now, &set.sku)?;
    Ok(pb::SetStockResponse { stock: Some(stock(now, &set.sku)) })
}

/// Converts an answer to AddStock; fails if nothing changed.
pub(super) fn add_stock(
    outcome: Restocked,
    now: Stock,
    add: &AddStock,
) -> Result<pb::AddStockResponse, Status> {
    let replayed = changed(outcome, now, &add.sku)?;
    Ok(pb::AddStockResponse { stock: Some(stock(now, &add.sku)), replayed })
}

/// Converts a reservation. A refusal sets its own field: the time until a retry, or the quantity of
/// the buyer.
pub(super) fn reserve_stock(
    outcome: ReserveOutcome,
    now: Stock,
    asked: &ReserveStock,
) -> pb::ReserveStockResponse {
    let mut response = pb::ReserveStockResponse {
        stock: Some(stock(now, &asked.sku)),
        ..pb::ReserveStockResponse::default()
    };
    let outcome = match outcome {
        ReserveOutcome::Reserved { grant, expire } => {
            let made = Reservation {
                state: ReservationState::Held,
                quantity: asked.quantity,
                grant,
                expire,
                buyer: asked.buyer.as_ref().map_or(&[][..], |buyer| buyer.name.as_bytes()).into(),
            };
            let left = duration(grant.until(expire));
            response.reservation = Some(reservation(&made, Some(left), asked));
            pb::ReserveOutcome::Reserved
        }
        ReserveOutcome::Replayed { reservation: made } => {
            response.reservation = Some(reservation(&made, Some(left(&made, made.expire)), asked));
            response.replayed = true;
            pb::ReserveOutcome::Reserved
        }
        ReserveOutcome::QuantityDiffers { reservation: made } => {
            response.reservation = Some(reservation(&made, Some(left(&made, made.expire)), asked));
            pb::ReserveOutcome::QuantityDiffers
        }
        ReserveOutcome::AlreadySettled { reservation: settled } => {
            response.reservation = Some(reservation(&settled, None, asked));
            pb::ReserveOutcome::AlreadySettled
        }
        ReserveOutcome::Short { retry_after } => {
            response.retry_after = retry_after.map(duration);
            pb::ReserveOutcome::Short
        }
        ReserveOutcome::BuyerLimit { has } => {
            response.buyer_quantity = has;
            pb::ReserveOutcome::BuyerLimit
        }
    };
    response.set_outcome(outcome);
    response
}

/// Converts a reservation. If the call is a repeat, its values can differ from those of the
/// request. `expires_in` is the remaining time of the hold.
fn reservation(
    reservation: &Reservation,
    expires_in: Option<prost_types::Duration>,
    asked: &ReserveStock,
) -> pb::Reservation {
    let state = match reservation.state {
        ReservationState::Held => pb::ReservationState::Held,
        ReservationState::Confirmed => pb::ReservationState::Confirmed,
        ReservationState::Cancelled => pb::ReservationState::Cancelled,
    };
    pb::Reservation {
        sku: asked.sku.local_bytes(),
        order_id: asked.order.to_bytes(),
        quantity: reservation.quantity,
        buyer_id: Bytes::copy_from_slice(&reservation.buyer),
        state: state.into(),
        reserve_time: Some(timestamp(reservation.grant)),
        expire_time: Some(timestamp(reservation.expire)),
        expires_in,
    }
}

pub(super) fn confirm_reservation(
    outcome: ConfirmOutcome,
    now: Stock,
    sku: &Name,
) -> pb::ConfirmReservationResponse {
    let retaken = outcome == ConfirmOutcome::Confirmed { retaken: true };
    let outcome = match outcome {
        ConfirmOutcome::Confirmed { .. } => pb::ConfirmOutcome::Confirmed,
        ConfirmOutcome::AlreadyConfirmed => pb::ConfirmOutcome::AlreadyConfirmed,
        ConfirmOutcome::Expired => pb::ConfirmOutcome::Expired,
        ConfirmOutcome::Cancelled => pb::ConfirmOutcome::Cancelled,
        ConfirmOutcome::Unknown => pb::ConfirmOutcome::Unknown,
    };
    let stock = Some(stock(now, sku));
    pb::ConfirmReservationResponse { outcome: outcome.into(), retaken, stock }
}

pub(super) fn cancel_reservation(
    outcome: CancelOutcome,
    now: Stock,
    sku: &Name,
) -> pb::CancelReservationResponse {
    let outcome = match outcome {
        CancelOutcome::Cancelled => pb::CancelOutcome::Cancelled,
        CancelOutcome::AlreadyCancelled => pb::CancelOutcome::AlreadyCancelled,
        CancelOutcome::AlreadyConfirmed => pb::CancelOutcome::AlreadyConfirmed,
        CancelOutcome::Expired => pb::CancelOutcome::Expired,
        CancelOutcome::Unknown => pb::CancelOutcome::Unknown,
    };
    pb::CancelReservationResponse { outcome: outcome.into(), stock: Some(stock(now, sku)) }
}
