//! Export and import of a sku: persisted entries as lines of an export file, and back.

use super::{
    Hold, Order, Reservation, ReservationState, Sku, Stock,
    record::{BUYER, HOLD, ORDER, REPLAY, split_hold},
};
use crate::{
    decision::{
        export::{
            BuyerLine, Checked, HoldLine, Line, OrderLine, OrderName, RestockLine, StockLine, Text,
        },
        names::SEPARATOR,
        persistence::{Changes, Unreadable, decode, encode, split_part, unknown_part},
        time::Timestamp,
    },
    stock::{QUANTITY_MAX, RESERVE_MAX},
};

impl Sku {
    /// The line of a persisted entry.
    pub(crate) fn archive(partition: &[u8], part: &[u8], value: &[u8]) -> Result<Line, Unreadable> {
        let sku = Text::new(partition);
        Ok(match split_part(part) {
            (0, _) => {
                let Stock { on_hand, reserved, sold } = decode(value)?;
                Line::Stock(StockLine { sku, on_hand, reserved, sold })
            }
            (HOLD, name) => {
                let Hold { quantity, buyer } = decode(value)?;
                let (expire, name) = split_hold(name)?;
                let order = name.split(|byte| *byte == SEPARATOR).next().unwrap_or_default();
                let (order, buyer, expire) = (Text::new(order), Text(buyer.into()), expire.0);
                Line::Hold(HoldLine { sku, order, quantity, buyer, expire })
            }
            (BUYER, buyer) => {
                let (buyer, count) = (Text::new(buyer), decode(value)?);
                Line::Buyer(BuyerLine { sku, buyer, count })
            }
            (ORDER, order) => {
                let (forget, order_of) = decode::<(Timestamp, Order)>(value)?;
                Line::Order(order_line(sku, order, order_of, forget))
            }
            (REPLAY, request) => {
                let (forget, stock) = decode::<(Timestamp, Stock)>(value)?;
                let Stock { on_hand, reserved, sold } = stock;
                let (request, forget) = (Text::new(request), forget.0);
                Line::StockReplay(RestockLine { sku, request, on_hand, reserved, sold, forget })
            }
            _ => return unknown_part(part),
        })
    }
}

/// The line of an order.
fn order_line(sku: Text, order: &[u8], record: Order, forget: Timestamp) -> OrderLine {
    let Reservation { state, quantity, grant, expire, buyer } = record.reservation;
    let state = match state {
        ReservationState::Held => OrderName::Held,
        ReservationState::Confirmed => OrderName::Confirmed,
        ReservationState::Cancelled => OrderName::Cancelled,
    };
    OrderLine {
        sku,
        order: Text::new(order),
        state,
        quantity,
        grant: grant.0,
        expire: expire.0,
        buyer: Text(buyer.into()),
        limit: record.limit,
        forget: forget.0,
    }
}

impl StockLine {
    /// Appends the entry of this line to a write batch.
    pub(crate) fn record(&self, to: &mut Changes) {
        let stock = Stock { on_hand: self.on_hand, reserved: self.reserved, sold: self.sold };
        let mut head = Vec::new();
        encode(&stock, &mut head);
        to.of::<Sku>(&self.sku.0);
        to.head(&head);
    }
}

impl HoldLine {
    /// The key of the hold: order, quantity, buyer and expiry.
    pub(crate) fn member(&self) -> Vec<u8> {
        let (quantity, expire) = (self.quantity.to_string(), self.expire.to_string());
        let parts = [&self.order.0[..], quantity.as_bytes(), &self.buyer.0, expire.as_bytes()];
        parts.join(&SEPARATOR)
    }

    /// Appends the entry of this line to a write batch.
    pub(crate) fn record(&self, to: &mut Changes) {
        let hold = Hold { quantity: self.quantity, buyer: self.buyer.0.clone().into() };
        to.of::<Sku>(&self.sku.0);
        to.put(&[&[HOLD], &self.expire.to_be_bytes(), &self.member()], &hold);
    }
}

impl BuyerLine {
    /// Appends the entry of this line to a write batch.
    pub(crate) fn record(&self, to: &mut Changes) {
        to.of::<Sku>(&self.sku.0);
        to.put(&[&[BUYER], &self.buyer.0], &self.count);
    }
}

impl OrderLine {
    /// Appends the entry of this line to a write batch.
    pub(crate) fn record(&self, to: &mut Changes) {
        let forget = Timestamp(self.forget);
        let reservation = Reservation {
            state: match self.state {
                OrderName::Held => ReservationState::Held,
                OrderName::Confirmed => ReservationState::Confirmed,
                OrderName::Cancelled => ReservationState::Cancelled,
            },
            quantity: self.quantity,
            grant: Timestamp(self.grant),
            expire: Timestamp(self.expire),
            buyer: self.buyer.0.clone().into(),
        };
        let order = Order { reservation, limit: self.limit, forget };
        to.of::<Sku>(&self.sku.0);
        to.put(&[&[ORDER], &self.order.0], &(forget, order));
    }
}

impl RestockLine {
    /// Appends the entry of this line to a write batch.
    pub(crate) fn record(&self, to: &mut Changes) {
        let stock = Stock { on_hand: self.on_hand, reserved: self.reserved, sold: self.sold };
        to.of::<Sku>(&self.sku.0);
        to.put(&[&[REPLAY], &self.request.0], &(Timestamp(self.forget), stock));
    }
}

impl StockLine {
    pub(crate) fn check(&self, checked: &mut Checked) {
        checked.name("sku", &self.sku);
        check_numbers(self.on_hand, self.reserved, self.sold, checked);
    }
}

impl HoldLine {
    pub(crate) fn check(&self, checked: &mut Checked) {
        checked.name("sku", &self.sku);
        checked.name("order", &self.order);
        checked.part("buyer", &self.buyer);
        checked.at_most("quantity", self.quantity, RESERVE_MAX);
        checked.times([("expire", self.expire)]);
    }
}

impl OrderLine {
    pub(crate) fn check(&self, checked: &mut Checked) {
        checked.name("sku", &self.sku);
        checked.name("order", &self.order);
        checked.part("buyer", &self.buyer);
        checked.at_most("quantity", self.quantity, RESERVE_MAX);
        checked.at_most("limit", self.limit.unwrap_or(0), QUANTITY_MAX);
        checked.times([("grant", self.grant), ("expire", self.expire), ("forget", self.forget)]);
        if self.quantity == 0 || self.limit == Some(0) {
            checked.refuse("quantity and limit must be at least 1".to_owned());
        }
    }
}

impl BuyerLine {
    pub(crate) fn check(&self, checked: &mut Checked) {
        checked.name("sku", &self.sku);
        checked.name("buyer", &self.buyer);
        checked.at_most("count", self.count, QUANTITY_MAX);
    }
}

impl RestockLine {
    pub(crate) fn check(&self, checked: &mut Checked) {
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
