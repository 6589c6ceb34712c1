//! `ReserveStock`: reserves a quantity for an order.

use super::{
    Reservation, Sku, StockOutcome,
    order::{Order, ReservationState},
    sku::BUYER_BYTES,
};
use crate::{
    AsOf, Call, Cost, Decision, ENTRY_BYTES, Grows, Outcomes, PlainForm, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    statuses,
    time::{Millis, Timestamp},
};

statuses! {
    RESERVE_RESERVED = 0, RESERVE_REPLAYED = 1, RESERVE_ALREADY_SETTLED = 2, RESERVE_SHORT = 3,
    RESERVE_BUYER_LIMIT = 4, RESERVE_QUANTITY_DIFFERS = 5,
}

/// The buyer of an order.
#[derive(Debug, Clone)]
pub struct Buyer {
    /// The buyer.
    pub name: Name,
    /// The quantity of the sku that the buyer may have reserved and bought, this order included.
    pub limit: Option<u64>,
}

/// Reserves a quantity for an order until its hold expires.
///
/// The decision, in this order:
/// 1. A sku whose stock was never set is `NotFound`.
/// 2. An order whose hold is stored gets the same reservation again, marked `replayed`. The length
///    and buyer of the repeat are ignored, so a repeat is safe. With another quantity it is
///    `QuantityDiffers`.
/// 3. A confirmed or cancelled order is `AlreadySettled`, for 24 hours after that.
/// 4. If the buyer would have more than its limit, the answer is `BuyerLimit`.
/// 5. If less than the quantity is available, the answer is `Short`.
/// 6. Otherwise the quantity is reserved until now plus `hold`. An order whose hold has expired is
///    reserved anew, with the values of this call.
///
/// While expired holds remain, refusals 4 and 5 become `Again`.
#[derive(Debug, Clone)]
pub struct ReserveStock {
    /// The sku.
    pub sku: Name,
    /// The order.
    pub order: Name,
    /// The quantity, 1 to [`super::RESERVE_MAX`].
    pub quantity: u64,
    /// Length of the hold: [`HOLD_MIN`](super::HOLD_MIN) to [`HOLD_MAX`](super::HOLD_MAX).
    pub hold: Millis,
    /// The buyer; `None` for an order without a limit.
    pub buyer: Option<Buyer>,
}

/// The answer to a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReserveOutcome {
    /// The quantity is reserved for the order, with the values of the call.
    Reserved {
        /// When the reservation was made.
        grant: Timestamp,
        /// When its hold expires.
        expire: Timestamp,
    },
    /// An earlier call has reserved the quantity for the order.
    Replayed {
        /// The reservation of the order.
        reservation: AsOf<Reservation>,
    },
    /// The order has reserved another quantity; nothing changed.
    QuantityDiffers {
        /// The reservation of the order.
        reservation: AsOf<Reservation>,
    },
    /// The order was confirmed or cancelled before; nothing changed.
    AlreadySettled {
        /// The reservation of the order.
        reservation: Reservation,
    },
    /// Fewer are available; nothing changed.
    Short {
        /// Time until the next hold expires, if enough may be available then; `None` if waiting
        /// does not help.
        retry_after: Option<Millis>,
    },
    /// The buyer would exceed its limit; nothing changed.
    BuyerLimit {
        /// The quantity that the buyer has reserved and bought.
        has: u64,
    },
}

impl ReserveStock {
    /// Returns the name of the buyer; empty without one.
    fn buyer(&self) -> &[u8] {
        self.buyer.as_ref().map_or(&[], |buyer| buyer.name.as_bytes())
    }

    /// Returns the limit of the buyer; `None` for no limit, or without a buyer.
    fn limit(&self) -> Option<u64> {
        self.buyer.as_ref().and_then(|buyer| buyer.limit)
    }

    fn push_keys(&self, call: &mut Call) {
        call.key(&[b"stock"]);
        call.key(&[b"holds"]);
        call.key(&[b"buyers"]);
        call.key(&[b"order:", self.order.as_bytes()]);
    }

    fn encode_plain(&self, call: &mut Call) {
        self.push_keys(call);
        let (quantity, hold) = ((self.quantity as u32).to_le_bytes(), self.hold.micros());
        let limit = self.limit().unwrap_or(0).to_le_bytes();
        let (order, buyer) = (self.order.as_bytes(), self.buyer());
        call.bytes(&[order, &[0], buyer, &[0], &quantity, &hold.to_le_bytes(), &limit]);
    }
}

/// Rounded up to whole milliseconds, so that a caller never comes back too early.
fn retry_after(micros: u64) -> Option<Millis> {
    (micros > 0).then(|| Millis(micros.div_ceil(1000)))
}

impl Decision for ReserveStock {
    type State = Sku;
    type Outcome = StockOutcome<ReserveOutcome>;

    const SCRIPT: &'static Script = &script::stock::RESERVE;
    // The record, the hold and the buyer.
    const PROPERTIES: Properties<ReserveStock> = Properties::<Self> {
        adds: |reserve| {
            let buyer = reserve.buyer.as_ref().map_or(0, |buyer| buyer.name.as_bytes().len());
            2 * (ENTRY_BYTES + (reserve.order.as_bytes().len() + buyer) as u64) + BUYER_BYTES
        },
        outcomes: Outcomes::new(
            &[
                "reserved",
                "short",
                "buyer_limit",
                "already_settled",
                "not_found",
                "quantity_differs",
                "unfinished",
            ],
            |outcome| match outcome {
                StockOutcome::Decided {
                    outcome: ReserveOutcome::Reserved { .. } | ReserveOutcome::Replayed { .. },
                    ..
                } => 0,
                StockOutcome::Decided { outcome: ReserveOutcome::Short { .. }, .. } => 1,
                StockOutcome::Decided { outcome: ReserveOutcome::BuyerLimit { .. }, .. } => 2,
                StockOutcome::Decided {
                    outcome: ReserveOutcome::AlreadySettled { .. }, ..
                } => 3,
                StockOutcome::NotFound => 4,
                StockOutcome::Decided {
                    outcome: ReserveOutcome::QuantityDiffers { .. }, ..
                } => 5,
                StockOutcome::Again => 6,
            },
        ),
        is_unfinished: StockOutcome::is_unfinished,
        plain: Some(PlainForm {
            script: |_| Some(&script::stock::RESERVE_PLAIN),
            encode: ReserveStock::encode_plain,
            cost: |_| Cost::from_micros(12),
        }),
        ..Properties::DEFAULT
    }
    .grows();

    fn partition(&self) -> &[u8] {
        self.sku.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        self.push_keys(call);
        call.bytes(&[self.order.as_bytes()]);
        call.number(self.quantity);
        call.number(self.hold.micros());
        call.bytes(&[self.buyer()]);
        call.number(self.limit().unwrap_or(0));
    }

    fn parse(reply: &mut Reply) -> Result<StockOutcome<ReserveOutcome>, Error> {
        StockOutcome::parse(reply, |status, reply| {
            Ok(Some(match status {
                RESERVE_RESERVED => ReserveOutcome::Reserved {
                    grant: reply.now(),
                    expire: Timestamp(reply.number()?),
                },
                RESERVE_REPLAYED => ReserveOutcome::Replayed {
                    reservation: Reservation::parse(reply)?.at(reply.now()),
                },
                RESERVE_QUANTITY_DIFFERS => {
                    let reservation = Reservation::parse(reply)?.at(reply.now());
                    ReserveOutcome::QuantityDiffers { reservation }
                }
                RESERVE_ALREADY_SETTLED => {
                    ReserveOutcome::AlreadySettled { reservation: Reservation::parse(reply)? }
                }
                RESERVE_SHORT => {
                    ReserveOutcome::Short { retry_after: retry_after(reply.number()?) }
                }
                RESERVE_BUYER_LIMIT => ReserveOutcome::BuyerLimit { has: reply.number()? },
                _ => return Ok(None),
            }))
        })
    }

    fn decide(&self, sku: &mut Sku, now: Timestamp) -> StockOutcome<ReserveOutcome> {
        let Some(standing) = sku.reclaim(now) else { return StockOutcome::NotFound };
        let (stock, order, quantity) = (standing.stock, self.order.as_bytes(), self.quantity);
        let decided = |outcome| StockOutcome::Decided { outcome, stock };

        // An order whose hold has expired is reserved anew below.
        if let Some(record) = sku.order(order, now) {
            let reservation = record.reservation.clone();
            if sku.is_held(order, &reservation, now) {
                let (is_same, reservation) =
                    (reservation.quantity == quantity, reservation.at(now));
                return decided(if is_same {
                    ReserveOutcome::Replayed { reservation }
                } else {
                    ReserveOutcome::QuantityDiffers { reservation }
                });
            } else if reservation.state != ReservationState::Held {
                return decided(ReserveOutcome::AlreadySettled { reservation });
            }
        }
        let has = sku.bought(self.buyer());
        let over = self.limit().is_some_and(|limit| has + quantity > limit);
        let short = stock.available() < quantity;
        // The holds that remain to be reclaimed may change this refusal.
        if (over || short) && standing.lapsed_remain {
            return StockOutcome::Again;
        } else if over {
            return decided(ReserveOutcome::BuyerLimit { has });
        } else if short {
            // If fewer are on hand than requested, no expiring hold can help.
            let next = sku.next_end().filter(|_| stock.on_hand >= quantity);
            let retry_after = next.and_then(|end| retry_after(end.0 - now.0));
            return decided(ReserveOutcome::Short { retry_after });
        }

        let record = Order::new(quantity, self.hold, self.buyer(), self.limit(), now);
        let expire = record.reservation.expire;
        let stock = sku.hold(order, record, stock, now);
        StockOutcome::Decided { outcome: ReserveOutcome::Reserved { grant: now, expire }, stock }
    }
}

impl Grows for ReserveStock {
    /// True for an order without a record, if the quantity is available.
    fn is_new(&self, sku: &Sku, now: Timestamp) -> bool {
        sku.has(self.quantity) && sku.order(self.order.as_bytes(), now).is_none()
    }
}
