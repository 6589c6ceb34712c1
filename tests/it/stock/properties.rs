//! Compares any history of a SKU with a simple model. The model keeps no count of reserved items,
//! but adds up the running holds.

use bytes::Bytes;
use proptest::prelude::*;
use tollgate_core::{
    Decision,
    names::Name,
    stock::{
        AddStock, Buyer, CancelOutcome, CancelReservation, ConfirmOutcome, ConfirmReservation,
        GetStock, ReserveOutcome, ReserveStock, Restocked, SetStock, Sku, Stock, StockOutcome,
    },
    time::{Millis, Timestamp},
};

use crate::support::world::START;

#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    Set(u64),
    Add(i64),
    Reserve { order: usize, quantity: u64, hold: u64, buyer: Option<(usize, Option<u64>)> },
    Confirm(usize),
    Cancel(usize),
}

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
    buyer: Option<(usize, Option<u64>)>,
}

/// The model. It forgets no order. Times are in steps of 100 ms.
#[derive(Debug, Default)]
struct Model {
    now: u64,
    on_hand: u64,
    sold: u64,
    orders: [Option<Order>; 8],
    bought: [u64; 3],
}

impl Model {
    fn runs(&self, order: &Order) -> bool {
        order.fate == Fate::Held && order.ends > self.now
    }

    fn held(&self, of: impl Fn(&Order) -> bool) -> u64 {
        let held = self.orders.iter().flatten().filter(|order| self.runs(order) && of(order));
        held.map(|order| order.quantity).sum()
    }

    fn holds(&self) -> u64 {
        self.orders.iter().flatten().filter(|order| self.runs(order)).count() as u64
    }

    fn available(&self) -> u64 {
        self.on_hand - self.held(|_| true)
    }

    /// Whether the buyer may have `quantity` more items.
    fn within(&self, quantity: u64, buyer: Option<(usize, Option<u64>)>) -> bool {
        let Some((buyer, Some(limit))) = buyer else { return true };
        let holds = self.held(|order| order.buyer.is_some_and(|(other, _)| other == buyer));
        self.bought[buyer] + holds + quantity <= limit
    }

    fn restock(&mut self, on_hand: i64) -> Restocked {
        match u64::try_from(on_hand) {
            Ok(on_hand) if on_hand >= self.held(|_| true) => {
                self.on_hand = on_hand;
                Restocked::Changed { replayed: false }
            }
            _ => Restocked::BelowReserved,
        }
    }

    fn sell(&mut self, order: usize) {
        let Some(sold) = self.orders[order].as_mut() else { return };
        sold.fate = Fate::Sold;
        self.on_hand -= sold.quantity;
        self.sold += sold.quantity;
        if let Some((buyer, _)) = sold.buyer {
            self.bought[buyer] += sold.quantity;
        }
    }

    fn confirm(&mut self, order: usize) -> ConfirmOutcome {
        let Some(known) = self.orders[order].clone() else { return ConfirmOutcome::Unknown };
        match known.fate {
            Fate::Sold => ConfirmOutcome::AlreadyConfirmed,
            Fate::Cancelled => ConfirmOutcome::Cancelled,
            Fate::Held if self.runs(&known) => {
                self.sell(order);
                ConfirmOutcome::Confirmed { retaken: false }
            }
            Fate::Held
                if self.available() >= known.quantity
                    && self.within(known.quantity, known.buyer) =>
            {
                self.sell(order);
                ConfirmOutcome::Confirmed { retaken: true }
            }
            Fate::Held => ConfirmOutcome::Expired,
        }
    }

    fn cancel(&mut self, order: usize) -> CancelOutcome {
        let Some(known) = self.orders[order].clone() else { return CancelOutcome::Unknown };
        match known.fate {
            Fate::Sold => CancelOutcome::AlreadyConfirmed,
            Fate::Cancelled => CancelOutcome::AlreadyCancelled,
            Fate::Held if !self.runs(&known) => CancelOutcome::Expired,
            Fate::Held => {
                self.orders[order] = Some(Order { fate: Fate::Cancelled, ..known });
                CancelOutcome::Cancelled
            }
        }
    }

    /// Returns the outcome of a reservation, as a word.
    fn reserve(&mut self, order: usize, new: Order) -> &'static str {
        match &self.orders[order] {
            Some(known) if self.runs(known) && known.quantity == new.quantity => {
                return "replayed";
            }
            Some(known) if self.runs(known) => return "differs",
            Some(known) if known.fate != Fate::Held => return "settled",
            _ => {}
        }
        if !self.within(new.quantity, new.buyer) {
            return "limit";
        } else if self.available() < new.quantity {
            return "short";
        }
        self.orders[order] = Some(new);
        "reserved"
    }
}

fn name(text: String) -> Name {
    Name::parse(Bytes::from(text)).unwrap()
}

fn step() -> impl Strategy<Value = Step> {
    let buyer = prop::option::of((0..3usize, prop::option::weighted(0.8, 1..15u64)));
    let reserve = (0..8usize, 1..6u64, 1..50u64, buyer)
        .prop_map(|(order, quantity, hold, buyer)| Step::Reserve { order, quantity, hold, buyer });
    prop_oneof![
        4 => (0..30u64).prop_map(Step::Pass),
        1 => (0..20u64).prop_map(Step::Set),
        1 => (-8..8i64).prop_map(Step::Add),
        6 => reserve,
        3 => (0..8usize).prop_map(Step::Confirm),
        2 => (0..8usize).prop_map(Step::Cancel),
    ]
}

/// Returns the outcome of a decision. With a few holds it is never `Again`.
fn decided<D, T>(decision: &D, sku: &mut Sku, now: u64) -> (T, Stock)
where
    D: Decision<State = Sku, Outcome = StockOutcome<T>>,
    T: std::fmt::Debug,
{
    match decision.decide(sku, Timestamp(START + now * 100_000)) {
        StockOutcome::Decided { outcome, stock } => (outcome, stock),
        other => panic!("{decision:?}: {other:?}"),
    }
}

fn play(model: &mut Model, sku: &mut Sku, step: &Step) -> Result<(), TestCaseError> {
    let of = || name("tv".to_owned());
    let order_name = |order: usize| name(format!("order {order}"));
    let now = model.now;
    match step.clone() {
        Step::Pass(steps) => model.now += steps,
        Step::Set(on_hand) => {
            let (outcome, _) = decided(&SetStock { sku: of(), on_hand }, sku, now);
            prop_assert_eq!(outcome, model.restock(on_hand as i64));
        }
        Step::Add(delta) => {
            let add = AddStock { sku: of(), delta, request: None };
            let (outcome, _) = decided(&add, sku, now);
            prop_assert_eq!(outcome, model.restock(model.on_hand as i64 + delta));
        }
        Step::Reserve { order, quantity, hold, buyer } => {
            let reserve = ReserveStock {
                sku: of(),
                order: order_name(order),
                quantity,
                hold: Millis(hold * 100),
                buyer: buyer
                    .map(|(buyer, limit)| Buyer { name: name(format!("buyer {buyer}")), limit }),
            };
            let (outcome, _) = decided(&reserve, sku, now);
            let word = match outcome {
                ReserveOutcome::Replayed { .. } => "replayed",
                ReserveOutcome::Reserved { .. } => "reserved",
                ReserveOutcome::AlreadySettled { .. } => "settled",
                ReserveOutcome::QuantityDiffers { .. } => "differs",
                ReserveOutcome::Short { .. } => "short",
                ReserveOutcome::BuyerLimit { .. } => "limit",
            };
            let new = Order { fate: Fate::Held, quantity, ends: now + hold, buyer };
            prop_assert_eq!(word, model.reserve(order, new));
        }
        Step::Confirm(order) => {
            let confirm = ConfirmReservation { sku: of(), order: order_name(order) };
            prop_assert_eq!(decided(&confirm, sku, now).0, model.confirm(order));
        }
        Step::Cancel(order) => {
            let cancel = CancelReservation { sku: of(), order: order_name(order) };
            prop_assert_eq!(decided(&cancel, sku, now).0, model.cancel(order));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_history_agrees_with_the_model(steps in prop::collection::vec(step(), 1..120)) {
        let (mut sku, mut model) = (Sku::default(), Model::default());
        play(&mut model, &mut sku, &Step::Set(10))?;
        for step in &steps {
            play(&mut model, &mut sku, step)?;
            let get = GetStock { sku: name("tv".to_owned()) };
            let (holds, stock) = decided(&get, &mut sku, model.now);
            prop_assert_eq!(holds, model.holds(), "{:?}", step);
            prop_assert_eq!(stock.on_hand, stock.available() + stock.reserved);
            prop_assert_eq!((stock.on_hand, stock.sold), (model.on_hand, model.sold));
            prop_assert_eq!(stock.available(), model.available(), "{:?}", step);
        }
    }
}
