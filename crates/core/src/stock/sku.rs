//! The state of one sku in the embedded engine.
//!
//! Decisions call [`Sku::reclaim`] first, and work on the stock that it returns. They write it back
//! with `hold`, `settle` or `restock`. `release`, `add_to_buyer` and `subtract_from_buyer` change only the holds and
//! the buyers: their caller adjusts the stock.

mod export;
mod lines;
mod record;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    QUANTITY_MAX, RECLAIM_MAX, Restocked, Stock, StockOutcome,
    order::{Order, Reservation, ReservationState, hold_member},
};
use crate::{
    Bin, ENTRY_BYTES, Footprint, State,
    collections::{ExpiringMap, ExpiringValue, IncrementalMap},
    names::NAME_BYTES_MAX,
    record::{Touched, text},
    time::Timestamp,
};

impl ExpiringValue for Order {
    fn bytes(&self) -> u64 {
        self.reservation.buyer.len() as u64
    }
}

impl ExpiringValue for Stock {}

pub use lines::{BuyerLine, HoldLine, OrderLine, RestockLine, StockLine};

/// The bytes that a buyer counts: a fixed number, because the length of its name is unknown when
/// the buyer is removed.
pub(super) const BUYER_BYTES: u64 = ENTRY_BYTES + NAME_BYTES_MAX as u64;

/// The stock of a sku, its holds, and the records of its orders.
#[derive(Debug, Default)]
pub struct Sku {
    /// The stock; `None` until it is set.
    stock: Option<Stock>,
    /// The holds in order of their expiry. Their sum is the reserved quantity.
    holds: BTreeMap<(Timestamp, Box<[u8]>), Hold>,
    /// The records of orders, until their retention ends.
    orders: ExpiringMap<Order>,
    /// The quantity that each buyer has reserved and bought; no entry for 0.
    buyers: IncrementalMap<Box<[u8]>, u64>,
    /// The stock after each AddStock, by request id.
    pub(super) replays: ExpiringMap<Stock>,
    /// The persisted holds and buyers that have changed.
    touched: Touched,
}

/// A hold: the quantity that is released when it expires, and its buyer. An expiry needs only these
/// fields, and reads no order record.
#[derive(Debug, Serialize, Deserialize)]
struct Hold {
    /// The reserved quantity.
    quantity: u64,
    /// The buyer; empty for none.
    #[serde(default, with = "text")]
    buyer: Box<[u8]>,
}

impl Hold {
    /// Returns its key without the expiry.
    fn member(&self, order: &[u8], expire: Timestamp) -> Box<[u8]> {
        hold_member(order, self.quantity, &self.buyer, expire)
    }
}

/// The state of a sku after expired holds were reclaimed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reclaimed {
    /// The stock.
    pub(super) stock: Stock,
    /// Whether more holds have expired than one decision reclaims.
    pub(super) lapsed_remain: bool,
}

impl Sku {
    /// Whether the stock was ever set.
    pub(super) fn is_set(&self) -> bool {
        self.stock.is_some()
    }

    /// Reclaims up to [`RECLAIM_MAX`] expired holds. `None` if the stock was never set.
    pub(super) fn reclaim(&mut self, now: Timestamp) -> Option<Reclaimed> {
        self.reclaim_some(now, RECLAIM_MAX)
    }

    /// Reclaims up to `most` expired holds.
    fn reclaim_some(&mut self, now: Timestamp, most: usize) -> Option<Reclaimed> {
        let mut stock = self.stock?;
        for _ in 0..most {
            let Some(first) = self.holds.first_entry().filter(|first| first.key().0 <= now) else {
                break;
            };
            let ((end, name), Hold { quantity, buyer }) = first.remove_entry();
            self.touched.record(&[&[record::HOLD], &end.0.to_be_bytes(), &name]);
            // Entries of a damaged data directory may reserve more than the stock says.
            stock.reserved = stock.reserved.saturating_sub(quantity);
            self.subtract_from_buyer(&buyer, quantity);
        }
        self.stock = Some(stock);
        let lapsed_remain = self.next_end().is_some_and(|end| end <= now);
        Some(Reclaimed { stock, lapsed_remain })
    }

    /// Returns the number of stored holds; none has expired after a complete [`Sku::reclaim`].
    pub(super) fn count_holds(&self) -> u64 {
        self.holds.len() as u64
    }

    /// Returns when the next hold expires.
    pub(super) fn next_end(&self) -> Option<Timestamp> {
        self.holds.first_key_value().map(|((end, _), _)| *end)
    }

    /// Sets the quantity on hand, for SetStock and AddStock. `on_hand` may be negative: AddStock
    /// can subtract more than is on hand.
    pub(super) fn restock(&mut self, standing: Reclaimed, on_hand: i64) -> StockOutcome<Restocked> {
        let Reclaimed { mut stock, lapsed_remain } = standing;
        if lapsed_remain {
            return StockOutcome::Again;
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
        StockOutcome::Decided { outcome, stock }
    }

    /// Whether this quantity is available, before expired holds are reclaimed.
    pub(super) fn has(&self, quantity: u64) -> bool {
        self.stock.is_some_and(|stock| stock.available() >= quantity)
    }

    /// Returns the record of an order.
    pub(super) fn order(&self, order: &[u8], now: Timestamp) -> Option<&Order> {
        self.orders.get(order, now)
    }

    /// Whether the hold of a reservation is stored and has not expired.
    pub(super) fn is_held(&self, order: &[u8], reservation: &Reservation, now: Timestamp) -> bool {
        reservation.state == ReservationState::Held
            && reservation.expire > now
            && self.holds.contains_key(&reservation.hold(order))
    }

    /// Returns the quantity that a buyer has reserved and bought; 0 without a buyer.
    pub(super) fn bought(&self, buyer: &[u8]) -> u64 {
        self.buyers.get(buyer).copied().unwrap_or(0)
    }

    /// Stores a hold and the record of its order; returns the new stock.
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
        self.add_to_buyer(buyer, *quantity);
        let (end, name) = record.reservation.hold(order);
        self.touched.record(&[&[record::HOLD], &end.0.to_be_bytes(), &name]);
        self.holds.insert((end, name), hold);
        let forget = record.forget;
        self.orders.insert(order, record, forget, now);
        stock
    }

    /// Removes the hold of an order.
    pub(super) fn release(&mut self, order: &[u8], reservation: &Reservation) {
        let (end, name) = reservation.hold(order);
        self.touched.record(&[&[record::HOLD], &end.0.to_be_bytes(), &name]);
        self.holds.remove(&(end, name));
    }

    /// Stores the stock and the record of a settled order.
    pub(super) fn settle(&mut self, order: &[u8], record: Order, stock: Stock, now: Timestamp) {
        self.stock = Some(stock);
        let forget = record.forget;
        self.orders.insert(order, record, forget, now);
    }

    /// Adds to the quantity of a buyer.
    pub(super) fn add_to_buyer(&mut self, buyer: &[u8], quantity: u64) {
        if !buyer.is_empty() {
            self.touched.record(&[&[record::BUYER], buyer]);
            *self.buyers.get_or_default(buyer) += quantity;
        }
    }

    /// Subtracts from the quantity of a buyer.
    pub(super) fn subtract_from_buyer(&mut self, buyer: &[u8], quantity: u64) {
        if let Some(count) = self.buyers.get_mut(buyer) {
            self.touched.record(&[&[record::BUYER], buyer]);
            *count = count.saturating_sub(quantity);
            if *count == 0 {
                self.buyers.remove(buyer);
            }
        }
    }
}

impl State for Sku {
    const CAPABILITY: &'static str = "stock";
    const NAME_KEY: Option<&'static str> = Some("stock");

    /// An order counts twice, for its record and its hold.
    fn footprint(&self) -> Footprint {
        let buyers = self.buyers.len() as u64 * BUYER_BYTES;
        let bytes = 2 * self.orders.bytes() + self.replays.bytes() + buyers;
        Footprint { bytes, ..Footprint::default() }
    }

    /// Reclaims expired holds in the background, without a call for the sku.
    fn sweep(&mut self, now: Timestamp, budget: usize, _: &mut Bin) -> usize {
        let held = self.holds.len();
        self.reclaim_some(now, budget);
        let taken_back = held - self.holds.len();
        taken_back + self.orders.sweep(now, budget) + self.replays.sweep(now, budget)
    }

    /// False for a sku whose stock was set: dropping it would lose the stock.
    fn is_vacant(&self, _: Timestamp) -> bool {
        self.stock.is_none()
    }
}
