//! `ReserveStock`: holds a quantity for an order.

use super::{
    Reservation, Ruling, Sku,
    order::{Order, ReservationState},
};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    error::Error,
    names::Name,
    script::{self, Script},
    time::{Millis, Timestamp},
};

/// Who buys.
#[derive(Debug, Clone)]
pub struct Buyer {
    /// The buyer.
    pub name: Name,
    /// How many of the sku it may have reserved and bought, this order included.
    pub limit: Option<u64>,
}

/// Asks for a quantity to be held.
#[derive(Debug, Clone)]
pub struct ReserveStock {
    /// Of which sku.
    pub sku: Name,
    /// For which order.
    pub order: Name,
    /// How many, 1 to [`super::RESERVE_MAX`].
    pub quantity: u64,
    /// How long.
    pub hold: Millis,
    /// For whom, if anybody in particular.
    pub buyer: Option<Buyer>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReserveOutcome {
    /// It is held for the order.
    Reserved {
        /// The reservation.
        reservation: Reservation,
        /// Whether an earlier call made it.
        replayed: bool,
    },
    /// The order was confirmed or cancelled.
    AlreadySettled {
        /// Its reservation.
        reservation: Reservation,
    },
    /// Fewer are available.
    Short {
        /// How long until a hold ends that could leave enough.
        retry_after: Option<Millis>,
    },
    /// The buyer would have more than its limit.
    BuyerLimit {
        /// What it has reserved and bought.
        has: u64,
    },
}

impl ReserveStock {
    fn buyer(&self) -> &[u8] {
        self.buyer.as_ref().map_or(&[], |buyer| buyer.name.as_bytes())
    }

    fn limit(&self) -> Option<u64> {
        self.buyer.as_ref().and_then(|buyer| buyer.limit)
    }
}

/// Rounded up: who is told to wait never comes early.
fn retry_after(micros: u64) -> Option<Millis> {
    (micros > 0).then(|| Millis(micros.div_ceil(1000)))
}

impl Decision for ReserveStock {
    type State = Sku;
    type Outcome = Ruling<ReserveOutcome>;

    const SCRIPT: &'static Script = &script::RESERVE_STOCK;

    fn partition(&self) -> &[u8] {
        self.sku.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn is_new(&self, sku: &Sku, now: Timestamp) -> bool {
        sku.has(self.quantity) && sku.order(self.order.as_bytes(), now).is_none()
    }

    fn encode(&self, call: &mut Call) {
        let order = self.order.as_bytes();
        call.key(&[b"stock"]);
        call.key(&[b"holds"]);
        call.key(&[b"buyers"]);
        call.key(&[b"order:", order]);
        call.bytes(&[order]);
        call.number(self.quantity);
        call.number(self.hold.micros());
        call.bytes(&[self.buyer()]);
        call.number(self.limit().unwrap_or(0));
    }

    fn parse(reply: &mut Reply) -> Result<Ruling<ReserveOutcome>, Error> {
        Ruling::parse(reply, |status, reply| {
            Ok(Some(match status {
                0 | 1 => ReserveOutcome::Reserved {
                    reservation: Reservation::parse(reply)?,
                    replayed: status == 1,
                },
                2 => ReserveOutcome::AlreadySettled { reservation: Reservation::parse(reply)? },
                3 => ReserveOutcome::Short { retry_after: retry_after(reply.number()?) },
                4 => ReserveOutcome::BuyerLimit { has: reply.number()? },
                _ => return Ok(None),
            }))
        })
    }

    fn decide(&self, sku: &mut Sku, now: Timestamp) -> Ruling<ReserveOutcome> {
        let Some(standing) = sku.reclaim(now) else { return Ruling::NotFound };
        let (stock, order, quantity) = (standing.stock, self.order.as_bytes(), self.quantity);
        let decided = |outcome| Ruling::Decided { outcome, stock };

        if let Some(record) = sku.order(order, now) {
            let reservation = record.reservation.clone();
            if sku.is_held(order, &reservation, now) {
                return decided(ReserveOutcome::Reserved { reservation, replayed: true });
            } else if reservation.state != ReservationState::Held {
                return decided(ReserveOutcome::AlreadySettled { reservation });
            }
        }
        let has = sku.bought(self.buyer());
        let over = self.limit().is_some_and(|limit| has + quantity > limit);
        let short = stock.available() < quantity;
        if (over || short) && standing.lapsed_remain {
            return Ruling::Again;
        } else if over {
            return decided(ReserveOutcome::BuyerLimit { has });
        } else if short {
            let next = sku.next_end().filter(|_| stock.on_hand >= quantity);
            let retry_after = next.and_then(|end| retry_after(end.0 - now.0));
            return decided(ReserveOutcome::Short { retry_after });
        }

        let record = Order::new(quantity, self.hold, self.buyer(), self.limit(), now);
        let reservation = record.reservation.clone();
        let stock = sku.hold(order, record, stock, now);
        let outcome = ReserveOutcome::Reserved { reservation, replayed: false };
        Ruling::Decided { outcome, stock }
    }
}
