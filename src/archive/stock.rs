//! Lines of stock.

use serde::{Deserialize, Serialize};

use super::{Checked, Text};
use crate::stock::{QUANTITY_MAX, RESERVE_MAX};

/// The counts of a sku.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StockLine {
    pub(crate) sku: Text,
    pub(crate) on_hand: u64,
    pub(crate) reserved: u64,
    pub(crate) sold: u64,
}

/// The hold of an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HoldLine {
    pub(crate) sku: Text,
    pub(crate) order: Text,
    pub(crate) quantity: u64,
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub(crate) buyer: Text,
    pub(crate) expire: u64,
}

/// The reservation of an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderLine {
    pub(crate) sku: Text,
    pub(crate) order: Text,
    pub(crate) state: OrderName,
    pub(crate) quantity: u64,
    pub(crate) grant: u64,
    pub(crate) expire: u64,
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub(crate) buyer: Text,
    /// Limit on the total quantity of the buyer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u64>,
    pub(crate) forget: u64,
}

/// State of a reservation. A `Held` reservation without a hold line has lapsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OrderName {
    Held,
    Confirmed,
    Cancelled,
}

/// The quantity that a buyer has reserved and bought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BuyerLine {
    pub(crate) sku: Text,
    pub(crate) buyer: Text,
    pub(crate) count: u64,
}

/// A replay-cache entry: the stock after a request that added to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestockLine {
    pub(crate) sku: Text,
    pub(crate) request: Text,
    pub(crate) on_hand: u64,
    pub(crate) reserved: u64,
    pub(crate) sold: u64,
    pub(crate) forget: u64,
}

impl StockLine {
    pub(super) fn check(&self, checked: &mut Checked) {
        checked.name("sku", &self.sku);
        check_numbers(self.on_hand, self.reserved, self.sold, checked);
    }
}

impl HoldLine {
    pub(super) fn check(&self, checked: &mut Checked) {
        checked.name("sku", &self.sku);
        checked.name("order", &self.order);
        checked.part("buyer", &self.buyer);
        checked.at_most("quantity", self.quantity, RESERVE_MAX);
        checked.times([("expire", self.expire)]);
    }
}

impl OrderLine {
    pub(super) fn check(&self, checked: &mut Checked) {
        checked.name("sku", &self.sku);
        checked.name("order", &self.order);
        checked.part("buyer", &self.buyer);
        checked.at_most("quantity", self.quantity, RESERVE_MAX);
        checked.at_most("limit", self.limit.unwrap_or(0), QUANTITY_MAX);
        checked.times([("grant", self.grant), ("expire", self.expire), ("forget", self.forget)]);
        if self.quantity == 0 || self.limit == Some(0) {
            checked.refuse("quantity and limit are 1 at least".to_owned());
        }
    }
}

impl BuyerLine {
    pub(super) fn check(&self, checked: &mut Checked) {
        checked.name("sku", &self.sku);
        checked.name("buyer", &self.buyer);
        checked.at_most("count", self.count, QUANTITY_MAX);
    }
}

impl RestockLine {
    pub(super) fn check(&self, checked: &mut Checked) {
        checked.name("sku", &self.sku);
        checked.name("request", &self.request);
        check_numbers(self.on_hand, self.reserved, self.sold, checked);
        checked.times([("forget", self.forget)]);
    }
}

/// Checks that reserved is at most on hand, and that on hand and sold together are within the
/// maximum.
fn check_numbers(on_hand: u64, reserved: u64, sold: u64, checked: &mut Checked) {
    checked.at_most("on_hand", on_hand, QUANTITY_MAX - sold.min(QUANTITY_MAX));
    checked.at_most("reserved", reserved, on_hand);
    checked.at_most("sold", sold, QUANTITY_MAX);
}
