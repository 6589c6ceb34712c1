//! Invariants of rates after any history, for every algorithm, on both engines. No interval has
//! more calls than allowed. A refused call passes exactly at `retry_after`. A call of cost n
//! equals n calls.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use tollgate_core::{
    names::Name,
    rate::{Algorithm, Answer, CheckOutcome, CheckRate, LimitSpec, MeterName, Rule, RuleSpec},
    time::{Millis, monotonic},
};
use tollgate_engine::Engine;

use crate::support::world::{Time, embedded_engine, redis_engine, up};

/// A limit, and its calls: the pause before each in µs, and its cost.
#[derive(Debug, Clone)]
struct Case {
    algorithm: Algorithm,
    max: u32,
    burst: u32,
    window: Millis,
    calls: Vec<(u64, u32)>,
}

fn case() -> impl Strategy<Value = Case> {
    let algorithm = prop_oneof![
        Just(Algorithm::FixedWindow),
        Just(Algorithm::CalendarWindow),
        Just(Algorithm::SlidingWindow),
        Just(Algorithm::TokenBucket),
    ];
    let windows = prop_oneof![Just(1u64), Just(7), Just(59), Just(500), Just(1000), 1u64..3000];
    (algorithm, 1u32..12, 1u32..12, windows).prop_flat_map(|(algorithm, max, burst, window)| {
        let calendar = algorithm == Algorithm::CalendarWindow;
        let bucket = algorithm == Algorithm::TokenBucket;
        let window = if calendar { Millis(1000) } else { Millis(window) };
        let burst = if bucket { burst } else { max };
        let micros = window.micros();
        // Often 0, a multiple of a sixtieth of the window, or the whole window.
        let pause = prop_oneof![
            3 => Just(0),
            2 => (0u64..64).prop_map(move |parts| micros / 60 * parts),
            2 => 0..micros / 3,
            1 => Just(micros),
            1 => 0..3 * micros,
        ];
        let calls = vec((pause, 1u32..4), 1..80);
        calls.prop_map(move |calls| Case { algorithm, max, burst, window, calls })
    })
}

struct Run {
    engine: Arc<Engine>,
    time: Time,
    rule: Arc<Rule>,
    case: Case,
    /// Time and cost of each allowed call.
    passed: Vec<(u64, u32)>,
    /// Whether the limit stays the same.
    steady: bool,
}

impl Run {
    async fn ask(&self, key: &'static str, cost: u32) -> Answer {
        let key = Name::parse(Bytes::from_static(key.as_bytes())).unwrap();
        let (name, rule) = (MeterName::new(None, &key), self.rule.clone());
        let check = CheckRate { name, rule, cost, request: None };
        let deadline = monotonic() + Duration::from_secs(30);
        match self.engine.store(&check, deadline).await.unwrap() {
            CheckOutcome::Decided { answer, .. } => answer,
            CheckOutcome::TooManyNames => panic!("one name"),
        }
    }

    async fn call(&mut self, cost: u32) {
        let answer = self.ask("k", cost).await;
        if answer.is_allowed() {
            return self.pass(cost).await;
        }
        let wait = answer.retry_after.expect("a refusal says when to try again");
        assert!(wait.0 > 0);
        if self.steady {
            self.refused_early_by_at_most_a_sixtieth(cost);
        }
        if cost > self.case.burst {
            return; // It never passes.
        }
        self.time.advance(wait.micros() - 1000).await;
        let early = self.ask("k", cost).await;
        if wait.0 > 1 {
            assert!(!early.is_allowed(), "before retry_after");
            self.time.advance(1000).await;
            assert!(self.ask("k", cost).await.is_allowed(), "at retry_after");
            self.pass(cost).await;
        } else {
            assert_eq!(early.retry_after, Some(wait));
        }
    }

    /// Records an allowed call, and repeats it on another key by calls of cost 1.
    async fn pass(&mut self, cost: u32) {
        if !self.steady {
            return;
        }
        self.passed.push((self.time.now(), cost));
        for _ in 0..cost {
            assert!(self.ask("one by one", 1).await.is_allowed());
        }
        assert_eq!(self.ask("k", 0).await, self.ask("one by one", 0).await);
        self.never_too_much();
    }

    /// Checks every interval that ends with the last call.
    fn never_too_much(&self) {
        let Case { algorithm, max, burst, window, .. } = self.case;
        let (window, max, burst) = (window.micros(), u64::from(max), u64::from(burst));
        let (now, _) = self.passed[self.passed.len() - 1];
        let mut sum = 0;
        for &(at, cost) in self.passed.iter().rev() {
            sum += u64::from(cost);
            let most = match algorithm {
                Algorithm::TokenBucket => burst + (now - at) * max / window,
                _ if now - at >= window => break,
                Algorithm::SlidingWindow => max,
                Algorithm::CalendarWindow if at / window == now / window => max,
                Algorithm::FixedWindow | Algorithm::CalendarWindow => 2 * max,
            };
            assert!(sum <= most, "{sum} in {} µs, at most {most}", now - at);
        }
    }

    /// A sliding window refuses only calls that would exceed `max` in an interval of its length and
    /// a sixtieth more.
    fn refused_early_by_at_most_a_sixtieth(&self, cost: u32) {
        if self.case.algorithm == Algorithm::SlidingWindow {
            let (now, window) = (self.time.now(), self.case.window.micros());
            let since = now - window - window / 60;
            let recent = self.passed.iter().filter(|(at, _)| *at > since);
            let sum: u32 = recent.map(|(_, cost)| cost).sum();
            assert!(sum + cost > self.case.max, "refused too early");
        }
    }
}

fn rule(case: &Case) -> Arc<Rule> {
    let bucket = case.algorithm == Algorithm::TokenBucket;
    let limit = LimitSpec {
        name: Vec::new(),
        max: Some(case.max.into()),
        window: Some(case.window),
        algorithm: Some(case.algorithm),
        burst: bucket.then_some(case.burst.into()),
    };
    let spec = RuleSpec { limits: vec![limit], ..RuleSpec::default() };
    Arc::new(spec.build().unwrap())
}

/// Plays the calls of a case. With `other`, the numbers of both cases are applied alternately to
/// the same usage.
async fn play(redis: bool, case: Case, other: Option<Case>) {
    let (engine, time) = if redis { redis_engine().await } else { embedded_engine() };
    let maintained = engine.clone();
    let maintain = tokio::spawn(async move { maintained.maintain().await });
    up(engine.state()).await;
    let other = other.map(|other| {
        let bucket = case.algorithm == Algorithm::TokenBucket;
        let burst = if bucket { other.burst } else { other.max };
        Case { algorithm: case.algorithm, burst, ..other }
    });
    let (calls, steady) = (case.calls.clone(), other.is_none());
    let mut cases = [other.unwrap_or_else(|| case.clone()), case.clone()];
    let mut run = Run { engine, time, rule: rule(&case), case, passed: Vec::new(), steady };
    for (pause, cost) in calls {
        cases.swap(0, 1);
        (run.rule, run.case) = (rule(&cases[0]), cases[0].clone());
        run.time.advance(pause).await;
        run.call(cost).await;
    }
    maintain.abort();
}

fn check(redis: bool, cases: u32, changing: bool) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&(case(), case()), |(case, other)| {
        // The clock determines the length of a calendar window.
        let changes = changing && case.algorithm != Algorithm::CalendarWindow;
        runtime.block_on(play(redis, case, changes.then_some(other)));
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn invariants_of_rates_survive_any_history_on_the_embedded_engine() {
    check(false, 2000, false);
}

#[test]
fn invariants_of_rates_survive_any_history_on_redis() {
    check(true, 60, false);
}

#[test]
fn waits_are_exact_under_changing_limits_on_the_embedded_engine() {
    check(false, 2000, true);
}

#[test]
fn waits_are_exact_under_changing_limits_on_redis() {
    check(true, 60, true);
}
