//! An answer of `StockService` as a line of text. Its first word is the outcome.

use std::time::{Duration, UNIX_EPOCH};

use super::super::rate::length;
use crate::{
    decision::text::escaped,
    stock::{CancelOutcome, ConfirmOutcome, ReservationState, ReserveOutcome, Stock},
};

/// Formats the outcome, if there is one, and the stock of `sku`.
pub(super) fn line(decided: &str, sku: &str, stock: Stock) -> String {
    let space = if decided.is_empty() { "" } else { "  " };
    let Stock { on_hand, reserved, sold } = stock;
    let available = stock.available();
    let sku = escaped(sku);
    format!(
        "{decided}{space}{sku}: {on_hand} on hand, {available} available, {reserved} reserved, \
         {sold} sold"
    )
}

pub(super) fn reserved(outcome: &ReserveOutcome) -> String {
    match outcome {
        ReserveOutcome::Reserved { reservation, replayed } => {
            let until = UNIX_EPOCH + Duration::from_micros(reservation.expire.0);
            let until = humantime::format_rfc3339_seconds(until);
            let replayed = if *replayed { ", replayed" } else { "" };
            format!("RESERVED  {} until {until}{replayed}", reservation.quantity)
        }
        ReserveOutcome::AlreadySettled { reservation } => {
            let state = match reservation.state {
                ReservationState::Held => "held",
                ReservationState::Confirmed => "confirmed",
                ReservationState::Cancelled => "cancelled",
            };
            format!("ALREADY_SETTLED  {} {state}", reservation.quantity)
        }
        ReserveOutcome::Short { retry_after: Some(wait) } => {
            format!("SHORT  retry in {}", length(*wait))
        }
        ReserveOutcome::Short { retry_after: None } => "SHORT".to_owned(),
        ReserveOutcome::BuyerLimit { has } => format!("BUYER_LIMIT  has {has}"),
    }
}

pub(super) fn confirmed(outcome: ConfirmOutcome) -> &'static str {
    match outcome {
        ConfirmOutcome::Confirmed { retaken: false } => "CONFIRMED",
        ConfirmOutcome::Confirmed { retaken: true } => "CONFIRMED  late, retaken",
        ConfirmOutcome::AlreadyConfirmed => "ALREADY_CONFIRMED",
        ConfirmOutcome::Expired => "EXPIRED",
        ConfirmOutcome::Cancelled => "CANCELLED",
        ConfirmOutcome::Unknown => "UNKNOWN",
    }
}

pub(super) fn cancelled(outcome: CancelOutcome) -> &'static str {
    match outcome {
        CancelOutcome::Cancelled => "CANCELLED",
        CancelOutcome::AlreadyCancelled => "ALREADY_CANCELLED",
        CancelOutcome::AlreadyConfirmed => "ALREADY_CONFIRMED",
        CancelOutcome::Expired => "EXPIRED",
        CancelOutcome::Unknown => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        decision::time::{Millis, Timestamp},
        stock::Reservation,
    };

    #[test]
    fn the_first_word_says_what_was_decided() {
        let reservation = Reservation {
            state: ReservationState::Held,
            quantity: 2,
            grant: Timestamp(1_763_711_100_000_000),
            expire: Timestamp(1_763_712_000_999_999),
            buyer: Box::default(),
        };
        let stock = Stock { on_hand: 50, reserved: 2, sold: 7 };
        let decided = reserved(&ReserveOutcome::Reserved {
            reservation: reservation.clone(),
            replayed: false,
        });
        assert_eq!(
            line(&decided, "tv", stock),
            "RESERVED  2 until 2025-11-21T08:00:00Z  tv: 50 on hand, 48 available, 2 reserved, 7 \
             sold"
        );
        assert_eq!(line("", "tv", stock), "tv: 50 on hand, 48 available, 2 reserved, 7 sold");
        let short = |retry_after| reserved(&ReserveOutcome::Short { retry_after });
        assert_eq!(short(None), "SHORT");
        assert_eq!(short(Some(Millis(1))), "SHORT  retry in 1 ms");
        let settled = Reservation { state: ReservationState::Confirmed, ..reservation };
        let settled = reserved(&ReserveOutcome::AlreadySettled { reservation: settled });
        assert_eq!(settled, "ALREADY_SETTLED  2 confirmed");
        assert_eq!(reserved(&ReserveOutcome::BuyerLimit { has: 3 }), "BUYER_LIMIT  has 3");
    }
}
