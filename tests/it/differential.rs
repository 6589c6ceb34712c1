//! Both executors of every decision on the same random histories with stepped
//! time: every outcome must be equal, and so must what is left behind.
//!
//! Lengths and steps are multiples of 100 ms, so that calls often fall on the
//! very instant at which something ends.

use std::collections::BTreeMap;

use bytes::Bytes;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tollgate::{
    admission::{
        AdmitTask, AttendPool, CompleteTask, ConfigurePool, EvictTask, GetPool, LeaseCursor,
        ListLeases, Outcome, Overrides, Pool, RenewTask, Settings, TaskName, TaskState,
    },
    decision::Decision,
    names::Name,
    time::{Millis, Timestamp},
};

use crate::{
    callers::Callers,
    twins::{States, Twins, play},
};

const STEPS: usize = 21_000;
const SEEDS: [u64; 4] = [1, 2, 3, 4];
/// What was told since is compared in its order; to ask for it costs a round trip.
const HINTS_EVERY: usize = 20;

/// One history on both executors.
struct History {
    twins: Twins,
    pools: States<Pool>,
    random: ChaCha8Rng,
    tokens: Vec<u64>,
    cursors: Vec<LeaseCursor>,
    callers: Callers,
    hints: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn both_executors_of_every_decision_agree() {
    play(&SEEDS, history).await;
}

async fn history(seed: u64) {
    let random = ChaCha8Rng::seed_from_u64(seed);
    let (pools, tokens, cursors) = (States::new(), Vec::new(), Vec::new());
    let callers = Callers::default();
    let twins = Twins::listening(&callers.channels()).await;
    let hints = 0;
    let mut history = History { twins, pools, random, tokens, cursors, callers, hints };
    let mut compared = 0;
    for step in 0..STEPS {
        let context = format!("seed {seed}, step {step}");
        history.pass_time().await;
        history.decide(&context).await;
        if step % HINTS_EVERY == 0 {
            history.hints += history.twins.agree_on_hints(&context).await;
        }
        if step % 1000 == 999 {
            compared += history.compare_state(&context).await;
        }
    }
    assert!(compared > 100, "seed {seed}: only {compared} records to compare");
    assert!(history.hints > 10, "seed {seed}: only {} were told", history.hints);
}

impl History {
    async fn pass_time(&mut self) {
        let steps = match self.random.random_range(0..1000) {
            0..600 => return,
            600..800 => 1,
            800..970 => self.random.random_range(1..30),
            970..995 => return self.pass_to_an_end().await,
            _ => self.random.random_range(1..10_000),
        };
        self.twins.time.advance(steps * 100_000).await;
    }

    /// To the very instant at which something of some task ends.
    async fn pass_to_an_end(&mut self) {
        let now = self.twins.time.now();
        let tasks = self.pools.values().flat_map(|pool| pool.tasks(Timestamp(now)));
        let ends = tasks.flat_map(|(_, task)| [task.lease.expire, task.slot_end, task.forget]);
        let mut ends: Vec<u64> = ends.map(|end| end.0).filter(|end| *end > now).collect();
        ends.sort();
        if let Some(end) = ends.choose(&mut self.random) {
            self.twins.time.advance(end - now).await;
        }
    }

    async fn decide(&mut self, context: &str) {
        let pool = self.name(&["one", "two", "three{}"]);
        let settings = settings(&pool);
        let name = TaskName {
            pool: pool.clone(),
            device: self.name(&["a", "b", "c", "d", "e", "f"]),
            task: self.name(&["t", "u"]),
        };
        let token = match self.random.random_range(0..4) {
            0 => self.tokens.choose(&mut self.random).copied(),
            1 => self.tokens.last().copied(),
            _ => None,
        };
        let lease_duration = self.length(1..20);
        match self.random.random_range(0..100) {
            0..40 => {
                let task = self.random.random_bool(0.95).then_some(name.task);
                let place = self.callers.place(&mut self.random);
                let device = name.device;
                let decision = AdmitTask { pool, device, task, lease_duration, settings, place };
                let admission = self.agree(&decision, context).await;
                if let tollgate::admission::AdmitDecision::Admitted { lease, .. } =
                    admission.decision
                {
                    self.tokens.push(lease.token);
                }
                self.callers.asked(&decision, &admission);
            }
            40..65 => {
                let outcomes = [Outcome::Failed, Outcome::Succeeded];
                let outcome = *outcomes.choose(&mut self.random).unwrap();
                let result =
                    Bytes::from(vec![self.random.random(); self.random.random_range(0..9)]);
                let decision = CompleteTask { name, token, outcome, result, settings };
                self.agree(&decision, context).await;
            }
            65..80 => {
                let decision = RenewTask { name, token, lease_duration, settings };
                self.agree(&decision, context).await;
            }
            80..86 => {
                let reason = Bytes::from_static(b"a reason");
                self.agree(&EvictTask { name, reason, settings }, context).await;
            }
            86..92 => {
                self.agree(&GetPool { pool, settings }, context).await;
            }
            92..95 => {
                let attend = self.callers.attend(&mut self.random);
                self.agree(&AttendPool { pool, settings, attend }, context).await;
            }
            95..97 => {
                let after = self.cursors.choose(&mut self.random).cloned();
                let limit = self.random.random_range(1..4);
                let page = self.agree(&ListLeases { pool, limit, after }, context).await;
                self.cursors.extend(page.next);
            }
            _ => {
                let overrides = Overrides {
                    capacity: self.maybe(0..6).map(|capacity| capacity as u32),
                    lease_duration: self.length(1..30),
                    expiry_grace: self.length(0..20),
                    paused: self.maybe(0..8).map(|paused| paused == 0),
                };
                let reset = self.random.random_bool(0.2);
                let decision = ConfigurePool { pool, overrides, reset, settings };
                self.agree(&decision, context).await;
            }
        }
    }

    async fn agree<D>(&mut self, decision: &D, context: &str) -> D::Outcome
    where
        D: Decision<State = Pool>,
    {
        self.twins.agree(&mut self.pools, decision, context).await
    }

    /// Compares every record; how many there were.
    async fn compare_state(&mut self, context: &str) -> usize {
        let now = Timestamp(self.twins.time.now());
        let native: BTreeMap<String, String> = self
            .pools
            .iter()
            .flat_map(|(name, pool)| {
                pool.tasks(now).map(move |(member, task)| {
                    let member = String::from_utf8_lossy(member);
                    let (letter, rest) = match &task.state {
                        TaskState::Leased => ("L", String::new()),
                        TaskState::Completed { outcome, result } => {
                            let outcome = if *outcome == Outcome::Succeeded { 1 } else { 2 };
                            ("D", format!(" {outcome} {}", String::from_utf8_lossy(result)))
                        }
                        TaskState::Evicted { reason } => {
                            ("E", format!(" {}", String::from_utf8_lossy(reason)))
                        }
                    };
                    let lease = &task.lease;
                    let times = [
                        lease.token,
                        lease.grant.0,
                        lease.expire.0,
                        task.slot_end.0,
                        task.forget.0,
                    ];
                    let times = times.map(|time| time.to_string()).join(" ");
                    let name = String::from_utf8_lossy(name).replace('}', "%7D");
                    (
                        format!("{{admission:{name}}}:task:{member}"),
                        format!("{letter} {times}{rest}"),
                    )
                })
            })
            .collect();

        let mut redis = BTreeMap::new();
        for key in self.twins.time.keys().await.iter().filter(|key| key.contains("}:task:")) {
            let value = self.twins.time.tamper(&["GET", &format!("{{}}:{key}")]).await.unwrap();
            let bytes: Vec<u8> = redis::from_redis_value(value).unwrap();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let forget: u64 = text.split(' ').nth(5).unwrap().parse().unwrap();
            if forget > now.0 {
                redis.insert(key.clone(), text);
            }
        }
        assert_eq!(native, redis, "{context}");

        // Every lease and setting, and that whatever lapses has a TTL.
        for pool in ["one", "two", "three{}"] {
            let pool = Name::parse(Bytes::from_static(pool.as_bytes())).unwrap();
            let settings = settings(&pool);
            self.agree(&GetPool { pool: pool.clone(), settings }, context).await;
            let after = None;
            self.agree(&ListLeases { pool, limit: 1000, after }, context).await;
        }
        for key in self.twins.time.keys().await {
            let ttl = self.twins.time.tamper(&["PTTL", &format!("{{}}:{key}")]).await.unwrap();
            let permanent = key.ends_with(":settings") || key.starts_with("{index:");
            // -2: it lapsed since it was listed.
            let lapses = !matches!(ttl, redis::Value::Int(-1));
            assert_eq!(lapses, !permanent, "{context}: {key} {ttl:?}");
        }
        native.len()
    }

    fn name(&mut self, names: &[&'static str]) -> Name {
        let name = names.choose(&mut self.random).unwrap();
        Name::parse(Bytes::from_static(name.as_bytes())).unwrap()
    }

    fn maybe(&mut self, range: std::ops::Range<u64>) -> Option<u64> {
        self.random.random_bool(0.5).then(|| self.random.random_range(range))
    }

    fn length(&mut self, range: std::ops::Range<u64>) -> Option<Millis> {
        self.maybe(range).map(|steps| Millis(steps * 100))
    }
}

/// The configured settings of each pool; the retention is long against the
/// run, since Redis's own expiry goes by real time.
fn settings(pool: &Name) -> Settings {
    let (capacity, expiry_grace) = match pool.as_str() {
        "one" => (3, Millis(0)),
        "two" => (2, Millis(500)),
        _ => (4, Millis(1000)),
    };
    Settings {
        capacity,
        lease_duration: Millis(1000),
        expiry_grace,
        paused: false,
        retention: Millis::from_secs(600),
        barging: pool.as_str() == "two",
    }
}
