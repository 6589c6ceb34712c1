//! Reservations as guards: confirmed, or cancelled on drop.

use std::time::Duration;

use crate::{
    CancelOutcome, Connection, Error, Order, ReservationState, ReserveOutcome, claims,
    clock::Moment, held, pb, time,
};

/// The answer to a request for a reservation.
#[derive(Debug)]
pub enum Reserving {
    /// The quantity is held for the order.
    Reserved(Reservation),
    /// Fewer are available.
    Short {
        /// Time until the next hold ends; `None` if only new stock helps.
        retry_after: Option<Duration>,
    },
    /// The buyer would have more than the limit.
    BuyerLimit {
        /// The quantity that the buyer has reserved and bought.
        quantity: u64,
    },
    /// The reservation of the order was confirmed or cancelled before.
    AlreadySettled {
        /// Its final state.
        state: ReservationState,
    },
}

/// The held quantity of an order.
///
/// [`confirm`](Reservation::confirm) sells it. Dropping the reservation without a call of
/// `confirm` cancels it in the background.
#[derive(Debug)]
pub struct Reservation {
    connection: Connection,
    sku: String,
    order: String,
    expiry: Moment,
    replayed: bool,
    is_settled: bool,
}

impl Connection {
    /// Reserves a quantity for an order. If the order holds another quantity, fails with the reason
    /// [`QUANTITY_DIFFERS`](Error::QUANTITY_DIFFERS) and that quantity as
    /// [`held_quantity`](Error::held_quantity), and changes nothing.
    pub async fn reserve(&self, order: &Order<'_>) -> Result<Reserving, Error> {
        self.settle(&claims::key(&["order", order.sku, order.order])).await;
        let answered = self.timed(self.deadline(), order.message()).await?;
        let (response, _) = crate::stock::reserved(answered.answer)?;
        Ok(match response.outcome() {
            ReserveOutcome::Reserved => {
                let made = response.reservation.unwrap_or_default();
                let hold = time::length(made.expires_in, "expires_in")?;
                Reserving::Reserved(Reservation {
                    connection: self.clone(),
                    sku: order.sku.to_owned(),
                    order: order.order.to_owned(),
                    expiry: held::expiry(answered.sent, hold),
                    replayed: response.replayed,
                    is_settled: false,
                })
            }
            ReserveOutcome::Short => {
                let after = response.retry_after;
                let after = after.map(|it| time::length(Some(it), "retry_after")).transpose()?;
                Reserving::Short { retry_after: after }
            }
            ReserveOutcome::BuyerLimit => {
                Reserving::BuyerLimit { quantity: response.buyer_quantity }
            }
            ReserveOutcome::QuantityDiffers => {
                let held = response.reservation.unwrap_or_default().quantity;
                return Err(Error::quantity_differs(order, held));
            }
            ReserveOutcome::AlreadySettled | ReserveOutcome::Unspecified => {
                let state = response.reservation.unwrap_or_default().state();
                Reserving::AlreadySettled { state }
            }
        })
    }
}

impl Reservation {
    /// Whether an earlier call reserved it for this order.
    pub fn replayed(&self) -> bool {
        self.replayed
    }

    /// Returns the time until the hold ends; 0 if it has ended. It ends here before it ends at the
    /// server.
    pub fn valid_for(&self) -> Duration {
        self.expiry.left()
    }

    /// Sells the quantity. After the end of the hold it is taken again if it is available
    /// (`retaken`). After an error the quantity may be sold: repeat
    /// [`confirm_reservation`](Connection::confirm_reservation). In this case it is not cancelled.
    pub async fn confirm(mut self) -> Result<pb::ConfirmReservationResponse, Error> {
        self.is_settled = true;
        let answer = self.connection.confirm_reservation(&self.sku, &self.order).await?;
        Ok(answer.0)
    }

    /// Returns the quantity to the stock.
    pub async fn cancel(mut self) -> Result<CancelOutcome, Error> {
        self.is_settled = true;
        Ok(self.connection.cancel_reservation(&self.sku, &self.order).await?.0)
    }

    /// Returns the identity of the reservation and the message that cancels it.
    fn cancellation(&self) -> (String, pb::CancelReservationRequest) {
        let (sku, order_id) = (self.sku.clone(), self.order.clone());
        let key = claims::key(&["order", &sku, &order_id]);
        (key, pb::CancelReservationRequest { sku, order_id })
    }

    /// Runs `work`, for example a payment, and confirms the reservation if it succeeds. Cancels it
    /// and returns the error otherwise, at the latest after the deadline of one call: without an
    /// answer the cancellation continues in the background until the hold ends.
    pub async fn run<E, F>(
        self,
        work: impl FnOnce() -> F,
    ) -> Result<pb::ConfirmReservationResponse, E>
    where
        E: From<Error>,
        F: Future<Output = Result<(), E>>,
    {
        match work().await {
            Ok(()) => Ok(self.confirm().await?),
            Err(error) => {
                let mut reservation = self;
                reservation.is_settled = true;
                let (key, message) = reservation.cancellation();
                reservation.connection.leave(key, message, reservation.expiry).await;
                Err(error)
            }
        }
    }

    /// Keeps the hold until its end, without a guard.
    pub fn keep(mut self) {
        self.is_settled = true;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.is_settled {
            let (key, message) = self.cancellation();
            self.connection.give_up(key, message, self.expiry);
        }
    }
}
