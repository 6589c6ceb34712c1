//! Counters of a sale.

use std::{sync::OnceLock, time::Instant};

use crate::{
    cli::fleet::tally::{Count, Failures, Times},
    stock::{CancelOutcome, ConfirmOutcome, ReserveOutcome, Stock},
};

/// All counters. Answers count each, so a call that is made twice counts twice; buyers count once.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Number of items on sale.
    items: u64,
    pub(super) reserved: Count,
    pub(super) replayed: Count,
    pub(super) short: Count,
    /// Answers BUYER_LIMIT and ALREADY_SETTLED.
    pub(super) refused: Count,
    pub(super) confirmed: Count,
    pub(super) retaken: Count,
    pub(super) already_confirmed: Count,
    pub(super) expired: Count,
    /// Answers CANCELLED and UNKNOWN to a payment.
    pub(super) unpayable: Count,
    pub(super) cancelled: Count,
    /// Other answers to a cancellation.
    pub(super) uncancelled: Count,
    /// Buyers whose order is confirmed.
    pub(super) bought: Count,
    /// Buyers that paid and got no answer.
    pub(super) unsure: Count,
    /// Orders that two concurrent calls both reserved or both confirmed.
    pub(super) doubled: Count,
    /// Answers whose stock does not add up to the items on sale.
    pub(super) astray: Count,
    /// Calls, answered or failed.
    pub(super) calls: Count,
    /// Failed calls.
    pub(super) failed: Failures,
    /// Latencies of answered calls.
    pub(super) latencies: Times,
    /// Time at which the last item was sold.
    pub(super) sold_out: OnceLock<Instant>,
}

impl Tally {
    /// Creates empty counters for a number of items.
    pub(super) fn new(items: u64) -> Tally {
        Tally { items, ..Tally::default() }
    }

    pub(super) fn items(&self) -> u64 {
        self.items
    }

    /// Whether a stock adds up to the items on sale: only the sale changes it.
    pub(super) fn adds_up(&self, stock: Stock) -> bool {
        stock.on_hand + stock.sold == self.items
    }

    /// Checks the stock of an answer.
    pub(super) fn stock(&self, stock: Stock) {
        if !self.adds_up(stock) {
            self.astray.add();
        }
    }

    /// Counts a buyer whose order is confirmed.
    pub(super) fn buys(&self, now: Instant) {
        self.bought.add();
        if self.bought.get() >= self.items {
            self.sold_out.get_or_init(|| now);
        }
    }

    pub(super) fn reserved(&self, outcome: &ReserveOutcome) {
        match outcome {
            ReserveOutcome::Reserved { replayed: false, .. } => self.reserved.add(),
            ReserveOutcome::Reserved { replayed: true, .. } => self.replayed.add(),
            ReserveOutcome::Short { .. } => self.short.add(),
            ReserveOutcome::AlreadySettled { .. } | ReserveOutcome::BuyerLimit { .. } => {
                self.refused.add();
            }
        }
    }

    pub(super) fn confirmed(&self, outcome: ConfirmOutcome) {
        match outcome {
            ConfirmOutcome::Confirmed { retaken: false } => self.confirmed.add(),
            ConfirmOutcome::Confirmed { retaken: true } => self.retaken.add(),
            ConfirmOutcome::AlreadyConfirmed => self.already_confirmed.add(),
            ConfirmOutcome::Expired => self.expired.add(),
            ConfirmOutcome::Cancelled | ConfirmOutcome::Unknown => self.unpayable.add(),
        }
    }

    pub(super) fn cancelled(&self, outcome: CancelOutcome) {
        match outcome {
            CancelOutcome::Cancelled => self.cancelled.add(),
            _ => self.uncancelled.add(),
        }
    }
}
