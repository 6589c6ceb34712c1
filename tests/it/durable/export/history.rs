//! Random decisions of every capability, taken on several engines at the same stepped time.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tollgate::{
    admission::{
        AdmitTask, CancelTask, CompleteTask, ConfigurePool, EnqueueTask, EvictTask, GetPool,
        ListLeases, ListTasks, Outcome, Overrides, RenewTask, Settings, SweepPool, TaskName,
    },
    decision::{
        Decision,
        names::Name,
        time::{Clock, Millis, Timestamp, monotonic},
    },
    engine::embedded::Sharded,
    lock::{AcquireLock, GetLock, ReleaseLock, RenewLock},
    rate::{BanKey, CheckRate, GetBan, MeterName, Rule, UnbanKey},
    sequence::{GetSequence, Layout, NextSequence, Sequence},
    stock::{
        AddStock, Buyer, CancelReservation, ConfirmReservation, GetStock, ReserveStock, SetStock,
    },
};

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
}

pub fn name(text: &str) -> Name {
    Name::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

/// Takes a decision on each engine. All outcomes must be equal.
pub async fn agree<D: Decision<State: Sharded>>(sides: &[&Side], decision: &D, context: &str) {
    let deadline = || monotonic() + Duration::from_secs(30);
    let (first, rest) = sides.split_first().unwrap();
    let expected = first.engine.store(decision, deadline()).await;
    assert!(expected.is_ok(), "{context}: {decision:?}: {expected:?}");
    for (index, side) in rest.iter().enumerate() {
        let outcome = side.engine.store(decision, deadline()).await;
        assert_eq!(outcome, expected, "{context}, engine {}: {decision:?}", index + 1);
    }
}

impl History {
    pub fn new(seed: u64) -> History {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let rules = (0..6).map(|_| Arc::new(rule(&mut random, true))).collect();
        let now = Clock::system().now().0 + AHEAD;
        History { random, rules, now, orders: 0 }
    }

    /// Takes `steps` random decisions on all engines.
    pub async fn play(&mut self, sides: &[&Side], steps: usize, seed: u64) {
        for step in 0..steps {
            let context = format!("seed {seed}, {} engines, step {step}", sides.len());
            self.now += match self.random.random_range(0..100) {
                0..60 => 0,
                60..95 => self.random.random_range(0..200) * 1000,
                _ => self.random.random_range(0..2000) * 1000,
            };
            for side in sides {
                side.set(self.now).await;
            }
            match self.random.random_range(0..100) {
                0..45 => self.admission(sides, &context).await,
                45..65 => self.rate(sides, &context).await,
                65..75 => self.sequence(sides, &context).await,
                75..82 => self.lock(sides, &context).await,
                _ => self.stock(sides, &context).await,
            }
        }
    }

    async fn admission(&mut self, sides: &[&Side], context: &str) {
        let pool = self.one(&["one", "two}%", "café"]);
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
                agree(sides, &admit, context).await;
            }
            14..18 => {
                let outcome = if some { Outcome::Succeeded } else { Outcome::Failed };
                let complete =
                    CompleteTask { name: of, token: None, outcome, result: text, settings };
                agree(sides, &complete, context).await;
            }
            18..21 => {
                let lease_duration = some.then_some(length);
                let renew = RenewTask { name: of, token: None, lease_duration, settings };
                agree(sides, &renew, context).await;
            }
            21..29 => {
                let ends = some.then(|| Timestamp(self.now + length.micros()));
                let enqueue = EnqueueTask { name: of, payload: text, ends, settings };
                agree(sides, &enqueue, context).await;
            }
            29 => agree(sides, &CancelTask { name: of, settings }, context).await,
            30 => {
                let reason = Bytes::from_static(b"a reason");
                agree(sides, &EvictTask { name: of, reason, settings }, context).await;
            }
            31 | 32 => agree(sides, &SweepPool { pool, settings }, context).await,
            33 => {
                let overrides = Overrides {
                    capacity: some.then(|| self.random.random_range(1..7)),
                    lease_duration: (!some).then_some(length),
                    ..Overrides::default()
                };
                let reset = self.random.random_bool(0.3);
                agree(sides, &ConfigurePool { pool, overrides, reset, settings }, context).await;
            }
            34 | 35 => agree(sides, &GetPool { pool, settings }, context).await,
            36 | 37 => {
                agree(sides, &ListLeases { pool, limit: 100, after: None }, context).await;
            }
            _ => {
                let list = ListTasks { pool, left: some, limit: 100, after: None };
                agree(sides, &list, context).await;
            }
        }
    }

    async fn rate(&mut self, sides: &[&Side], context: &str) {
        let policy = self.random.random_bool(0.7).then(|| self.one(&["p", "q}"]));
        let of = MeterName::new(policy.as_ref(), &self.one(&["a", "b_c", "{x}", "%"]));
        match self.random.random_range(0..20) {
            0..15 => {
                let rule = self.rules.choose(&mut self.random).unwrap().clone();
                let request = self.random.random_bool(0.3).then(|| self.one(&["r1", "r2"]));
                let cost = *[0, 1, 1, 2].choose(&mut self.random).unwrap();
                agree(sides, &CheckRate { name: of, rule, cost, request }, context).await;
            }
            15 | 16 => {
                let (duration, memory) = (Millis(self.random.random_range(1..40_000)), Millis(500));
                let (reason, actor) = ("grób".into(), b"ops".to_vec());
                agree(sides, &BanKey { name: of, duration, memory, reason, actor }, context).await;
            }
            17 => agree(sides, &UnbanKey { name: of, actor: Vec::new() }, context).await,
            _ => agree(sides, &GetBan { name: of }, context).await,
        }
    }

    async fn sequence(&mut self, sides: &[&Side], context: &str) {
        let layout = self.random.random_bool(0.5).then(|| {
            let pattern = "ORD-{yyyyMMdd}-{n:06}";
            Arc::new(Layout::parse(pattern, 60, Millis::from_secs(86_400)).unwrap())
        });
        let sequence = Sequence::new(&self.one(&["order", "ä}"]), layout);
        if self.random.random_bool(0.2) {
            return agree(sides, &GetSequence { sequence }, context).await;
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
        agree(sides, &next, context).await;
    }

    async fn lock(&mut self, sides: &[&Side], context: &str) {
        let (of, owner) = (self.one(&["one", "two{}"]), self.one(&["x", "y z"]));
        let length = Millis(self.random.random_range(1..100) * 100);
        match self.random.random_range(0..10) {
            0..5 => {
                let (lease_duration, waiting) = (length, None);
                let acquire = AcquireLock { name: of, owner, lease_duration, waiting };
                agree(sides, &acquire, context).await;
            }
            5 | 6 => {
                let lease_duration = self.random.random_bool(0.5).then_some(length);
                let renew = RenewLock { name: of, owner, token: None, lease_duration };
                agree(sides, &renew, context).await;
            }
            7 | 8 => agree(sides, &ReleaseLock { name: of, owner, token: None }, context).await,
            _ => agree(sides, &GetLock { name: of }, context).await,
        }
    }

    async fn stock(&mut self, sides: &[&Side], context: &str) {
        let sku = self.one(&["tv", "a}b"]);
        // A settled order is remembered for a day, so new orders are needed.
        self.orders += u64::from(self.random.random_bool(0.3));
        let order = name(&format!("o% {}", self.orders + self.random.random_range(0..6)));
        match self.random.random_range(0..20) {
            0 => {
                let on_hand = self.random.random_range(60..90);
                agree(sides, &SetStock { sku, on_hand }, context).await;
            }
            1..5 => {
                let delta = self.random.random_range(-2..9);
                let request = self.random.random_bool(0.7).then(|| self.one(&["r", "s"]));
                agree(sides, &AddStock { sku, delta, request }, context).await;
            }
            5..13 => {
                let buyer = self.random.random_bool(0.6).then(|| {
                    let limit = self.random.random_bool(0.5).then_some(9);
                    Buyer { name: self.one(&["ann", "bob"]), limit }
                });
                let quantity = self.random.random_range(1..4);
                let hold = Millis(self.random.random_range(1..900) * 100);
                agree(sides, &ReserveStock { sku, order, quantity, hold, buyer }, context).await;
            }
            13..16 => agree(sides, &ConfirmReservation { sku, order }, context).await,
            16 | 17 => agree(sides, &CancelReservation { sku, order }, context).await,
            _ => agree(sides, &GetStock { sku }, context).await,
        }
    }

    fn one(&mut self, names: &[&str]) -> Name {
        name(names.choose(&mut self.random).unwrap())
    }
}
