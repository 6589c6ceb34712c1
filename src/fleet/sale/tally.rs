//! What came of a sale, counted while it runs.

use std::{sync::OnceLock, time::Instant};

use crate::{
    fleet::tally::{Count, Failures, Times},
    stock::{CancelOutcome, ConfirmOutcome, ReserveOutcome, Stock},
};

/// Everything that is counted: answers as they come, so that a call that is made twice
/// has two; buyers once each.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// How many are on sale.
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
    /// Answers CANCELLED and UNKNOWN to a buyer that pays.
    pub(super) unpayable: Count,
    pub(super) cancelled: Count,
    /// Other answers to a buyer that cancels.
    pub(super) uncancelled: Count,
    /// Buyers that were told that their order is confirmed.
    pub(super) bought: Count,
    /// Buyers that paid and were never answered.
    pub(super) unsure: Count,
    /// Orders that were reserved or sold by two calls at once.
    pub(super) doubled: Count,
    /// Answers whose stock is not what was on sale.
    pub(super) astray: Count,
    /// Calls, answered or failed.
    pub(super) calls: Count,
    /// Failed calls.
    pub(super) failed: Failures,
    /// Sent to answered, of each answered call.
    pub(super) latencies: Times,
    /// When the last item was sold.
    pub(super) sold_out: OnceLock<Instant>,
}

impl Tally {
    /// Of nothing yet; so many items are on sale.
    pub(super) fn new(items: u64) -> Tally {
        Tally { items, ..Tally::default() }
    }

    pub(super) fn items(&self) -> u64 {
        self.items
    }

    /// Whether so much stock is that of the sale: nothing comes or goes but by it.
    pub(super) fn adds_up(&self, stock: Stock) -> bool {
        stock.on_hand + stock.sold == self.items
    }

    /// Notes the stock of an answer.
    pub(super) fn stock(&self, stock: Stock) {
        if !self.adds_up(stock) {
            self.astray.add();
        }
    }

    /// Notes a buyer whose order is confirmed.
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
