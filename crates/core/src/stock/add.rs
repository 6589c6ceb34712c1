//! `AddStock`: changes the quantity of a sku on hand.

use super::{
    REPLAY, Restocked, Sku, StockOutcome,
    outcome::{RESTOCK_NAMES, restock_index},
};
use crate::{
    Call, Decision, ENTRY_BYTES, Outcomes, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
};

/// Adds to the quantity on hand, or subtracts from it.
///
/// The sku must exist (`NotFound`). The result must not fall below the reserved quantity
/// (`BelowReserved`) nor exceed the largest quantity (`OutOfRange`). A refusal changes nothing, and
/// the answer contains the stock as it is.
///
/// With a `request`, a repeat within 5 minutes ([`REPLAY`]) gets the stock of the first answer,
/// marked `replayed`. Refusals are not stored: the same request can succeed later. Without a
/// `request` a repeat adds again, so the engine never sends such a call twice.
#[derive(Debug, Clone)]
pub struct AddStock {
    /// The sku.
    pub sku: Name,
    /// The change; its absolute value is at most [`super::QUANTITY_MAX`].
    pub delta: i64,
    /// The request id, which makes repeats safe for 5 minutes.
    pub request: Option<Name>,
}

impl Decision for AddStock {
    type State = Sku;
    type Outcome = StockOutcome<Restocked>;

    const SCRIPT: &'static Script = &script::stock::ADD;
    const PROPERTIES: Properties<AddStock> = Properties {
        is_repeatable: |add| add.request.is_some(),
        adds: |add| add.request.as_ref().map_or(0, |it| ENTRY_BYTES + it.as_bytes().len() as u64),
        outcomes: Outcomes::new(RESTOCK_NAMES, restock_index),
        is_unfinished: StockOutcome::is_unfinished,
        ..Properties::DEFAULT
    };

    fn partition(&self) -> &[u8] {
        self.sku.as_bytes()
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

    fn parse(reply: &mut Reply) -> Result<StockOutcome<Restocked>, Error> {
        Restocked::parse(reply)
    }

    fn decide(&self, sku: &mut Sku, now: Timestamp) -> StockOutcome<Restocked> {
        if !sku.is_set() {
            return StockOutcome::NotFound;
        }
        let request = self.request.as_ref().map(Name::as_bytes);
        if let Some(&stock) = request.and_then(|request| sku.replays.get(request, now)) {
            return StockOutcome::Decided { outcome: Restocked::Changed { replayed: true }, stock };
        }
        // Reclaim first: expired holds count as reserved until then.
        let Some(standing) = sku.reclaim(now) else { return StockOutcome::NotFound };
        // Both are at most 2^53, so the sum does not overflow.
        let ruling = sku.restock(standing, standing.stock.on_hand as i64 + self.delta);
        if let StockOutcome::Decided { outcome: Restocked::Changed { .. }, stock } = ruling
            && let Some(request) = request
        {
            sku.replays.insert(request, stock, now.after(REPLAY), now);
        }
        ruling
    }
}
