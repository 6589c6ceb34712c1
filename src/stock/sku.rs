//! What is kept of a sku.

mod archive;
mod record;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    QUANTITY_MAX, RECLAIM_MAX, Restocked, Ruling, Stock,
    order::{Order, Reservation, ReservationState},
};
use crate::{
    decision::{Bin, State},
    memory::Memory,
    parted::Parted,
    record::Touched,
    time::Timestamp,
};

/// The stock of a sku, what is held of it, and what is remembered of its orders.
#[derive(Debug, Default)]
pub struct Sku {
    /// None until it was set.
    stock: Option<Stock>,
    /// By their end. Their sum is what is reserved.
    holds: BTreeMap<(Timestamp, Box<[u8]>), Hold>,
    orders: Memory<Order>,
    /// What each buyer has reserved and bought.
    buyers: Parted<Box<[u8]>, u64>,
    pub(super) replays: Memory<Stock>,
    /// Holds and buyers that have changed, where skus are kept over a restart.
    touched: Touched,
}

/// What a hold gives back when it lapses.
#[derive(Debug, Serialize, Deserialize)]
struct Hold {
    quantity: u64,
    buyer: Box<[u8]>,
}

/// Where a sku stands once lapsed holds are taken back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    pub(super) stock: Stock,
    /// Whether more have lapsed than a step takes back.
    pub(super) lapsed_remain: bool,
}

impl Sku {
    pub(super) fn is_set(&self) -> bool {
        self.stock.is_some()
    }

    /// Takes back what has lapsed, at most [`RECLAIM_MAX`] holds; none if the stock was
    /// never set.
    pub(super) fn reclaim(&mut self, now: Timestamp) -> Option<Standing> {
        self.reclaim_some(now, RECLAIM_MAX)
    }

    /// The same, at most so many holds.
    fn reclaim_some(&mut self, now: Timestamp, most: usize) -> Option<Standing> {
        let mut stock = self.stock?;
        for _ in 0..most {
            let Some(first) = self.holds.first_entry().filter(|first| first.key().0 <= now) else {
                break;
            };
            let ((end, name), Hold { quantity, buyer }) = first.remove_entry();
            self.touched.note(&[&[record::HOLD], &end.0.to_be_bytes(), &name]);
            stock.reserved -= quantity;
            self.give_back(&buyer, quantity);
        }
        self.stock = Some(stock);
        let lapsed_remain = self.next_end().is_some_and(|end| end <= now);
        Some(Standing { stock, lapsed_remain })
    }

    /// When the first hold ends.
    pub(super) fn next_end(&self) -> Option<Timestamp> {
        self.holds.first_key_value().map(|((end, _), _)| *end)
    }

    /// Sets what is on hand, for the verbs that do.
    pub(super) fn restock(&mut self, standing: Standing, on_hand: i64) -> Ruling<Restocked> {
        let Standing { mut stock, lapsed_remain } = standing;
        if lapsed_remain {
            return Ruling::Again;
        }
        let on_hand = u64::try_from(on_hand).ok().filter(|on_hand| *on_hand >= stock.reserved);
        let outcome = match on_hand {
            None => Restocked::BelowReserved,
            Some(on_hand) if on_hand > QUANTITY_MAX - stock.sold => Restocked::OutOfRange,
            Some(on_hand) => {
                stock.on_hand = on_hand;
                self.stock = Some(stock);
                Restocked::Changed { replayed: false }
            }
        };
        Ruling::Decided { outcome, stock }
    }

    /// Whether so many are available, lapsed holds apart.
    pub(super) fn has(&self, quantity: u64) -> bool {
        self.stock.is_some_and(|stock| stock.available() >= quantity)
    }

    /// What is known of an order.
    pub(super) fn order(&self, order: &[u8], now: Timestamp) -> Option<&Order> {
        self.orders.get(order, now)
    }

    /// Whether a reservation's hold is listed and has not lapsed.
    pub(super) fn is_held(&self, order: &[u8], reservation: &Reservation, now: Timestamp) -> bool {
        reservation.state == ReservationState::Held
            && reservation.expire > now
            && self.holds.contains_key(&reservation.hold(order))
    }

    /// What a buyer has reserved and bought; 0 for nobody.
    pub(super) fn bought(&self, buyer: &[u8]) -> u64 {
        self.buyers.get(buyer).copied().unwrap_or(0)
    }

    /// Holds a quantity for an order; returns the stock then.
    pub(super) fn hold(
        &mut self,
        order: &[u8],
        record: Order,
        mut stock: Stock,
        now: Timestamp,
    ) -> Stock {
        let Reservation { quantity, buyer, .. } = &record.reservation;
        stock.reserved += quantity;
        self.stock = Some(stock);
        let hold = Hold { quantity: *quantity, buyer: buyer.clone() };
        self.take(buyer, *quantity);
        let (end, name) = record.reservation.hold(order);
        self.touched.note(&[&[record::HOLD], &end.0.to_be_bytes(), &name]);
        self.holds.insert((end, name), hold);
        let forget = record.forget;
        self.orders.keep(order, record, forget, now);
        stock
    }

    /// Takes an order's hold off the list.
    pub(super) fn release(&mut self, order: &[u8], reservation: &Reservation) {
        let (end, name) = reservation.hold(order);
        self.touched.note(&[&[record::HOLD], &end.0.to_be_bytes(), &name]);
        self.holds.remove(&(end, name));
    }

    /// Writes down the stock and what became of an order.
    pub(super) fn settle(&mut self, order: &[u8], record: Order, stock: Stock, now: Timestamp) {
        self.stock = Some(stock);
        let forget = record.forget;
        self.orders.keep(order, record, forget, now);
    }

    /// Counts what a buyer takes.
    pub(super) fn take(&mut self, buyer: &[u8], quantity: u64) {
        if !buyer.is_empty() {
            self.touched.note(&[&[record::BUYER], buyer]);
            *self.buyers.get_or_default(buyer) += quantity;
        }
    }

    /// Counts what a buyer gives back.
    pub(super) fn give_back(&mut self, buyer: &[u8], quantity: u64) {
        if let Some(count) = self.buyers.get_mut(buyer) {
            self.touched.note(&[&[record::BUYER], buyer]);
            *count -= quantity;
            if *count == 0 {
                self.buyers.remove(buyer);
            }
        }
    }
}

impl State for Sku {
    const CAPABILITY: &'static str = "stock";

    fn sweep(&mut self, now: Timestamp, budget: usize, _: &mut Bin) -> usize {
        let held = self.holds.len();
        self.reclaim_some(now, budget);
        let taken_back = held - self.holds.len();
        taken_back + self.orders.sweep(now, budget) + self.replays.sweep(now, budget)
    }

    fn is_vacant(&self, _: Timestamp) -> bool {
        self.stock.is_none()
    }
}
