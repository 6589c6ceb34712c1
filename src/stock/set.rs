//! `SetStock`: sets how many of a sku are on hand.

use super::{Restocked, Ruling, Sku, Stock, sku::Standing};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
};

/// Sets what is on hand, reserved ones among it; creates the sku.
#[derive(Debug, Clone)]
pub struct SetStock {
    /// Of which sku.
    pub sku: Name,
    /// How many; at most [`super::QUANTITY_MAX`].
    pub on_hand: u64,
}

impl Decision for SetStock {
    type State = Sku;
    type Outcome = Ruling<Restocked>;

    const SCRIPT: &'static Script = &script::SET_STOCK;

    fn partition(&self) -> &[u8] {
        self.sku.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    /// What was confirmed since the first time would be on hand again.
    fn is_repeatable(&self) -> bool {
        false
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"stock"]);
        call.key(&[b"holds"]);
        call.key(&[b"buyers"]);
        call.number(self.on_hand);
    }

    fn parse(reply: &mut Reply) -> Result<Ruling<Restocked>, Error> {
        Restocked::parse(reply)
    }

    fn decide(&self, sku: &mut Sku, now: Timestamp) -> Ruling<Restocked> {
        let new = Standing { stock: Stock::default(), lapsed_remain: false };
        let standing = sku.reclaim(now).unwrap_or(new);
        sku.restock(standing, self.on_hand as i64)
    }
}
