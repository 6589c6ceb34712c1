//! Stock.

use std::time::Duration;

use crate::{CancelOutcome, ConfirmOutcome, Connection, Error, ReserveOutcome, Stock, pb, time};

/// A reservation to make.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The sku.
    pub sku: &'a str,
    /// Id of the order.
    pub order: &'a str,
    /// The quantity.
    pub quantity: u32,
    /// Duration of the hold. Default: 15 minutes.
    pub hold: Option<Duration>,
    /// The buyer; empty for none.
    pub buyer: &'a str,
    /// Limit on the buyer's reserved and bought quantity.
    pub buyer_limit: Option<u64>,
}

impl Order<'_> {
    pub(crate) fn message(&self) -> pb::ReserveStockRequest {
        pb::ReserveStockRequest {
            sku: self.sku.to_owned(),
            order_id: self.order.to_owned(),
            quantity: self.quantity.into(),
            hold_duration: self.hold.map(time::wire),
            buyer_id: self.buyer.to_owned(),
            buyer_limit: self.buyer_limit.map(wire),
        }
    }
}

impl Connection {
    /// Sets the quantity on hand of a sku. It is never repeated: after an error, read the stock
    /// first.
    pub async fn set_stock(&self, sku: &str, on_hand: u64) -> Result<Stock, Error> {
        let message = pb::SetStockRequest { sku: sku.to_owned(), on_hand: Some(wire(on_hand)) };
        checked(self.call(message).await?.stock)
    }

    /// Adds to the quantity on hand. Without a `request_id`, all attempts of this call have the
    /// same new id. Returns the stock, and whether an earlier call with this `request_id` made the
    /// change.
    pub async fn add_stock(
        &self,
        sku: &str,
        delta: i64,
        request_id: Option<&str>,
    ) -> Result<(Stock, bool), Error> {
        let request_id = self.request_id(request_id);
        let message = pb::AddStockRequest { sku: sku.to_owned(), delta, request_id };
        let response = self.call(message).await?;
        Ok((checked(response.stock)?, response.replayed))
    }

    /// Reserves a quantity for an order. Returns the response and the stock after it. A response
    /// RESERVED, QUANTITY_DIFFERS or ALREADY_SETTLED has its reservation.
    pub async fn reserve_stock(
        &self,
        order: &Order<'_>,
    ) -> Result<(pb::ReserveStockResponse, Stock), Error> {
        reserved(self.call(order.message()).await?)
    }

    /// Confirms the reservation of an order. Returns the response and the stock after it.
    pub async fn confirm_reservation(
        &self,
        sku: &str,
        order: &str,
    ) -> Result<(pb::ConfirmReservationResponse, Stock), Error> {
        let message =
            pb::ConfirmReservationRequest { sku: sku.to_owned(), order_id: order.to_owned() };
        let mut response = self.call(message).await?;
        let stock = checked(response.stock.take())?;
        match response.outcome() {
            ConfirmOutcome::Unspecified => Err(Error::malformed("outcome")),
            _ => Ok((response, stock)),
        }
    }

    /// Cancels the reservation of an order. Returns the outcome and the stock after it.
    pub async fn cancel_reservation(
        &self,
        sku: &str,
        order: &str,
    ) -> Result<(CancelOutcome, Stock), Error> {
        let message =
            pb::CancelReservationRequest { sku: sku.to_owned(), order_id: order.to_owned() };
        let response = self.call(message).await?;
        match response.outcome() {
            CancelOutcome::Unspecified => Err(Error::malformed("outcome")),
            outcome => Ok((outcome, checked(response.stock)?)),
        }
    }

    /// Returns the stock of a sku, and the number of reservations that are held.
    pub async fn get_stock(&self, sku: &str) -> Result<(Stock, u64), Error> {
        let message = pb::GetStockRequest { sku: sku.to_owned() };
        let response = self.call(message).await?;
        Ok((checked(response.stock)?, response.holds))
    }
}

/// Converts a quantity. The server refuses quantities above 2^53.
fn wire(quantity: u64) -> i64 {
    i64::try_from(quantity).unwrap_or(i64::MAX)
}

pub(crate) fn reserved(
    mut response: pb::ReserveStockResponse,
) -> Result<(pb::ReserveStockResponse, Stock), Error> {
    if response.outcome() == ReserveOutcome::Unspecified {
        return Err(Error::unknown_answer("ReserveOutcome", response.outcome));
    }
    let stock = checked(response.stock.take())?;
    match response.outcome() {
        ReserveOutcome::Reserved
        | ReserveOutcome::QuantityDiffers
        | ReserveOutcome::AlreadySettled => {
            let made = response.reservation.as_ref();
            let made = made.ok_or_else(|| Error::malformed("reservation"))?;
            time::time(made.reserve_time).and(time::time(made.expire_time))?;
        }
        _ => {}
    }
    Ok((response, stock))
}

/// Checks that a stock adds up.
fn checked(stock: Option<Stock>) -> Result<Stock, Error> {
    let stock = stock.filter(|it| it.on_hand.checked_sub(it.reserved) == Some(it.available));
    stock.ok_or_else(|| Error::malformed("stock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_that_does_not_add_up_is_malformed() {
        let one = Stock { on_hand: 5, available: 3, reserved: 2, ..Stock::default() };
        assert_eq!(checked(Some(one.clone())), Ok(one.clone()));
        assert!(checked(Some(Stock { available: 4, ..one.clone() })).is_err());
        assert!(checked(Some(Stock { reserved: 6, ..one.clone() })).is_err());
        assert!(checked(None).is_err());
        let mut response = pb::ReserveStockResponse { stock: Some(one), ..Default::default() };
        assert!(reserved(response.clone()).is_err(), "no outcome");
        response.set_outcome(ReserveOutcome::Reserved);
        assert!(reserved(response.clone()).is_err(), "no reservation");
        response.set_outcome(ReserveOutcome::Short);
        assert!(reserved(response).is_ok());
    }
}
