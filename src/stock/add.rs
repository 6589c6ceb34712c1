//! `AddStock`: adds to what is on hand of a sku, or takes from it.

use super::{REPLAY, Restocked, Ruling, Sku};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
};

/// Adds to what is on hand.
#[derive(Debug, Clone)]
pub struct AddStock {
    /// Of which sku.
    pub sku: Name,
    /// How many come, or go; at most [`super::QUANTITY_MAX`] either way.
    pub delta: i64,
    /// Names the request, so that a repeat gets the first answer.
    pub request: Option<Name>,
}

impl Decision for AddStock {
    type State = Sku;
    type Outcome = Ruling<Restocked>;

    const SCRIPT: &'static Script = &script::ADD_STOCK;

    fn partition(&self) -> &[u8] {
        self.sku.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn is_repeatable(&self) -> bool {
        self.request.is_some()
    }

    fn encode(&self, call: &mut Call) {
        let request = self.request.as_ref().map_or(&[][..], Name::as_bytes);
        call.key(&[b"stock"]);
        call.key(&[b"holds"]);
        call.key(&[b"buyers"]);
        call.key(&[b"replay:", request]);
        call.bytes(&[self.delta.to_string().as_bytes()]);
        call.number(if request.is_empty() { 0 } else { REPLAY.micros() });
    }

    fn parse(reply: &mut Reply) -> Result<Ruling<Restocked>, Error> {
        Restocked::parse(reply)
    }

    fn decide(&self, sku: &mut Sku, now: Timestamp) -> Ruling<Restocked> {
        if !sku.is_set() {
            return Ruling::NotFound;
        }
        let request = self.request.as_ref().map(Name::as_bytes);
        if let Some(&stock) = request.and_then(|request| sku.replays.get(request, now)) {
            return Ruling::Decided { outcome: Restocked::Changed { replayed: true }, stock };
        }
        let Some(standing) = sku.reclaim(now) else { return Ruling::NotFound };
        // Neither is above 2^53: their sum fits.
        let ruling = sku.restock(standing, standing.stock.on_hand as i64 + self.delta);
        if let Ruling::Decided { outcome: Restocked::Changed { .. }, stock } = ruling
            && let Some(request) = request
        {
            sku.replays.keep(request, stock, now.after(REPLAY), now);
        }
        ruling
    }
}
