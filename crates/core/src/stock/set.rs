//! `SetStock`: sets the quantity of a sku on hand.

use super::{
    Restocked, Sku, Stock, StockOutcome,
    outcome::{RESTOCK_NAMES, restock_index},
    sku::Reclaimed,
};
use crate::{
    Call, Decision, Outcomes, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
};

/// Sets the quantity on hand, including the reserved quantity. Creates the sku.
///
/// The quantity must not be below the reserved quantity (`BelowReserved`), and with the sold quantity
/// it must not exceed the largest quantity (`OutOfRange`). A refusal changes nothing. The sold
/// quantity stays as it is.
///
/// Not repeatable: before a second attempt, the caller should read the stock. For deliveries use
/// AddStock with a request id.
#[derive(Debug, Clone)]
pub struct SetStock {
    /// The sku.
    pub sku: Name,
    /// The quantity on hand, reserved units included; at most [`super::QUANTITY_MAX`].
    pub on_hand: u64,
}

impl Decision for SetStock {
    type State = Sku;
    type Outcome = StockOutcome<Restocked>;

    const SCRIPT: &'static Script = &script::stock::SET;
    // A repeat would put the quantity that was sold in between back on hand.
    const PROPERTIES: Properties<SetStock> = Properties {
        is_repeatable: |_| false,
        creates: |_| true,
        outcomes: Outcomes::new(RESTOCK_NAMES, restock_index),
        is_unfinished: StockOutcome::is_unfinished,
        ..Properties::DEFAULT
    };

    fn partition(&self) -> &[u8] {
        self.sku.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"stock"]);
        call.key(&[b"holds"]);
        call.key(&[b"buyers"]);
        call.number(self.on_hand);
    }

    fn parse(reply: &mut Reply) -> Result<StockOutcome<Restocked>, Error> {
        Restocked::parse(reply)
    }

    fn decide(&self, sku: &mut Sku, now: Timestamp) -> StockOutcome<Restocked> {
        let new = Reclaimed { stock: Stock::default(), lapsed_remain: false };
        let standing = sku.reclaim(now).unwrap_or(new);
        sku.restock(standing, self.on_hand as i64)
    }
}
