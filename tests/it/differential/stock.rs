//! Both executors of every stock decision on the same random histories with stepped time. All
//! outcomes and the remaining state must be equal.
//!
//! Lengths and steps are multiples of 100 ms, so that calls often fall on the exact instant at
//! which a hold ends. With an even seed the clock is also set back; with an odd seed many holds
//! lapse together.

use std::collections::BTreeMap;

use bytes::Bytes;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tollgate_core::{
    Decision,
    names::Name,
    record::Source,
    stock::{
        AddStock, Buyer, CancelReservation, ConfirmReservation, GetStock, QUANTITY_MAX,
        RESERVE_MAX, ReserveOutcome, ReserveStock, SetStock, Sku, StockOutcome,
    },
    time::{Millis, Timestamp},
};

use crate::support::{
    reread::EVERY,
    twins::{States, Twins, play},
};

const STEPS: usize = 9_000;
const SEEDS: [u64; 4] = [1, 2, 3, 4];
const SKUS: [&str; 4] = ["one", "two", "three{}", "sand"];
const BUYERS: [&str; 3] = ["x", "y z", "b}"];
const CROWD: usize = 3300;
/// The reservations of a crowd that one batch makes.
const TOGETHER: usize = 100;

struct History {
    twins: Twins,
    skus: States<Sku>,
    random: ChaCha8Rng,
    /// Times at which holds end.
    ends: Vec<Timestamp>,
    outcomes: BTreeMap<String, usize>,
}

#[tokio::test]
async fn both_executors_of_every_stock_decision_agree() {
    play(&SEEDS, history).await;
}

async fn history(seed: u64) {
    let random = ChaCha8Rng::seed_from_u64(seed);
    let (skus, ends, outcomes) = (States::new(), Vec::new(), BTreeMap::new());
    let mut history = History { twins: Twins::new().await, skus, random, ends, outcomes };
    for step in 0..STEPS {
        let context = format!("seed {seed}, step {step}");
        history.pass_time(seed.is_multiple_of(2)).await;
        history.decide(&context).await;
        if step % 1000 == 999 {
            history.compare_state(&context).await;
        }
        if step % 300 == 0 {
            history.copy(step, &context).await;
        }
        if !seed.is_multiple_of(2) && step % 3000 == 2999 {
            history.crowd(&context).await;
        }
    }
    let met = |outcome: &str| history.outcomes.get(outcome).copied().unwrap_or_default();
    for (outcome, least) in [
        ("Changed", 200),
        ("BelowReserved", 30),
        ("OutOfRange", 30),
        ("Reserved", 1000),
        ("Short", 100),
        ("BuyerLimit", 50),
        ("AlreadySettled", 100),
        ("QuantityDiffers", 100),
        ("Confirmed", 300),
        ("AlreadyConfirmed", 30),
        ("Expired", 30),
        ("Cancelled", 40),
        ("AlreadyCancelled", 5),
        ("Unknown", 20),
        ("NotFound", 1),
        ("holds", 100),
        ("copied", 100),
    ] {
        assert!(met(outcome) >= least, "seed {seed}: {outcome} of {:?}", history.outcomes);
    }
    assert!(seed.is_multiple_of(2) || met("Again") >= 4, "{:?}", history.outcomes);
}

impl History {
    async fn pass_time(&mut self, set_back: bool) {
        let steps = match self.random.random_range(0..1000) {
            0..600 => return,
            600..800 => 1,
            800..950 => self.random.random_range(1..30),
            950..980 => return self.pass_to_an_end().await,
            980..990 if set_back => {
                let back = self.random.random_range(1..30) * 100_000;
                return self.twins.time.set_back(back).await;
            }
            // Beyond the time at which orders are forgotten.
            993..1000 => 864_000,
            _ => self.random.random_range(1..3_000),
        };
        self.twins.time.advance(steps * 100_000).await;
    }

    /// Steps to the exact instant at which a hold ends.
    async fn pass_to_an_end(&mut self) {
        let now = self.twins.time.now();
        self.ends.retain(|end| end.0 > now);
        if let Some(end) = self.ends.choose(&mut self.random) {
            self.twins.time.advance(end.0 - now).await;
        }
    }

    async fn decide(&mut self, context: &str) {
        let sku = self.name(&SKUS);
        let order = self.name(&["a", "b", "c", "d", "e", "f", "g", "h}", "i j", "k%"]);
        match self.random.random_range(0..100) {
            0..8 => self.reserve_several(sku, context).await,
            8..40 => {
                let reserve = self.reserve(sku, order);
                let ruling = self.agree(&reserve, context).await;
                if let StockOutcome::Decided {
                    outcome: ReserveOutcome::Reserved { expire, .. },
                    ..
                } = ruling
                {
                    self.ends.push(expire);
                }
            }
            40..62 => {
                self.agree(&ConfirmReservation { sku, order }, context).await;
            }
            62..75 => {
                self.agree(&CancelReservation { sku, order }, context).await;
            }
            75..82 => {
                self.agree(&GetStock { sku }, context).await;
            }
            82..88 => {
                let on_hand = self.quantity(&sku, 40);
                self.agree(&SetStock { sku, on_hand }, context).await;
            }
            _ => {
                let delta = self.quantity(&sku, 20) as i64;
                let delta = if self.random.random_bool(0.4) { -delta } else { delta };
                let request = self.random.random_bool(0.4).then(|| self.name(&["r", "s", "t"]));
                self.agree(&AddStock { sku, delta, request }, context).await;
            }
        }
    }

    /// Reserves for several orders of a SKU in one call, some of them twice.
    async fn reserve_several(&mut self, sku: Name, context: &str) {
        let number = self.random.random_range(2..8);
        let mut reserves = Vec::new();
        for _ in 0..number {
            let order = format!("several {}", self.random.random_range(0..40));
            reserves.push(self.reserve(sku.clone(), parse(order)));
        }
        for outcome in self.twins.agree_all(&mut self.skus, &reserves, context).await {
            self.record(&outcome, context);
        }
    }

    fn reserve(&mut self, sku: Name, order: Name) -> ReserveStock {
        let quantity = match self.random.random_range(0..10) {
            0..9 => self.random.random_range(1..6),
            _ => self.random.random_range(1..=RESERVE_MAX),
        };
        let hold = Millis(100 * self.random.random_range(1..60));
        let buyer = self.random.random_bool(0.5).then(|| Buyer {
            name: self.name(&BUYERS),
            limit: self.random.random_bool(0.7).then(|| match self.random.random_range(0..10) {
                0..6 => self.random.random_range(1..12),
                6..9 => self.random.random_range(1..400),
                _ => QUANTITY_MAX - self.random.random_range(0..3),
            }),
        });
        ReserveStock { sku, order, quantity, hold, buyer }
    }

    /// Returns a small quantity, or, for the SKU `sand`, sometimes one near the maximum.
    fn quantity(&mut self, sku: &Name, small: u64) -> u64 {
        match self.random.random_range(0..4) {
            0 if sku.as_str() == "sand" => QUANTITY_MAX - self.random.random_range(0..9),
            1 if sku.as_str() == "sand" => self.random.random_range(0..=QUANTITY_MAX),
            _ => self.random.random_range(0..small),
        }
    }

    /// Many holds end together, and one step reclaims only a part of them.
    async fn crowd(&mut self, context: &str) {
        let sku = self.name(&SKUS[..3]);
        let plenty = AddStock { sku: sku.clone(), delta: CROWD as i64, request: None };
        self.agree(&plenty, context).await;
        let names: Vec<Name> = (0..CROWD).map(|i| parse(format!("crowd {i}"))).collect();
        let mut crowd = Vec::new();
        for order in &names {
            let mut reserve = self.reserve(sku.clone(), order.clone());
            reserve.quantity = 1;
            reserve.hold = Millis(6000);
            // Most have different buyers: more of them than one HMGET reads.
            let own = self.random.random_bool(0.8);
            let buyer = if own { order.clone() } else { self.name(&BUYERS) };
            reserve.buyer = Some(Buyer { name: buyer, limit: Some(QUANTITY_MAX) });
            crowd.push(reserve);
        }
        // Reading a crowd back takes long, so it is read less often while it grows.
        self.twins.read_back_every(20 * EVERY);
        for part in crowd.chunks(TOGETHER) {
            for outcome in self.twins.agree_all(&mut self.skus, part, context).await {
                self.record(&outcome, context);
            }
        }
        self.twins.read_back_every(EVERY);
        self.twins.time.advance(6_000_000).await;
        // The first decision meets more ended holds than one step reclaims.
        let first = self.agree(&GetStock { sku: sku.clone() }, context).await;
        assert_eq!(first, StockOutcome::Again, "{context}");
        for _ in 0..6 {
            let order = names.choose(&mut self.random).unwrap().clone();
            match self.random.random_range(0..5) {
                0 => {
                    self.agree(&ConfirmReservation { sku: sku.clone(), order }, context).await;
                }
                1 => {
                    self.agree(&CancelReservation { sku: sku.clone(), order }, context).await;
                }
                2 => {
                    self.agree(&SetStock { sku: sku.clone(), on_hand: 0 }, context).await;
                }
                3 => {
                    self.agree(&GetStock { sku: sku.clone() }, context).await;
                }
                _ => {
                    let mut reserve = self.reserve(sku.clone(), order);
                    reserve.quantity = 2_000;
                    self.agree(&reserve, context).await;
                }
            }
        }
        self.compare_state(context).await;
    }

    /// Copies a sku by export and import.
    async fn copy(&mut self, step: usize, context: &str) {
        let orders = ["a", "b", "c", "d", "e", "f", "g", "h}", "i j", "k%"]
            .map(|order| Source::new(b'o', order.as_bytes()));
        let replays = [b"r", b"s", b"t"].map(|request| Source::new(b'r', request));
        let whole = [b's', b'h', b'b'].map(|letter| Source::new(letter, b""));
        let sources: Vec<Source> = whole.into_iter().chain(orders).chain(replays).collect();
        let to = format!("copy {step}");
        let names = [self.name(&SKUS), parse(to)];
        let names = names.each_ref().map(Name::as_bytes);
        let copied = self.twins.copy(&mut self.skus, names, &sources, context).await;
        *self.outcomes.entry("copied".to_owned()).or_default() += copied;
    }

    async fn agree<D, T>(&mut self, decision: &D, context: &str) -> D::Outcome
    where
        D: Decision<State = Sku, Outcome = StockOutcome<T>>,
        T: std::fmt::Debug,
    {
        let ruling = self.twins.agree(&mut self.skus, decision, context).await;
        self.record(&ruling, context);
        ruling
    }

    /// Counts an outcome, and checks its numbers.
    fn record<T: std::fmt::Debug>(&mut self, ruling: &StockOutcome<T>, context: &str) {
        let named = match ruling {
            StockOutcome::Decided { outcome, stock } => {
                assert!(stock.reserved <= stock.on_hand, "{context}: {stock:?}");
                assert!(stock.on_hand + stock.sold <= QUANTITY_MAX, "{context}: {stock:?}");
                format!("{outcome:?}")
            }
            other => format!("{other:?}"),
        };
        let named = named.split([' ', '{']).next().unwrap_or_default().to_owned();
        // The outcome of GetStock is a number.
        let named = if named.parse::<u64>().is_ok() { "holds".to_owned() } else { named };
        *self.outcomes.entry(named).or_default() += 1;
    }

    /// Compares the numbers of every SKU and buyer. In Redis the reserved quantity must equal the
    /// sum of the holds, and exactly the orders and the replay cache must have a TTL.
    async fn compare_state(&mut self, context: &str) {
        for name in SKUS {
            let sku = parse(name.to_owned());
            let get = GetStock { sku: sku.clone() };
            let counted = loop {
                match self.agree(&get, context).await {
                    StockOutcome::Again => {}
                    StockOutcome::NotFound => break 0,
                    StockOutcome::Decided { outcome, .. } => break outcome,
                }
            };
            for buyer in BUYERS {
                // This reservation is always refused, and its outcome has the buyer's quantity.
                let buyer = Some(Buyer { name: parse(buyer.to_owned()), limit: Some(1) });
                let (quantity, hold) = (RESERVE_MAX, Millis(100));
                let order = parse("probe".to_owned());
                let probe = ReserveStock { sku: sku.clone(), order, quantity, hold, buyer };
                let ruling = self.agree(&probe, context).await;
                let refused = matches!(
                    ruling,
                    StockOutcome::Decided { outcome: ReserveOutcome::BuyerLimit { .. }, .. }
                );
                assert!(refused || ruling == StockOutcome::NotFound, "{context}: {ruling:?}");
            }
            let key = |part: &str| format!("{{}}:{{stock:{}}}:{part}", name.replace('}', "%7D"));
            let reserved = self.redis(&["HGET", &key("stock"), "reserved"]).await;
            let reserved: Option<u64> = redis::from_redis_value(reserved).unwrap();
            let holds = self.redis(&["ZRANGE", &key("holds"), "0", "-1"]).await;
            let holds: Vec<String> = redis::from_redis_value(holds).unwrap();
            let quantity = |hold: &String| hold.split('\x1f').nth(1).unwrap().parse::<u64>();
            let held: u64 = holds.iter().map(|hold| quantity(hold).unwrap()).sum();
            assert_eq!(reserved.unwrap_or(0), held, "{context}: {name}");
            assert_eq!(counted, holds.len() as u64, "{context}: {name}");
        }
        for key in self.twins.time.keys().await {
            let ttl = self.redis(&["PTTL", &format!("{{}}:{key}")]).await;
            let lapses = key.contains("}:order:") || key.contains("}:replay:");
            assert_eq!(!matches!(ttl, redis::Value::Int(-1)), lapses, "{context}: {key} {ttl:?}");
        }
    }

    async fn redis(&self, command: &[&str]) -> redis::Value {
        self.twins.time.tamper(command).await.unwrap()
    }

    fn name(&mut self, names: &[&'static str]) -> Name {
        let name = names.choose(&mut self.random).unwrap();
        Name::parse(Bytes::from_static(name.as_bytes())).unwrap()
    }
}

fn parse(name: String) -> Name {
    Name::parse(Bytes::from(name)).unwrap()
}
