//! A model of stock: all orders add up, and no item is sold twice.

mod ask;

use std::{collections::BTreeMap, sync::Arc};

pub use ask::{Answer, Ask};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use tollgate_core::stock::{
    CancelOutcome, ConfirmOutcome, ReserveOutcome, Restocked, Stock, StockOutcome,
};
use tollgate_engine::Engine;

use crate::capability::{Answering, Capability, Checked, Part, holds};

const REPLAY: u64 = 300_000_000;
const RETENTION: u64 = 86_400_000_000;
/// Number of the newest orders that the model keeps.
const ORDERS: u32 = 120;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Held,
    Sold,
    Cancelled,
}

#[derive(Debug, Clone)]
struct Order {
    fate: Fate,
    quantity: u64,
    ends: u64,
    forget: u64,
    buyer: Option<(u8, Option<u64>)>,
}

#[derive(Debug, Clone)]
pub struct Shelf {
    part: Part,
    on_hand: Option<u64>,
    sold: u64,
    orders: BTreeMap<u32, Order>,
    bought: [u64; 3],
    replays: BTreeMap<u32, ([u64; 3], u64)>,
    /// The number of the last order or request.
    last: u32,
}

fn counts(stock: &Stock) -> [u64; 3] {
    [stock.on_hand, stock.reserved, stock.sold]
}

impl Shelf {
    fn holds(&self, now: u64) -> impl Iterator<Item = &Order> {
        self.orders.values().filter(move |order| order.fate == Fate::Held && order.ends > now)
    }

    fn held(&self, now: u64, of: impl Fn(&Order) -> bool) -> u64 {
        self.holds(now).filter(|order| of(order)).map(|order| order.quantity).sum()
    }

    fn available(&self, now: u64) -> u64 {
        self.on_hand.unwrap_or(0) - self.held(now, |_| true)
    }

    fn within(&self, quantity: u64, buyer: Option<(u8, Option<u64>)>, now: u64) -> bool {
        let Some((buyer, Some(limit))) = buyer else { return true };
        let holds = self.held(now, |order| order.buyer.is_some_and(|(other, _)| other == buyer));
        self.bought[usize::from(buyer)] + holds + quantity <= limit
    }

    fn known(&self, order: u32, now: u64) -> Option<Order> {
        self.orders.get(&order).filter(|order| now < order.forget).cloned()
    }

    fn restocked(&mut self, on_hand: i64, outcome: Restocked, now: u64) -> Checked {
        let reserved = self.held(now, |_| true);
        match u64::try_from(on_hand) {
            Ok(on_hand) if on_hand >= reserved => {
                self.on_hand = Some(on_hand);
                holds(
                    outcome == Restocked::Changed { replayed: false },
                    "stock that covers the reserved quantity is accepted",
                )
            }
            _ => holds(
                outcome == Restocked::BelowReserved,
                "stock below the reserved quantity is refused",
            ),
        }
    }

    fn reserve(&mut self, ask: &Ask, now: u64) -> Result<&'static str, &'static str> {
        let Ask::Reserve { order, quantity, hold, buyer } = *ask else {
            return Err("the answer belongs to the call");
        };
        match self.known(order, now) {
            Some(known) if known.fate != Fate::Held => return Ok("settled"),
            Some(known) if known.ends > now && known.quantity == quantity => {
                return Ok("replayed");
            }
            Some(known) if known.ends > now => return Ok("differs"),
            _ => {}
        }
        if !self.within(quantity, buyer, now) {
            return Ok("limit");
        } else if self.available(now) < quantity {
            return Ok("short");
        }
        let ends = now + hold * 1000;
        let (fate, forget) = (Fate::Held, ends + RETENTION);
        self.orders.insert(order, Order { fate, quantity, ends, forget, buyer });
        let oldest = order.saturating_sub(ORDERS);
        self.orders.retain(|name, order| *name >= oldest || order.ends > now);
        Ok("reserved")
    }

    fn settle(&mut self, order: u32, fate: Fate, now: u64) {
        let Some(settled) = self.orders.get_mut(&order) else { return };
        (settled.fate, settled.forget) = (fate, now + RETENTION);
        if fate == Fate::Sold {
            self.on_hand = self.on_hand.map(|on_hand| on_hand - settled.quantity);
            self.sold += settled.quantity;
            if let Some((buyer, _)) = settled.buyer {
                self.bought[usize::from(buyer)] += settled.quantity;
            }
        }
    }

    fn confirm(&mut self, order: u32, now: u64) -> ConfirmOutcome {
        let Some(known) = self.known(order, now) else { return ConfirmOutcome::Unknown };
        let retaken = known.ends <= now;
        match known.fate {
            Fate::Sold => return ConfirmOutcome::AlreadyConfirmed,
            Fate::Cancelled => return ConfirmOutcome::Cancelled,
            Fate::Held if !retaken => {}
            Fate::Held
                if self.available(now) >= known.quantity
                    && self.within(known.quantity, known.buyer, now) => {}
            Fate::Held => return ConfirmOutcome::Expired,
        }
        self.settle(order, Fate::Sold, now);
        ConfirmOutcome::Confirmed { retaken }
    }

    fn cancel(&mut self, order: u32, now: u64) -> CancelOutcome {
        let Some(known) = self.known(order, now) else { return CancelOutcome::Unknown };
        match known.fate {
            Fate::Sold => CancelOutcome::AlreadyConfirmed,
            Fate::Cancelled => CancelOutcome::AlreadyCancelled,
            Fate::Held if known.ends <= now => CancelOutcome::Expired,
            Fate::Held => {
                self.settle(order, Fate::Cancelled, now);
                CancelOutcome::Cancelled
            }
        }
    }

    fn add(
        &mut self,
        (delta, request): (i64, u32),
        answer: (Restocked, [u64; 3]),
        now: u64,
    ) -> Checked {
        let (outcome, stock) = answer;
        if let Some((before, _)) = self.replays.get(&request).filter(|(_, until)| now < *until) {
            let is_same = outcome == Restocked::Changed { replayed: true } && stock == *before;
            return holds(is_same, "a repeat gets the same answer");
        }
        let on_hand = self.on_hand.unwrap_or(0) as i64 + delta;
        self.restocked(on_hand, outcome, now)?;
        if outcome == (Restocked::Changed { replayed: false }) {
            self.replays.insert(request, (stock, now + REPLAY));
        }
        if self.replays.len() > 60 {
            self.replays.pop_first();
        }
        self.adds_up(&stock, now)
    }

    fn adds_up(&self, stock: &[u64; 3], now: u64) -> Checked {
        let reserved = self.held(now, |_| true);
        holds(stock[1] <= stock[0], "available is never negative")?;
        holds(*stock == [self.on_hand.unwrap_or(0), reserved, self.sold], "every order counts once")
    }

    fn checked(&mut self, ask: &Ask, answer: &Answer, now: u64) -> Checked {
        match (ask, answer) {
            (Ask::Set(on_hand), Answer::Stocked(StockOutcome::Decided { outcome, stock })) => {
                self.restocked(*on_hand as i64, *outcome, now)?;
                self.adds_up(&counts(stock), now)
            }
            (
                Ask::Add { delta, request },
                Answer::Stocked(StockOutcome::Decided { outcome, stock }),
            ) => self.add((*delta, *request), (*outcome, counts(stock)), now),
            (Ask::Reserve { .. }, Answer::Reserved(StockOutcome::Decided { outcome, stock })) => {
                let word = match outcome {
                    ReserveOutcome::Replayed { .. } => "replayed",
                    ReserveOutcome::Reserved { .. } => "reserved",
                    ReserveOutcome::AlreadySettled { .. } => "settled",
                    ReserveOutcome::QuantityDiffers { .. } => "differs",
                    ReserveOutcome::Short { .. } => "short",
                    ReserveOutcome::BuyerLimit { .. } => "limit",
                };
                holds(self.reserve(ask, now)? == word, "the outcome of the reservation")?;
                self.adds_up(&counts(stock), now)
            }
            (Ask::Confirm(order), Answer::Confirmed(StockOutcome::Decided { outcome, stock })) => {
                holds(self.confirm(*order, now) == *outcome, "a hold settles once")?;
                self.adds_up(&counts(stock), now)
            }
            (Ask::Cancel(order), Answer::Cancelled(StockOutcome::Decided { outcome, stock })) => {
                holds(self.cancel(*order, now) == *outcome, "a hold settles once")?;
                self.adds_up(&counts(stock), now)
            }
            (_, Answer::View(StockOutcome::Decided { outcome, stock })) => {
                holds(*outcome == self.holds(now).count() as u64, "every hold counts once")?;
                self.adds_up(&counts(stock), now)
            }
            // No stock was ever set.
            _ => holds(self.on_hand.is_none(), "a decision fails only before stock is set"),
        }
    }
}

impl Capability for Shelf {
    type Ask = Ask;
    type Answer = Answer;

    fn new(part: Part) -> Shelf {
        let (orders, replays) = (BTreeMap::new(), BTreeMap::new());
        Shelf { part, on_hand: None, sold: 0, orders, bought: [0; 3], replays, last: 0 }
    }

    fn part(&self) -> Part {
        self.part
    }

    fn ask(&mut self, random: &mut ChaCha8Rng, _: u64) -> Ask {
        self.last += 1;
        let recent = self.last.saturating_sub(random.random_range(0..20));
        let buyer = random.random_bool(0.5).then(|| {
            let buyer = random.random_range(0..3u8);
            let limit = self.bought[usize::from(buyer)] + random.random_range(1..8);
            (buyer, Some(limit).filter(|limit| limit % 5 > 0))
        });
        let hold = [1, 300, 2000, 60_000][random.random_range(0..4)];
        match random.random_range(0..20) {
            _ if self.on_hand.is_none() => Ask::Set(20),
            0 => Ask::Set(random.random_range(0..40)),
            1..3 => Ask::Add { delta: random.random_range(-6..16), request: self.last },
            3..11 => {
                let quantity = random.random_range(1..6);
                Ask::Reserve { order: self.last, quantity, hold, buyer }
            }
            11..16 => Ask::Confirm(recent),
            16..19 => Ask::Cancel(recent),
            _ => Ask::Get,
        }
    }

    fn reads(&self) -> Vec<Ask> {
        vec![Ask::Get]
    }

    fn run(part: Part, ask: Ask, engine: Arc<Engine>) -> Answering<Answer> {
        Box::pin(async move { ask::run(part, ask, &engine).await })
    }

    fn check(&mut self, ask: &Ask, answer: &Answer, now: u64) -> Checked {
        self.checked(ask, answer, now)
    }

    fn is_change(answer: &Answer) -> bool {
        let confirmed = |outcome: &_| matches!(outcome, ConfirmOutcome::Confirmed { .. });
        matches!(answer, Answer::Confirmed(StockOutcome::Decided { outcome, .. }) if confirmed(outcome))
    }
}
