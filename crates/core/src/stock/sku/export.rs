//! Export and import of a sku: its keys in Redis as entries, and back.
//!
//! Holds and their expiry move with the sku, so a buyer can still pay in the new store. The keys
//! are read one after the other, and orders may change in between, so the other entries are then
//! corrected to match the holds that were read ([`Exported::reconcile`]).

use std::collections::HashMap;

use super::{
    Hold, Order, Reservation, Sku, Stock,
    record::{BUYER, HOLD, ORDER, REPLAY, split_hold},
};
use crate::{
    Call, Cost, Reply,
    error::Error,
    names::SEPARATOR,
    record::{
        Entry, Export, Exported, Page, Parts, Source, Unreadable, decode, split_part,
        unknown_letter, unknown_part,
    },
    script::{self, Script},
    time::Timestamp,
};

/// The source of the numbers. Other sources have the letter of their entries.
const NUMBERS: u8 = b's';

/// Reads the numbers of a sku.
fn parse_numbers(reply: &mut Reply) -> Result<Stock, Error> {
    Ok(Stock { on_hand: reply.number()?, reserved: reply.number()?, sold: reply.number()? })
}

/// Returns the entry of a hold. `member` is its key in the sku, which begins with the order.
fn hold_entry(expire: Timestamp, member: &[u8], hold: &Hold) -> Entry {
    Entry::new(&[&[HOLD], &expire.0.to_be_bytes(), member], hold)
}

/// Returns the order of a hold's key.
fn order_of(member: &[u8]) -> &[u8] {
    member.split(|byte| *byte == SEPARATOR).next().unwrap_or_default()
}

/// Returns the entry of a hold in a script's reply.
fn parse_hold(reply: &mut Reply) -> Result<Entry, Error> {
    let (order, quantity, buyer) = (reply.bytes()?, reply.number()?, reply.bytes()?);
    let (expire, hold) = (Timestamp(reply.number()?), Hold { quantity, buyer: buyer.into() });
    Ok(hold_entry(expire, &hold.member(&order, expire), &hold))
}

/// Returns the entry of an order in a script's reply.
fn parse_order(reply: &mut Reply) -> Result<Entry, Error> {
    let reservation = Reservation::parse(reply)?;
    let limit = Some(reply.number()?).filter(|limit| *limit > 0);
    let forget = Timestamp(reply.number()?);
    Ok(Entry::new(&[&[ORDER]], &(forget, Order { reservation, limit, forget })))
}

impl Exported for Sku {
    const EXPORT: &'static Script = &script::stock::EXPORT;
    const IMPORT: &'static Script = &script::stock::IMPORT;

    fn source(tag: &[u8], part: &[u8]) -> Option<(Vec<u8>, Source)> {
        let source = match part {
            b"stock" => Source::new(NUMBERS, &[]),
            b"holds" => Source::new(HOLD, &[]),
            b"buyers" => Source::new(BUYER, &[]),
            _ => match (part.strip_prefix(b"order:"), part.strip_prefix(b"replay:")) {
                (Some(order), _) => Source::new(ORDER, order),
                (_, Some(request)) => Source::new(REPLAY, request),
                _ => return None,
            },
        };
        Some((tag.to_vec(), source))
    }

    fn encode_export(export: &Export<Sku>, call: &mut Call) {
        keys(&export.source.name).iter().for_each(|part| call.key(&[part]));
        export.push_page(&[], call);
    }

    fn export_cost(export: &Export<Sku>) -> Cost {
        match export.source.letter {
            HOLD | BUYER => Cost::bulk(1000),
            _ => Cost::PLAIN,
        }
    }

    fn parse_entry(letter: &[u8], reply: &mut Reply) -> Result<Entry, Error> {
        Ok(match letter {
            [] => Entry::new(&[], &parse_numbers(reply)?),
            [HOLD] => parse_hold(reply)?,
            [BUYER] => Entry::new(&[&[BUYER], &reply.bytes()?], &reply.number()?),
            [ORDER] => parse_order(reply)?,
            [REPLAY] => {
                let stock = parse_numbers(reply)?;
                Entry::new(&[&[REPLAY]], &(Timestamp(reply.number()?), stock))
            }
            _ => return unknown_letter(letter),
        })
    }

    /// Makes the numbers and the buyers agree with the holds. `reserved` becomes their sum. The
    /// quantities on hand and of a buyer are at least what the holds need.
    fn reconcile(entries: &mut Vec<Entry>) {
        let holds: Vec<Hold> = entries.iter().filter_map(|entry| entry.decode(HOLD)).collect();
        let mut held: HashMap<&[u8], u64> = HashMap::new();
        for hold in holds.iter().filter(|hold| !hold.buyer.is_empty()) {
            *held.entry(&hold.buyer).or_default() += hold.quantity;
        }
        let reserved = holds.iter().map(|hold| hold.quantity).sum();
        for entry in entries.iter_mut() {
            if let Some(count) = entry.decode::<u64>(BUYER)
                && let Some(held) = held.remove(&entry.part[1..])
            {
                entry.set(&count.max(held));
            }
            if let Some(stock) = entry.decode::<Stock>(0) {
                entry.set(&Stock { reserved, on_hand: stock.on_hand.max(reserved), ..stock });
            }
        }
        let missing = held.into_iter().map(|(buyer, held)| Entry::new(&[&[BUYER], buyer], &held));
        entries.extend(missing.collect::<Vec<_>>());
    }

    /// Holds are sorted in Redis, so they are read in several pages. The position of a page is the
    /// key of its last hold. Buyers are not sorted, and are one page.
    fn page(&self, export: &Export<Sku>, now: Timestamp) -> Page {
        let Source { letter, name } = &export.source;
        match *letter {
            HOLD => {
                let after = export.after.rsplit(|byte| *byte == SEPARATOR).next();
                let expire = after.and_then(|text| str::from_utf8(text).ok()?.parse().ok());
                let after = (Timestamp(expire.unwrap_or(0)), export.after.clone().into());
                let holds = self.holds.range(after.clone()..).filter(|(key, _)| **key != after);
                let entries = holds.map(|(key, hold)| (key, hold_entry(key.0, &key.1, hold)));
                Page::first(entries, |(_, member)| member.to_vec())
            }
            BUYER => Page::last(
                self.buyers.iter().map(|(buyer, count)| Entry::new(&[&[BUYER], buyer], count)),
            ),
            ORDER => {
                let order = self.orders.entry(name, now);
                Page::last(order.map(|order| Entry::new(&[&[ORDER]], order)))
            }
            REPLAY => {
                let answer = self.replays.entry(name, now);
                Page::last(answer.map(|answer| Entry::new(&[&[REPLAY]], answer)))
            }
            _ => Page::last(self.stock.map(|stock| Entry::new(&[], &stock))),
        }
    }

    /// All kinds of entry have the same eight numbers and three texts. Fields that a kind does not
    /// use are 0 or empty.
    fn import_arguments(_: &[u8], part: &[u8], value: &[u8]) -> Result<Option<Parts>, Unreadable> {
        let (letter, name) = split_part(part);
        let parts = Parts::new(keys(name));
        let numbers = |stock: Stock| [stock.on_hand, stock.reserved, stock.sold];
        Ok(Some(match letter {
            0 => {
                let parts = parts.bytes(&[NUMBERS]).empty(3, b"").numbers([0; 5]);
                parts.numbers(numbers(decode(value)?))
            }
            HOLD => {
                let Hold { quantity, buyer } = decode(value)?;
                let (expire, member) = split_hold(name)?;
                let parts = parts.bytes(&[HOLD]).bytes(order_of(&member)).bytes(b"");
                parts.bytes(&buyer).numbers([quantity, 0, expire.0, 0, 0, 0, 0, 0])
            }
            BUYER => {
                let parts = parts.bytes(&[BUYER]).empty(2, b"").bytes(name);
                parts.numbers([decode(value)?, 0, 0, 0, 0, 0, 0, 0])
            }
            ORDER => {
                let (forget, Order { reservation, limit, .. }) =
                    decode::<(Timestamp, Order)>(value)?;
                let Reservation { state, quantity, grant, expire, buyer } = reservation;
                let parts = parts.bytes(&[ORDER]).bytes(b"").bytes(state.letter());
                let limit = limit.unwrap_or(0);
                let times = [quantity, grant.0, expire.0, limit, forget.0, 0, 0, 0];
                parts.bytes(&buyer).numbers(times)
            }
            REPLAY => {
                let (forget, stock) = decode::<(Timestamp, Stock)>(value)?;
                let parts = parts.bytes(&[REPLAY]).empty(3, b"").numbers([0; 4]);
                parts.numbers([forget.0]).numbers(numbers(stock))
            }
            _ => return unknown_part(part),
        }))
    }

    /// Drops expired orders and answers. Keeps expired holds: the next decision reclaims them.
    fn import(&mut self, part: &[u8], value: &[u8], now: Timestamp) -> Result<(), Unreadable> {
        match split_part(part) {
            (0, _) => self.stock = Some(decode(value)?),
            (HOLD, name) => {
                self.touched.record(&[part]);
                self.holds.insert(split_hold(name)?, decode(value)?);
            }
            (BUYER, buyer) => {
                self.touched.record(&[part]);
                *self.buyers.get_or_default(buyer) = decode(value)?;
            }
            (ORDER, order) => {
                let (forget, record) = decode::<(Timestamp, Order)>(value)?;
                if forget > now {
                    self.orders.insert(order, record, forget, now);
                }
            }
            (_, request) => {
                let (forget, stock) = decode::<(Timestamp, Stock)>(value)?;
                if forget > now {
                    self.replays.insert(request, stock, forget, now);
                }
            }
        }
        Ok(())
    }
}

/// Returns the keys of both scripts. `name` names the order or the request.
fn keys(name: &[u8]) -> [Vec<u8>; 5] {
    let named = |part: &[u8]| [part, name].concat();
    [b"stock".into(), b"holds".into(), b"buyers".into(), named(b"order:"), named(b"replay:")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_read_at_different_instants_are_reconciled() {
        let hold = |order: &str, buyer: &[u8]| {
            let member = [order.as_bytes(), b"\x1f2\x1f", buyer, b"\x1f9"].concat();
            hold_entry(Timestamp(9), &member, &Hold { quantity: 2, buyer: buyer.into() })
        };
        let buyer = |name: &[u8], count: u64| Entry::new(&[&[BUYER], name], &count);
        let stock = |on_hand, reserved| Entry::new(&[], &Stock { on_hand, reserved, sold: 1 });
        let holds = [hold("ann", b"ann"), hold("b", b"ann"), hold("c", b"bob"), hold("d", b"")];
        let read = [buyer(b"ann", 3), buyer(b"eve", 1), stock(7, 3)];
        let mut entries = [&holds[..], &read].concat();
        Sku::reconcile(&mut entries);
        let agree = [buyer(b"ann", 4), buyer(b"eve", 1), stock(8, 8), buyer(b"bob", 2)];
        assert_eq!(entries, [&holds[..], &agree].concat());
    }
}
