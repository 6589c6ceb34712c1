//! An answer of `StockService` as a line of text. Its first word is the outcome.

use tollgate_client::{
    CancelOutcome, ConfirmOutcome, ReservationState, ReserveOutcome, Stock,
    pb::{ConfirmReservationResponse, Reservation, ReserveStockResponse},
    time,
};

use crate::rate::length;
use tollgate_telemetry::text::escaped;

/// Formats the outcome, if there is one, and the stock of `sku`.
pub(super) fn line(decided: &str, sku: &str, stock: &Stock) -> String {
    let space = if decided.is_empty() { "" } else { "  " };
    let Stock { on_hand, available, reserved, sold, .. } = stock;
    let sku = escaped(sku);
    format!(
        "{decided}{space}{sku}: {on_hand} on hand, {available} available, {reserved} reserved, \
         {sold} sold"
    )
}

/// Formats the stock of `sku` and its number of holds.
pub(super) fn with_holds(sku: &str, stock: &Stock, holds: u64) -> String {
    let unit = if holds == 1 { "hold" } else { "holds" };
    format!("{}, {holds} {unit}", line("", sku, stock))
}

pub(super) fn reserved(answer: &ReserveStockResponse) -> String {
    let made = answer.reservation.clone().unwrap_or_default();
    let Reservation { quantity, expire_time, .. } = made;
    match answer.outcome() {
        ReserveOutcome::Reserved => {
            let until = time::time(expire_time).map(humantime::format_rfc3339_seconds);
            let until = until.map_or_else(|_| "?".to_owned(), |until| until.to_string());
            let replayed = if answer.replayed { ", replayed" } else { "" };
            format!("RESERVED  {quantity} until {until}{replayed}")
        }
        ReserveOutcome::AlreadySettled => {
            let state = match made.state() {
                ReservationState::Confirmed => "confirmed",
                ReservationState::Cancelled => "cancelled",
                ReservationState::Held | ReservationState::Unspecified => "held",
            };
            format!("ALREADY_SETTLED  {quantity} {state}")
        }
        ReserveOutcome::QuantityDiffers => format!("QUANTITY_DIFFERS  holds {quantity}"),
        ReserveOutcome::BuyerLimit => format!("BUYER_LIMIT  has {}", answer.buyer_quantity),
        ReserveOutcome::Short | ReserveOutcome::Unspecified => {
            match time::length(answer.retry_after, "retry_after") {
                Ok(wait) => format!("SHORT  retry in {}", length(wait)),
                Err(_) => "SHORT".to_owned(),
            }
        }
    }
}

pub(super) fn confirmed(answer: &ConfirmReservationResponse) -> String {
    let late = match answer.outcome() {
        ConfirmOutcome::Confirmed if answer.retaken => "  late, retaken",
        _ => "",
    };
    answer.outcome().as_str_name().trim_start_matches("CONFIRM_OUTCOME_").to_owned() + late
}

pub(super) fn cancelled(outcome: CancelOutcome) -> &'static str {
    outcome.as_str_name().trim_start_matches("CANCEL_OUTCOME_")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_first_word_says_what_was_decided() {
        let reservation = Reservation {
            state: ReservationState::Held.into(),
            quantity: 2,
            expire_time: Some(prost_types::Timestamp {
                seconds: 1_763_712_000,
                nanos: 999_999_000,
            }),
            ..Reservation::default()
        };
        let stock = Stock { on_hand: 50, available: 48, reserved: 2, sold: 7, ..Stock::default() };
        let mut answer = ReserveStockResponse {
            outcome: ReserveOutcome::Reserved.into(),
            reservation: Some(reservation),
            ..ReserveStockResponse::default()
        };
        assert_eq!(
            line(&reserved(&answer), "tv", &stock),
            "RESERVED  2 until 2025-11-21T08:00:00Z  tv: 50 on hand, 48 available, 2 reserved, 7 \
             sold"
        );
        let text = "tv: 50 on hand, 48 available, 2 reserved, 7 sold";
        assert_eq!(line("", "tv", &stock), text);
        assert_eq!(with_holds("tv", &stock, 1), format!("{text}, 1 hold"));
        assert_eq!(with_holds("tv", &stock, 2), format!("{text}, 2 holds"));
        answer.set_outcome(ReserveOutcome::Short);
        assert_eq!(reserved(&answer), "SHORT");
        answer.retry_after = Some(time::wire(Duration::from_millis(1)));
        assert_eq!(reserved(&answer), "SHORT  retry in 1 ms");
        answer.set_outcome(ReserveOutcome::AlreadySettled);
        if let Some(reservation) = &mut answer.reservation {
            reservation.set_state(ReservationState::Confirmed);
        }
        assert_eq!(reserved(&answer), "ALREADY_SETTLED  2 confirmed");
        answer.set_outcome(ReserveOutcome::BuyerLimit);
        answer.buyer_quantity = 3;
        assert_eq!(reserved(&answer), "BUYER_LIMIT  has 3");
        let mut paid = ConfirmReservationResponse { retaken: true, ..Default::default() };
        paid.set_outcome(ConfirmOutcome::Confirmed);
        assert_eq!(confirmed(&paid), "CONFIRMED  late, retaken");
        paid.set_outcome(ConfirmOutcome::Expired);
        assert_eq!(confirmed(&paid), "EXPIRED");
        assert_eq!(cancelled(CancelOutcome::AlreadyConfirmed), "ALREADY_CONFIRMED");
    }
}
