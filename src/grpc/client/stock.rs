//! `StockService` in plain types.

use std::time::Duration;

use super::{CallError, Client, answered, convert, pb, request};
use crate::{
    decision::time::Timestamp,
    stock::{CancelOutcome, ConfirmOutcome, Reservation, ReservationState, ReserveOutcome, Stock},
};

/// A reservation request.
#[derive(Debug, Clone, Copy)]
pub struct Reserving<'a> {
    /// The sku.
    pub sku: &'a str,
    /// The order.
    pub order: &'a str,
    /// The quantity.
    pub quantity: u32,
    /// Duration of the hold. Default: 15 minutes.
    pub hold: Option<Duration>,
    /// The buyer; empty for none.
    pub buyer: &'a str,
    /// Limit on the buyer's reserved and bought quantity.
    pub limit: Option<u64>,
}

impl Client {
    /// Sets the quantity on hand of a sku.
    pub async fn set_stock(&self, sku: &str, on_hand: u64) -> Result<Stock, CallError> {
        let on_hand = Some(wire(on_hand));
        let message = pb::SetStockRequest { sku: sku.to_owned(), on_hand };
        stock(answered(self.stock.clone().set_stock(request(message))).await?.stock)
    }

    /// Adds to the quantity on hand. Returns the stock, and whether an earlier call with this
    /// `request_id` made the change.
    pub async fn add_stock(
        &self,
        sku: &str,
        delta: i64,
        request_id: Option<&str>,
    ) -> Result<(Stock, bool), CallError> {
        let request_id = request_id.unwrap_or_default().to_owned();
        let message = pb::AddStockRequest { sku: sku.to_owned(), delta, request_id };
        let response = answered(self.stock.clone().add_stock(request(message))).await?;
        Ok((stock(response.stock)?, response.replayed))
    }

    /// Reserves a quantity for an order.
    pub async fn reserve_stock(
        &self,
        asked: &Reserving<'_>,
    ) -> Result<(ReserveOutcome, Stock), CallError> {
        let message = pb::ReserveStockRequest {
            sku: asked.sku.to_owned(),
            order_id: asked.order.to_owned(),
            quantity: asked.quantity.into(),
            hold_duration: asked.hold.map(convert::duration),
            buyer_id: asked.buyer.to_owned(),
            buyer_limit: asked.limit.map(wire),
        };
        reserved(answered(self.stock.clone().reserve_stock(request(message))).await?)
    }

    /// Confirms the reservation of an order.
    pub async fn confirm_reservation(
        &self,
        sku: &str,
        order: &str,
    ) -> Result<(ConfirmOutcome, Stock), CallError> {
        let message =
            pb::ConfirmReservationRequest { sku: sku.to_owned(), order_id: order.to_owned() };
        let response = answered(self.stock.clone().confirm_reservation(request(message))).await?;
        let outcome = match response.outcome() {
            pb::ConfirmOutcome::Confirmed => {
                ConfirmOutcome::Confirmed { retaken: response.retaken }
            }
            pb::ConfirmOutcome::AlreadyConfirmed => ConfirmOutcome::AlreadyConfirmed,
            pb::ConfirmOutcome::Expired => ConfirmOutcome::Expired,
            pb::ConfirmOutcome::Cancelled => ConfirmOutcome::Cancelled,
            pb::ConfirmOutcome::Unknown => ConfirmOutcome::Unknown,
            pb::ConfirmOutcome::Unspecified => return Err(CallError::malformed("outcome")),
        };
        Ok((outcome, stock(response.stock)?))
    }

    /// Cancels the reservation of an order.
    pub async fn cancel_reservation(
        &self,
        sku: &str,
        order: &str,
    ) -> Result<(CancelOutcome, Stock), CallError> {
        let message =
            pb::CancelReservationRequest { sku: sku.to_owned(), order_id: order.to_owned() };
        let response = answered(self.stock.clone().cancel_reservation(request(message))).await?;
        let outcome = match response.outcome() {
            pb::CancelOutcome::Cancelled => CancelOutcome::Cancelled,
            pb::CancelOutcome::AlreadyCancelled => CancelOutcome::AlreadyCancelled,
            pb::CancelOutcome::AlreadyConfirmed => CancelOutcome::AlreadyConfirmed,
            pb::CancelOutcome::Expired => CancelOutcome::Expired,
            pb::CancelOutcome::Unknown => CancelOutcome::Unknown,
            pb::CancelOutcome::Unspecified => return Err(CallError::malformed("outcome")),
        };
        Ok((outcome, stock(response.stock)?))
    }

    /// Returns the stock of a sku.
    pub async fn get_stock(&self, sku: &str) -> Result<Stock, CallError> {
        let message = pb::GetStockRequest { sku: sku.to_owned() };
        stock(answered(self.stock.clone().get_stock(request(message))).await?.stock)
    }
}

/// Converts a quantity. The server refuses quantities above 2^53.
fn wire(quantity: u64) -> i64 {
    i64::try_from(quantity).unwrap_or(i64::MAX)
}

fn reserved(response: pb::ReserveStockResponse) -> Result<(ReserveOutcome, Stock), CallError> {
    let outcome = match response.outcome() {
        pb::ReserveOutcome::Reserved => ReserveOutcome::Reserved {
            reservation: reservation(response.reservation)?,
            replayed: response.replayed,
        },
        pb::ReserveOutcome::AlreadySettled => {
            ReserveOutcome::AlreadySettled { reservation: reservation(response.reservation)? }
        }
        pb::ReserveOutcome::Short => {
            let wait = response.retry_after;
            let wait = wait.map(|wait| convert::millis(Some(wait), "retry_after"));
            ReserveOutcome::Short { retry_after: wait.transpose()? }
        }
        pb::ReserveOutcome::BuyerLimit => {
            ReserveOutcome::BuyerLimit { has: response.buyer_quantity }
        }
        pb::ReserveOutcome::Unspecified => return Err(CallError::malformed("outcome")),
    };
    Ok((outcome, stock(response.stock)?))
}

fn reservation(reservation: Option<pb::Reservation>) -> Result<Reservation, CallError> {
    let reservation = reservation.ok_or_else(|| CallError::malformed("reservation"))?;
    let state = match reservation.state() {
        pb::ReservationState::Held => ReservationState::Held,
        pb::ReservationState::Confirmed => ReservationState::Confirmed,
        pb::ReservationState::Cancelled => ReservationState::Cancelled,
        pb::ReservationState::Unspecified => return Err(CallError::malformed("state")),
    };
    let time = |time| convert::timestamp(time);
    let (grant, expire): (Timestamp, Timestamp) =
        (time(reservation.reserve_time)?, time(reservation.expire_time)?);
    let buyer = reservation.buyer_id.into_bytes().into();
    Ok(Reservation { state, quantity: reservation.quantity, grant, expire, buyer })
}

fn stock(stock: Option<pb::Stock>) -> Result<Stock, CallError> {
    let stock = stock.filter(|it| it.on_hand.checked_sub(it.reserved) == Some(it.available));
    let stock = stock.ok_or_else(|| CallError::malformed("stock"))?;
    Ok(Stock { on_hand: stock.on_hand, reserved: stock.reserved, sold: stock.sold })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_does_not_add_up_is_malformed() {
        let one = pb::Stock { on_hand: 5, available: 3, reserved: 2, ..pb::Stock::default() };
        assert_eq!(stock(Some(one.clone())), Ok(Stock { on_hand: 5, reserved: 2, sold: 0 }));
        assert!(stock(Some(pb::Stock { available: 4, ..one.clone() })).is_err());
        assert!(stock(Some(pb::Stock { reserved: 6, ..one.clone() })).is_err());
        assert!(stock(None).is_err());
        let mut response = pb::ReserveStockResponse { stock: Some(one), ..Default::default() };
        assert!(reserved(response.clone()).is_err(), "no outcome");
        response.set_outcome(pb::ReserveOutcome::Reserved);
        assert!(reserved(response.clone()).is_err(), "no reservation");
        response.set_outcome(pb::ReserveOutcome::Short);
        let short = ReserveOutcome::Short { retry_after: None };
        assert_eq!(reserved(response).map(|(outcome, _)| outcome), Ok(short));
    }
}
