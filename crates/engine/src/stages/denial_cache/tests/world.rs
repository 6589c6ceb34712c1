//! A denial cache and a store on one stepped clock.

use std::{
    slice,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::super::{DenialCache, Recall};
use crate::embedded::{Embedded, Sharded};
use tollgate_core::{
    Decision,
    admission::{
        AdmitTask, CompleteTask, ConfigurePool, EvictTask, Outcome, Overrides, RenewTask, Settings,
        TaskName,
    },
    names::Name,
    rate::{
        Algorithm, BanKey, CheckRate, LimitSpec, MeterName, Rule, RuleSpec, TierAction, TierSpec,
    },
    time::{Clock, Millis},
};

pub(super) struct World {
    pub(super) denials: DenialCache,
    pub(super) store: Embedded,
    now: Arc<AtomicU64>,
}

/// A change that can free a slot, or change the end of its lease.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Complete,
    Evict,
    Renew,
    Configure,
}

impl Change {
    pub(super) fn any(random: &mut ChaCha8Rng) -> Change {
        let all = [Change::Complete, Change::Evict, Change::Renew, Change::Configure];
        all[random.random_range(0..all.len())]
    }
}

impl World {
    pub(super) fn new() -> World {
        let now = Arc::new(AtomicU64::new(1_767_225_600_000_000));
        let clock = Clock::Stepped(now.clone());
        World { denials: DenialCache::new(clock.clone()), store: Embedded::new(clock), now }
    }

    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    pub(super) fn step(&self, micros: u64) {
        self.now.fetch_add(micros, Ordering::SeqCst);
    }

    /// Runs a decision as the engine does, without asking the cache.
    pub(super) fn run<D: Decision<State: Sharded>>(&self, decision: &D) -> D::Outcome {
        let watch = self.denials.watch(slice::from_ref(decision));
        let outcome = self.store.run(decision).unwrap();
        watch.settle([Ok(&outcome)].into_iter());
        outcome
    }

    /// Answers a decision as the engine does. Returns whether the answer came from the cache.
    pub(super) fn asked<D: Decision<State: Sharded>>(&self, decision: &D) -> (D::Outcome, bool) {
        let ticket = match self.denials.recall(decision, 0) {
            Recall::Denied(outcome) => return (outcome, true),
            Recall::Ask(ticket) => ticket,
        };
        let watch = self.denials.watch(slice::from_ref(decision));
        let result = self.store.run(decision);
        watch.settle([result.as_ref()].into_iter());
        self.denials.learn(decision, &result, ticket);
        (result.unwrap(), false)
    }

    /// Occupies the only slot of a pool.
    pub(super) fn fill(&self, pool: &str) {
        self.asked(&admit(pool, "holder"));
    }

    pub(super) fn any_admit(&self, random: &mut ChaCha8Rng, task: &str) -> AdmitTask {
        let lease = [30, 60, 100, 500, 5000][random.random_range(0..5)];
        AdmitTask { lease_duration: Some(Millis(lease)), ..admit("p", task) }
    }

    /// Changes a pool through this server.
    pub(super) fn change(&self, pool: &str, task: &str, change: Change) {
        match change {
            Change::Complete => drop(self.run(&complete(pool, task))),
            Change::Evict => drop(self.run(&evict(pool, task))),
            Change::Renew => drop(self.run(&renew(pool, task))),
            Change::Configure => drop(self.run(&configure(pool, self.now()))),
        }
    }

    /// Changes a pool through another server.
    pub(super) fn change_behind(&self, pool: &str, task: &str, change: Change) {
        match change {
            Change::Complete => drop(self.store.run(&complete(pool, task))),
            Change::Evict => drop(self.store.run(&evict(pool, task))),
            Change::Renew => drop(self.store.run(&renew(pool, task))),
            Change::Configure => drop(self.store.run(&configure(pool, self.now()))),
        }
    }
}

fn name(text: &str) -> Name {
    Name::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a name")
}

fn settings() -> Settings {
    Settings { capacity: 1, ..Settings::default() }
}

fn task_name(pool: &str, task: &str) -> TaskName {
    TaskName { pool: name(pool), device: name(task), task: name("t") }
}

/// Returns an admission of a task that has its own device.
pub(super) fn admit(pool: &str, task: &str) -> AdmitTask {
    let TaskName { pool, device, task } = task_name(pool, task);
    let settings = settings();
    AdmitTask { pool, device, task: Some(task), lease_duration: None, settings, waiting: None }
}

pub(super) fn complete(pool: &str, task: &str) -> CompleteTask {
    let (name, settings) = (task_name(pool, task), settings());
    CompleteTask { name, token: None, outcome: Outcome::Succeeded, result: Bytes::new(), settings }
}

fn evict(pool: &str, task: &str) -> EvictTask {
    EvictTask { name: task_name(pool, task), reason: Bytes::new(), settings: settings() }
}

/// Shortens a lease to 20 ms.
fn renew(pool: &str, task: &str) -> RenewTask {
    let lease_duration = Some(Millis(20));
    RenewTask { name: task_name(pool, task), token: None, lease_duration, settings: settings() }
}

fn configure(pool: &str, now: u64) -> ConfigurePool {
    let overrides = Overrides { capacity: Some(1 + now as u32 % 3), ..Overrides::default() };
    ConfigurePool { pool: name(pool), overrides, reset: false, settings: settings() }
}

pub(super) fn meter() -> MeterName {
    MeterName::new(None, &name("key"))
}

/// Returns two rules that count the same usage.
pub(super) fn rules(random: &mut ChaCha8Rng) -> [Arc<Rule>; 2] {
    let algorithms = [
        Algorithm::FixedWindow,
        Algorithm::CalendarWindow,
        Algorithm::SlidingWindow,
        Algorithm::TokenBucket,
    ];
    let algorithm = algorithms[random.random_range(0..4)];
    let limit = |name: &str, max: u64, window: u64, algorithm| LimitSpec {
        name: name.into(),
        max: Some(max),
        window: Some(Millis(window)),
        algorithm: Some(algorithm),
        burst: None,
    };
    let tier = |above: u64, action, bans: Vec<Millis>| TierSpec {
        above: Some(above),
        action: Some(action),
        ban_durations: bans,
    };
    let tiers = match random.random_range(0..5) {
        _ if algorithm == Algorithm::TokenBucket => Vec::new(),
        0 => vec![tier(3, TierAction::Throttle, Vec::new())],
        1 => vec![tier(2, TierAction::Warn, Vec::new())],
        2 => vec![
            tier(3, TierAction::Throttle, Vec::new()),
            tier(9, TierAction::Ban, vec![Millis(70), Millis(2000)]),
        ],
        3 => vec![tier(4, TierAction::Ban, vec![Millis(200)])],
        _ => Vec::new(),
    };
    let build = |max| {
        let mut limits = vec![limit("first", max, 1000, algorithm)];
        limits.push(limit("second", 6, 2000, Algorithm::FixedWindow));
        Arc::new(
            RuleSpec { limits, tiers: tiers.clone(), ..RuleSpec::default() }
                .build()
                .expect("valid"),
        )
    };
    [build(4), build(5)]
}

pub(super) fn check(rules: &[Arc<Rule>; 2], random: &mut ChaCha8Rng) -> CheckRate {
    let rule = rules[usize::from(random.random_range(0..4) == 0)].clone();
    let cost = [0, 1, 1, 1, 2, 5][random.random_range(0..6)];
    let request = (random.random_range(0..10) == 0).then(|| name("request"));
    CheckRate { name: meter(), rule, cost, request }
}

pub(super) fn ban(random: &mut ChaCha8Rng) -> BanKey {
    let duration = Millis(random.random_range(1..300));
    let (reason, actor) = (Vec::new(), Vec::new());
    BanKey { name: meter(), duration, memory: Millis(1000), reason, actor }
}
