//! The export lines of a sku.

use serde::{Deserialize, Serialize};

use super::{
    Hold, Order, Reservation, Sku, Stock,
    record::{BUYER, HOLD, ORDER, REPLAY, split_hold},
};
use crate::{
    names::SEPARATOR,
    record::{Changes, Checked, EntryLine, Text, Unreadable, decode, encode},
    stock::{QUANTITY_MAX, RESERVE_MAX},
    time::Timestamp,
};

/// The numbers of a sku.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StockLine {
    sku: Text,
    /// The fields `on_hand`, `reserved` and `sold`.
    #[serde(flatten)]
    stock: Stock,
}

/// The hold of an order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldLine {
    sku: Text,
    order: Text,
    /// The fields `quantity` and `buyer`.
    #[serde(flatten)]
    hold: Hold,
    /// When the hold expires, in µs.
    expire: Timestamp,
}

/// The reservation of an order. A held one without a hold line has expired.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderLine {
    sku: Text,
    order: Text,
    /// The fields `state`, `quantity`, `grant`, `expire` and `buyer`; times in µs.
    #[serde(flatten)]
    reservation: Reservation,
    /// Limit on the total quantity of the buyer.
    limit: Option<u64>,
    /// When the record is dropped, in µs.
    forget: Timestamp,
}

/// The quantity that a buyer has reserved and bought.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuyerLine {
    sku: Text,
    buyer: Text,
    /// The quantity.
    count: u64,
}

/// A replay-cache entry: the stock after a request that added to it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestockLine {
    sku: Text,
    request: Text,
    /// The answer to the request.
    #[serde(flatten)]
    stock: Stock,
    /// Until when a repeat gets this answer, in µs.
    forget: Timestamp,
}

impl StockLine {
    /// Returns the line of a head.
    pub fn from_entry(sku: &[u8], value: &[u8]) -> Result<StockLine, Unreadable> {
        Ok(StockLine { sku: Text::new(sku), stock: decode(value)? })
    }
}

impl HoldLine {
    /// Returns the line of a stored hold.
    pub fn from_entry(sku: &[u8], name: &[u8], value: &[u8]) -> Result<HoldLine, Unreadable> {
        let (expire, member) = split_hold(name)?;
        let order = member.split(|byte| *byte == SEPARATOR).next().unwrap_or_default();
        Ok(HoldLine { sku: Text::new(sku), order: Text::new(order), hold: decode(value)?, expire })
    }
}

impl OrderLine {
    /// Returns the line of a stored order.
    pub fn from_entry(sku: &[u8], order: &[u8], value: &[u8]) -> Result<OrderLine, Unreadable> {
        let (forget, Order { reservation, limit, .. }) = decode::<(Timestamp, Order)>(value)?;
        Ok(OrderLine { sku: Text::new(sku), order: Text::new(order), reservation, limit, forget })
    }
}

impl BuyerLine {
    /// Returns the line of a stored buyer.
    pub fn from_entry(sku: &[u8], buyer: &[u8], value: &[u8]) -> Result<BuyerLine, Unreadable> {
        Ok(BuyerLine { sku: Text::new(sku), buyer: Text::new(buyer), count: decode(value)? })
    }
}

impl RestockLine {
    /// Returns the line of a stored answer.
    pub fn from_entry(sku: &[u8], request: &[u8], value: &[u8]) -> Result<RestockLine, Unreadable> {
        let (forget, stock) = decode(value)?;
        Ok(RestockLine { sku: Text::new(sku), request: Text::new(request), stock, forget })
    }
}

impl EntryLine for StockLine {
    fn check(&self, checked: &mut Checked) {
        checked.name("sku", &self.sku);
        check_numbers(self.stock, checked);
    }

    fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
        let mut head = Vec::new();
        encode(&self.stock, &mut head);
        to.set_partition::<Sku>(&self.sku.0);
        to.head(&head);
        Ok(())
    }
}

impl EntryLine for HoldLine {
    /// The buyer may be empty.
    fn check(&self, checked: &mut Checked) {
        checked.name("sku", &self.sku);
        checked.name("order", &self.order);
        checked.part("buyer", &self.hold.buyer);
        checked.at_most("quantity", self.hold.quantity, RESERVE_MAX);
        checked.times([("expire", self.expire)]);
    }

    fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
        let member = self.hold.member(&self.order.0, self.expire);
        to.set_partition::<Sku>(&self.sku.0);
        to.put(&[&[HOLD], &self.expire.0.to_be_bytes(), &member], &self.hold);
        Ok(())
    }
}

impl EntryLine for OrderLine {
    fn check(&self, checked: &mut Checked) {
        let Reservation { quantity, grant, expire, buyer, .. } = &self.reservation;
        checked.name("sku", &self.sku);
        checked.name("order", &self.order);
        checked.part("buyer", buyer);
        checked.at_most("quantity", *quantity, RESERVE_MAX);
        checked.at_most("limit", self.limit.unwrap_or(0), QUANTITY_MAX);
        checked.times([("grant", *grant), ("expire", *expire), ("forget", self.forget)]);
        if *quantity == 0 || self.limit == Some(0) {
            checked.refuse("quantity and limit must be at least 1".to_owned());
        }
    }

    fn forget(&self) -> Option<u64> {
        Some(self.forget.0)
    }

    /// When the record is forgotten is stored twice: in the record, and beside it in the replay
    /// cache.
    fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
        let (reservation, limit, forget) = (self.reservation.clone(), self.limit, self.forget);
        to.set_partition::<Sku>(&self.sku.0);
        to.put(&[&[ORDER], &self.order.0], &(forget, Order { reservation, limit, forget }));
        Ok(())
    }
}

impl EntryLine for BuyerLine {
    fn check(&self, checked: &mut Checked) {
        checked.name("sku", &self.sku);
        checked.name("buyer", &self.buyer);
        checked.at_most("count", self.count, QUANTITY_MAX);
    }

    fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
        to.set_partition::<Sku>(&self.sku.0);
        to.put(&[&[BUYER], &self.buyer.0], &self.count);
        Ok(())
    }
}

impl EntryLine for RestockLine {
    fn check(&self, checked: &mut Checked) {
        checked.name("sku", &self.sku);
        checked.name("request", &self.request);
        check_numbers(self.stock, checked);
        checked.times([("forget", self.forget)]);
    }

    fn forget(&self) -> Option<u64> {
        Some(self.forget.0)
    }

    fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
        to.set_partition::<Sku>(&self.sku.0);
        to.put(&[&[REPLAY], &self.request.0], &(self.forget, self.stock));
        Ok(())
    }
}

/// Checks that reserved is at most on hand, and that on hand and sold together are within the
/// maximum.
fn check_numbers(Stock { on_hand, reserved, sold }: Stock, checked: &mut Checked) {
    checked.at_most("on_hand", on_hand, QUANTITY_MAX - sold.min(QUANTITY_MAX));
    checked.at_most("reserved", reserved, on_hand);
    checked.at_most("sold", sold, QUANTITY_MAX);
}
