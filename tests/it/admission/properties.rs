//! Invariants after any history, on both engines: the capacity is never exceeded, every admission
//! ends in exactly one way, and fencing tokens only grow.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use tollgate_core::{
    Decision,
    admission::{
        AdmitDecision, AdmitTask, CompleteTask, CompleteVerdict, ConfigurePool, EvictTask,
        EvictVerdict, GetPool, Lease, Outcome, Overrides, RenewTask, RenewVerdict, Settings,
        TaskName,
    },
    names::Name,
    time::{Millis, monotonic},
};
use tollgate_engine::{Engine, embedded::Sharded};

use crate::support::world::{Time, embedded_engine, redis_engine, up};

/// An operation. Few devices and short lengths make them interact.
#[derive(Debug, Clone)]
enum Op {
    Admit { device: u8, lease: Option<u64> },
    Complete { device: u8, stale: bool },
    Renew { device: u8, lease: Option<u64> },
    Evict { device: u8 },
    Configure { capacity: u32, grace: u64 },
    Pass { millis: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let device = || 0u8..8;
    let lease = || prop::option::of((1u64..8).prop_map(|tenths| tenths * 100));
    prop_oneof![
        8 => (device(), lease()).prop_map(|(device, lease)| Op::Admit { device, lease }),
        4 => (device(), any::<bool>()).prop_map(|(device, stale)| Op::Complete { device, stale }),
        2 => (device(), lease()).prop_map(|(device, lease)| Op::Renew { device, lease }),
        1 => device().prop_map(|device| Op::Evict { device }),
        1 => (1u32..5, 0u64..4)
            .prop_map(|(capacity, tenths)| Op::Configure { capacity, grace: tenths * 100 }),
        4 => (0u64..6).prop_map(|tenths| Op::Pass { millis: tenths * 100 }),
    ]
}

/// A granted lease, as its caller knows it. Times are in µs.
#[derive(Debug)]
struct Held {
    device: u8,
    expire: u64,
    grace: u64,
    ended: Option<&'static str>,
}

struct Run {
    engine: Arc<Engine>,
    time: Time,
    capacity: u32,
    grace: u64,
    leases: HashMap<u64, Held>,
    last_token: u64,
}

fn name(text: &str) -> Name {
    Name::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

fn task(device: u8) -> TaskName {
    TaskName { pool: name("p"), device: name(&format!("d{device}")), task: name("t") }
}

impl Run {
    async fn take<D: Decision<State: Sharded>>(&self, decision: D) -> D::Outcome {
        self.engine.store(&decision, monotonic() + Duration::from_secs(30)).await.unwrap()
    }

    /// Returns the number of leases that hold a slot, as far as callers can tell.
    fn slots(&self) -> usize {
        let now = self.time.now();
        let held = self.leases.values();
        held.filter(|held| held.ended.is_none() && now < held.expire + held.grace).count()
    }

    fn end(&mut self, token: u64, how: &'static str) {
        let held = self.leases.get_mut(&token).expect("only a granted lease ends");
        assert_eq!(held.ended, None, "token {token} ended twice, now {how}");
        held.ended = Some(how);
    }

    fn granted(&mut self, device: u8, lease: &Lease) {
        assert!(lease.token > self.last_token, "{} after {}", lease.token, self.last_token);
        self.last_token = lease.token;
        // The earlier lease of the device must have expired.
        let now = self.time.now();
        let before: Vec<u64> = self
            .leases
            .iter()
            .filter(|(_, held)| held.device == device && held.ended.is_none())
            .map(|(token, _)| *token)
            .collect();
        for token in before {
            assert!(self.leases[&token].expire <= now, "{token} still ran");
            self.end(token, "expired");
        }
        let (expire, grace) = (lease.expire.0, self.grace);
        self.leases.insert(lease.token, Held { device, expire, grace, ended: None });
        assert!(self.slots() <= self.capacity as usize, "{} slots", self.slots());
    }

    async fn step(&mut self, op: Op) {
        let settings = Settings { capacity: 3, lease_duration: Millis(400), ..Settings::default() };
        match op {
            Op::Pass { millis } => self.time.advance(millis * 1000).await,
            Op::Configure { capacity, grace } => {
                let overrides = Overrides {
                    capacity: Some(capacity),
                    expiry_grace: Some(Millis(grace)),
                    ..Overrides::default()
                };
                let pool = name("p");
                self.take(ConfigurePool { pool, overrides, reset: false, settings }).await;
                (self.capacity, self.grace) = (capacity, grace * 1000);
            }
            Op::Admit { device, lease } => {
                let TaskName { pool, device: by, task } = task(device);
                let (lease_duration, task) = (lease.map(Millis), Some(task));
                let decision =
                    AdmitTask { pool, device: by, task, lease_duration, settings, waiting: None };
                let admission = self.take(decision).await;
                match admission.decision {
                    AdmitDecision::Admitted { lease, replayed: false, .. } => {
                        self.granted(device, &lease);
                    }
                    AdmitDecision::Admitted { lease, replayed: true, .. } => {
                        let held = &self.leases[&lease.token];
                        assert_eq!((held.ended, held.device), (None, device));
                    }
                    AdmitDecision::Full { retry_after, .. } => {
                        assert!(self.slots() >= self.capacity as usize);
                        assert!(retry_after > Millis(0));
                    }
                    AdmitDecision::AlreadyCompleted => {}
                    other => panic!("{other:?}"),
                }
                assert_eq!(admission.usage.in_use as usize, self.slots());
            }
            Op::Complete { device, stale } => {
                let newest = self.newest(device);
                let token = if stale { newest.map(|token| token - 1) } else { None };
                let name = task(device);
                let (outcome, result) = (Outcome::Succeeded, Bytes::new());
                let completion =
                    self.take(CompleteTask { name, token, outcome, result, settings }).await;
                match completion.verdict {
                    CompleteVerdict::Completed => self.end(newest.unwrap(), "completed"),
                    CompleteVerdict::Late => {
                        let held = &self.leases[&newest.unwrap()];
                        assert!(held.expire <= self.time.now() || held.ended == Some("evicted"));
                        if held.ended.is_none() {
                            self.end(newest.unwrap(), "expired");
                        }
                    }
                    CompleteVerdict::StaleToken => assert!(stale),
                    CompleteVerdict::AlreadyCompleted => {
                        // Recorded before, in time or late.
                        assert_ne!(self.leases[&newest.unwrap()].ended, None);
                    }
                    CompleteVerdict::Unknown => assert_eq!(newest, None),
                }
                assert_eq!(completion.usage.in_use as usize, self.slots());
            }
            Op::Renew { device, lease } => {
                let (name, lease_duration) = (task(device), lease.map(Millis));
                let verdict =
                    self.take(RenewTask { name, token: None, lease_duration, settings }).await;
                let (newest, now) = (self.newest(device), self.time.now());
                match verdict {
                    RenewVerdict::Renewed(lease) => {
                        let held = self.leases.get_mut(&lease.token).unwrap();
                        assert_eq!(held.ended, None);
                        (held.expire, held.grace) = (lease.expire.0, self.grace);
                    }
                    RenewVerdict::Expired => {
                        let held = &self.leases[&newest.unwrap()];
                        assert!(held.ended.is_some() || held.expire + held.grace <= now);
                    }
                    RenewVerdict::Completed => {
                        assert_ne!(self.leases[&newest.unwrap()].ended, None);
                    }
                    RenewVerdict::Unknown => assert_eq!(newest, None),
                    RenewVerdict::StaleToken => panic!("no token was given"),
                }
            }
            Op::Evict { device } => {
                let (name, reason) = (task(device), Bytes::new());
                let verdict = self.take(EvictTask { name, reason, settings }).await;
                let (newest, now) = (self.newest(device), self.time.now());
                match verdict {
                    EvictVerdict::Evicted { replayed: false } => {
                        self.end(newest.unwrap(), "evicted");
                    }
                    EvictVerdict::Evicted { replayed: true } => {
                        assert_eq!(self.leases[&newest.unwrap()].ended, Some("evicted"));
                    }
                    EvictVerdict::Ended => {
                        let held = &self.leases[&newest.unwrap()];
                        assert!(held.ended.is_some() || held.expire + held.grace <= now);
                    }
                    EvictVerdict::Unknown => assert_eq!(newest, None),
                }
            }
        }
    }

    fn newest(&self, device: u8) -> Option<u64> {
        let of_device = self.leases.iter().filter(|(_, held)| held.device == device);
        of_device.map(|(token, _)| *token).max()
    }
}

/// Checks random histories, each on a fresh engine. Histories are short, since completed tasks stay
/// completed and the devices run out.
fn check(redis: bool, cases: u32) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&vec(op(), 1..60), |ops| {
        runtime.block_on(async {
            let (engine, time) = if redis { redis_engine().await } else { embedded_engine() };
            let maintained = engine.clone();
            let maintain = tokio::spawn(async move { maintained.maintain().await });
            up(engine.state()).await;
            let leases = HashMap::new();
            let mut run = Run { engine, time, capacity: 3, grace: 0, leases, last_token: 0 };
            for op in ops {
                run.step(op).await;
            }
            // All remaining leases expire.
            run.time.advance(60_000_000).await;
            let (pool, settings) = (name("p"), Settings::default());
            assert_eq!(run.take(GetPool { pool, settings }).await.usage.in_use, 0);
            maintain.abort();
        });
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn invariants_survive_any_history_on_the_embedded_engine() {
    check(false, 1000);
}

#[test]
fn invariants_survive_any_history_on_redis() {
    check(true, 150);
}

/// Tokens grow although the record of the last token is lost.
async fn tokens_grow_after_all_state_is_lost(redis: bool) {
    let mut last = 0;
    let (mut engine, mut time) = if redis { redis_engine().await } else { embedded_engine() };
    for round in 0..5 {
        let maintained = engine.clone();
        let maintain = tokio::spawn(async move { maintained.maintain().await });
        up(engine.state()).await;
        for device in 0..3 {
            let TaskName { pool, device, task } = task(device + 3 * round);
            let (task, lease_duration, settings) = (Some(task), None, Settings::default());
            let waiting = None;
            let decision = AdmitTask { pool, device, task, lease_duration, settings, waiting };
            let deadline = monotonic() + Duration::from_secs(30);
            let admission = engine.store(&decision, deadline).await.unwrap();
            let AdmitDecision::Admitted { lease, .. } = admission.decision else { panic!() };
            assert!(lease.token > last);
            last = lease.token;
        }
        maintain.abort();
        for key in time.keys().await {
            time.tamper(&["DEL", &format!("{{}}:{key}")]).await;
        }
        if !redis {
            // A restart: the engine's state is lost, and time continues.
            let now = time.now();
            (engine, time) = embedded_engine();
            time.advance(now - time.now()).await;
        }
        time.advance(1000).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_grow_after_a_restart_of_the_embedded_engine() {
    tokens_grow_after_all_state_is_lost(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_grow_after_all_keys_of_redis_are_deleted() {
    tokens_grow_after_all_state_is_lost(true).await;
}
