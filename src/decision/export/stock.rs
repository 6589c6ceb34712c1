//! Lines of stock.

use serde::{Deserialize, Serialize};

use super::Text;

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
