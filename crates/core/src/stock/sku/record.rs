//! Persistence of a sku: its stock, holds, orders, buyers and replay cache.
//!
//! The head is the stock. Every other entry is a part, so the cost of a decision does not depend on
//! the number of orders.

use super::Sku;
use crate::{
    record::{
        Changes, Recorded, Unreadable, decode, decode_number, encode, split_part, unknown_part,
    },
    time::Timestamp,
};

/// Letter of a hold, named by its expiry and key.
pub(super) const HOLD: u8 = b'h';
/// Letter of a buyer's quantity, named by the buyer.
pub(super) const BUYER: u8 = b'b';
/// Letter of an order, named by the order.
pub(super) const ORDER: u8 = b'o';
/// Letter of a replay cache entry, named by its request id.
pub(super) const REPLAY: u8 = b'r';

/// Splits the name of a hold's part into expiry and key. The expiry comes first, so holds are
/// stored in order of expiry.
pub(super) fn split_hold(name: &[u8]) -> Result<(Timestamp, Box<[u8]>), Unreadable> {
    let (end, name) = name.split_at_checked(8).unwrap_or((&[], name));
    Ok((Timestamp(decode_number(end)?), name.into()))
}

impl Recorded for Sku {
    const KIND: u8 = 7;

    fn track_changes(&mut self) {
        self.touched.begin();
        self.orders.track_changes();
        self.replays.track_changes();
    }

    fn head(&self, to: &mut Vec<u8>) {
        if let Some(stock) = &self.stock {
            encode(stock, to);
        }
    }

    /// A changed hold or buyer without an entry is removed. The same change also contains the head;
    /// otherwise a restart could read a reserved quantity that is not the sum of the holds.
    fn drain(&mut self, to: &mut Changes) {
        let touched = self.touched.drain();
        if !touched.is_empty() {
            // A sweep has no decision after which the head is compared.
            let mut head = Vec::new();
            self.head(&mut head);
            to.head(&head);
        }
        for part in touched {
            let kept = match split_part(&part) {
                (HOLD, name) => {
                    let hold = split_hold(name).ok().and_then(|key| self.holds.get(&key));
                    hold.map(|hold| to.put(&[&part], hold))
                }
                (_, buyer) => self.buyers.get(buyer).map(|bought| to.put(&[&part], bought)),
            };
            if kept.is_none() {
                to.remove(&[&part]);
            }
        }
        self.orders.drain(ORDER, to);
        self.replays.drain(REPLAY, to);
    }

    fn restore(&mut self, part: &[u8], value: &[u8]) -> Result<(), Unreadable> {
        match split_part(part) {
            (0, _) => self.stock = Some(decode(value)?),
            (HOLD, name) => drop(self.holds.insert(split_hold(name)?, decode(value)?)),
            (BUYER, buyer) => drop(self.buyers.insert(buyer.into(), decode(value)?)),
            (ORDER, order) => self.orders.restore(order, value)?,
            (REPLAY, request) => self.replays.restore(request, value)?,
            _ => return unknown_part(part),
        }
        Ok(())
    }

    fn restored(&mut self) {
        self.orders.restored();
        self.replays.restored();
    }
}
