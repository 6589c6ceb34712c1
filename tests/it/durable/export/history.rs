//! Random decisions of every capability, made on several engines at the same stepped time.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::join_all;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tollgate_core::{
    Decision,
    admission::{
        AdmitTask, CancelTask, CompleteTask, ConfigurePool, EnqueueTask, EvictTask, GetPool,
        ListLeases, ListTasks, Outcome, Overrides, RenewTask, RequeueTask, Settings, SweepPool,
        TaskName,
    },
    lock::{AcquireLock, GetLock, ReleaseLock, RenewLock},
    names::{Name, Namespace},
    rate::{BanKey, CheckRate, GetBan, MeterName, Rule, UnbanKey},
    sequence::{GetSequence, Layout, NextSequence, Sequence},
    stock::{
        AddStock, Buyer, CancelReservation, ConfirmReservation, GetStock, ReserveStock, SetStock,
    },
    time::{Clock, Millis, Timestamp, monotonic},
};
use tollgate_engine::embedded::Tabled;

use super::Side;
use crate::differential::rates::rules::rule;

/// Distance of a history's start from the system clock, in µs. The system clock must not overtake
/// the history.
const AHEAD: u64 = 3_600_000_000;

pub struct History {
    random: ChaCha8Rng,
    rules: Vec<Arc<Rule>>,
    pub now: u64,
    orders: u64,
    /// The namespaces of the partitions.
    namespaces: Vec<Namespace>,
    /// The outcomes up to now.
    pub outcomes: Vec<String>,
}

pub fn name(text: &str) -> Name {
    Name::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

/// Makes a decision on each engine. All outcomes must be equal.
pub async fn agree<D: Decision<State: Tabled>>(
    sides: &[&Side],
    decision: &D,
    context: &str,
) -> D::Outcome {
    let deadline = || monotonic() + Duration::from_secs(30);
    let (first, rest) = sides.split_first().unwrap();
    let expected = first.engine.store(decision, deadline()).await;
    assert!(expected.is_ok(), "{context}: {decision:?}: {expected:?}");
    for (index, side) in rest.iter().enumerate() {
        let outcome = side.engine.store(decision, deadline()).await;
        assert_eq!(outcome, expected, "{context}, engine {}: {decision:?}", index + 1);
    }
    expected.unwrap()
}

impl History {
    pub fn new(seed: u64) -> History {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let rules = (0..6).map(|_| Arc::new(rule(&mut random, true))).collect();
        let now = Clock::system().now().0 + AHEAD;
        let (namespaces, outcomes) = (vec![Namespace::DEFAULT], Vec::new());
        History { random, rules, now, orders: 0, namespaces, outcomes }
    }

    /// Returns the same history with partitions in these namespaces.
    pub fn within(self, namespaces: &[Namespace]) -> History {
        History { namespaces: namespaces.to_vec(), ..self }
    }

    /// Makes `steps` random decisions on all engines.
    pub async fn play(&mut self, sides: &[&Side], steps: usize, seed: u64) {
        for step in 0..steps {
            let context = format!("seed {seed}, {} engines, step {step}", sides.len());
            self.now += match self.random.random_range(0..100) {
                0..60 => 0,
                60..95 => self.random.random_range(0..200) * 1000,
                _ => self.random.random_range(0..2000) * 1000,
            };
            join_all(sides.iter().map(|side| side.set(self.now))).await;
            self.step(sides, &context).await;
        }
    }

    /// Makes one random decision on all engines.
    pub async fn step(&mut self, sides: &[&Side], context: &str) {
        match self.random.random_range(0..100) {
            0..45 => self.admission(sides, context).await,
            45..65 => self.rate(sides, context).await,
            65..75 => self.sequence(sides, context).await,
            75..82 => self.lock(sides, context).await,
            _ => self.stock(sides, context).await,
        }
    }

    async fn agree<D: Decision<State: Tabled>>(
        &mut self,
        sides: &[&Side],
        decision: &D,
        context: &str,
    ) {
        let outcome = agree(sides, decision, context).await;
        self.outcomes.push(format!("{outcome:?}"));
    }

    async fn admission(&mut self, sides: &[&Side], context: &str) {
        let pool = self.partition(&["one", "two}%", "café"]);
        let settings = Settings {
            capacity: 5,
            lease_duration: Millis(20_000),
            expiry_grace: Millis(if pool.as_str() == "one" { 0 } else { 5000 }),
            retention: Millis::from_secs(90),
            max_attempts: 2,
            queued_max: 30,
            ..Settings::default()
        };
        let (device, task) = (self.one(&["a", "b", "c}"]), self.one(&["1", "2", "3 ", "4"]));
        let of = TaskName { pool: pool.clone(), device: device.clone(), task: task.clone() };
        let text = Bytes::from(vec![self.random.random(); self.random.random_range(0..5)]);
        let length = Millis(self.random.random_range(1..300) * 100);
        let some = self.random.random_bool(0.5);
        match self.random.random_range(0..40) {
            0..14 => {
                let task = some.then_some(task);
                let lease_duration = self.random.random_bool(0.6).then_some(length);
                let admit =
                    AdmitTask { pool, device, task, lease_duration, settings, waiting: None };
                self.agree(sides, &admit, context).await;
            }
            14..18 => {
                let outcome = if some { Outcome::Succeeded } else { Outcome::Failed };
                let complete =
                    CompleteTask { name: of, token: None, outcome, result: text, settings };
                self.agree(sides, &complete, context).await;
            }
            18..21 => {
                let lease_duration = some.then_some(length);
                let renew = RenewTask { name: of, token: None, lease_duration, settings };
                self.agree(sides, &renew, context).await;
            }
            21..29 => {
                let ends = some.then(|| Timestamp(self.now + length.micros()));
                let enqueue = EnqueueTask { name: of, payload: text, ends, settings };
                self.agree(sides, &enqueue, context).await;
            }
            29 if some => self.agree(sides, &CancelTask { name: of, settings }, context).await,
            29 => self.agree(sides, &RequeueTask { name: of, settings }, context).await,
            30 => {
                let reason = Bytes::from_static(b"a reason");
                self.agree(sides, &EvictTask { name: of, reason, settings }, context).await;
            }
            31 | 32 => self.agree(sides, &SweepPool { pool, settings }, context).await,
            33 => {
                let overrides = Overrides {
                    capacity: some.then(|| self.random.random_range(1..7)),
                    lease_duration: (!some).then_some(length),
                    ..Overrides::default()
                };
                let reset = self.random.random_bool(0.3);
                self.agree(sides, &ConfigurePool { pool, overrides, reset, settings }, context)
                    .await;
            }
            34 | 35 => self.agree(sides, &GetPool { pool, settings }, context).await,
            36 | 37 => {
                self.agree(sides, &ListLeases { pool, limit: 100, after: None }, context).await;
            }
            _ => {
                let list = ListTasks { pool, left: some, limit: 100, after: None };
                self.agree(sides, &list, context).await;
            }
        }
    }

    async fn rate(&mut self, sides: &[&Side], context: &str) {
        let policy = self.random.random_bool(0.7).then(|| self.partition(&["p", "q}"]));
        let key = self.partition(&["a", "b_c", "{x}", "%"]);
        let of = MeterName::new(policy.as_ref(), &key);
        match self.random.random_range(0..20) {
            0..15 => {
                let rule = self.rules.choose(&mut self.random).unwrap().clone();
                let request = self.random.random_bool(0.3).then(|| self.one(&["r1", "r2"]));
                let cost = *[0, 1, 1, 2].choose(&mut self.random).unwrap();
                self.agree(sides, &CheckRate { name: of, rule, cost, request }, context).await;
            }
            15 | 16 => {
                let (duration, memory) = (Millis(self.random.random_range(1..40_000)), Millis(500));
                let (reason, actor) = ("grób".into(), b"ops".to_vec());
                self.agree(sides, &BanKey { name: of, duration, memory, reason, actor }, context)
                    .await;
            }
            17 => self.agree(sides, &UnbanKey { name: of, actor: Vec::new() }, context).await,
            _ => self.agree(sides, &GetBan { name: of }, context).await,
        }
    }

    async fn sequence(&mut self, sides: &[&Side], context: &str) {
        let layout = self.random.random_bool(0.5).then(|| {
            let pattern = "ORD-{yyyyMMdd}-{n:06}";
            Arc::new(Layout::parse(pattern, 60, Millis::from_secs(86_400)).unwrap())
        });
        let sequence = Sequence::new(&self.partition(&["order", "ä}"]), layout);
        if self.random.random_bool(0.2) {
            return self.agree(sides, &GetSequence { sequence }, context).await;
        }
        let next = NextSequence {
            sequence,
            count: self.random.random_range(1..5),
            step: self.random.random_range(1..3),
            floor: None,
            request: self.random.random_bool(0.5).then(|| self.one(&["r1", "r2", "r3"])),
            reserve: None,
            confirmed: None,
        };
        self.agree(sides, &next, context).await;
    }

    async fn lock(&mut self, sides: &[&Side], context: &str) {
        let (of, owner) = (self.partition(&["one", "two{}"]), self.one(&["x", "y z"]));
        let length = Millis(self.random.random_range(1..100) * 100);
        match self.random.random_range(0..10) {
            0..5 => {
                let (lease_duration, waiting) = (length, None);
                let acquire = AcquireLock { name: of, owner, lease_duration, waiting };
                self.agree(sides, &acquire, context).await;
            }
            5 | 6 => {
                let lease_duration = self.random.random_bool(0.5).then_some(length);
                let renew = RenewLock { name: of, owner, token: None, lease_duration };
                self.agree(sides, &renew, context).await;
            }
            7 | 8 => {
                self.agree(sides, &ReleaseLock { name: of, owner, token: None }, context).await
            }
            _ => self.agree(sides, &GetLock { name: of }, context).await,
        }
    }

    async fn stock(&mut self, sides: &[&Side], context: &str) {
        let sku = self.partition(&["tv", "a}b"]);
        // A settled order is remembered for a day, so new orders are needed.
        self.orders += u64::from(self.random.random_bool(0.3));
        let order = name(&format!("o% {}", self.orders + self.random.random_range(0..6)));
        match self.random.random_range(0..20) {
            0 => {
                let on_hand = self.random.random_range(60..90);
                self.agree(sides, &SetStock { sku, on_hand }, context).await;
            }
            1..5 => {
                let delta = self.random.random_range(-2..9);
                let request = self.random.random_bool(0.7).then(|| self.one(&["r", "s"]));
                self.agree(sides, &AddStock { sku, delta, request }, context).await;
            }
            5..13 => {
                let buyer = self.random.random_bool(0.6).then(|| {
                    let limit = self.random.random_bool(0.5).then_some(9);
                    Buyer { name: self.one(&["ann", "bob"]), limit }
                });
                let quantity = self.random.random_range(1..4);
                let hold = Millis(self.random.random_range(1..900) * 100);
                self.agree(sides, &ReserveStock { sku, order, quantity, hold, buyer }, context)
                    .await;
            }
            13..16 => self.agree(sides, &ConfirmReservation { sku, order }, context).await,
            16 | 17 => self.agree(sides, &CancelReservation { sku, order }, context).await,
            _ => self.agree(sides, &GetStock { sku }, context).await,
        }
    }

    fn one(&mut self, names: &[&str]) -> Name {
        name(names.choose(&mut self.random).unwrap())
    }
    /// Returns the name of a partition in one of the namespaces.
    fn partition(&mut self, names: &[&str]) -> Name {
        let local = self.one(names);
        match &self.namespaces[..] {
            [only] => local.within(only),
            several => local.within(several.choose(&mut self.random).unwrap()),
        }
    }
}
