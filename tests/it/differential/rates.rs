//! Both executors of every rate decision on the same random histories with stepped time. The clock
//! is also set back.
//!
//! Stored state is compared through answers: at intervals every key is checked under every rule,
//! and the events of every shard are read.

pub mod rules;
pub mod together;

use std::sync::Arc;

use bytes::Bytes;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tollgate_core::{
    collections::After,
    names::{Name, Namespace},
    rate::{
        Answer, BanCursor, BanIndex, BanKey, CheckOutcome, CheckRate, GetBan, GetKey, IndexBan,
        ListBans, Log, Meter, MeterName, ReadRateEvents, ResetRate, Rule, SHARDS, UnbanKey,
        Verdict,
    },
    record::Source,
    time::{Millis, Timestamp},
};

use crate::support::twins::{States, Twins, play};

const STEPS: usize = 15_000;
const SEEDS: [u64; 3] = [1, 2, 3];
/// 8 days in µs.
const LONG: u64 = 8 * 86_400_000_000;

struct History {
    twins: Twins,
    meters: States<Meter>,
    indexes: States<BanIndex>,
    logs: States<Log>,
    /// Event numbers at which pages ended.
    numbers: Vec<u64>,
    /// Number of equal events that both executors returned.
    events: usize,
    /// Number of entries that were copied by export and import.
    copied: usize,
    random: ChaCha8Rng,
    rules: Vec<Arc<Rule>>,
    /// Rules that count hits, and their limits.
    counting: Vec<(Arc<Rule>, u32)>,
    /// Number of refused requests about several keys.
    refused: usize,
    cursors: Vec<BanCursor>,
    /// Refused calls, each with the time at which it passes, in µs.
    waits: Vec<(CheckRate, u64)>,
    /// Times at which bans end and at which they are forgotten, in µs.
    ends: Vec<u64>,
    /// All steps of time are multiples of this, in µs. In calm histories it is the length of the
    /// sub-buckets of a minute, so that each step ends where a sub-bucket leaves the window.
    unit: u64,
}

#[tokio::test]
async fn both_executors_of_every_rate_decision_agree() {
    play(&SEEDS, history).await;
}

async fn history(seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let calm = seed.is_multiple_of(2);
    let rules = (0..24).map(|_| Arc::new(rules::rule(&mut random, calm))).collect();
    let mut history = History {
        twins: Twins::new().await,
        meters: States::new(),
        indexes: States::new(),
        logs: States::new(),
        numbers: vec![0, 1],
        events: 0,
        copied: 0,
        random,
        rules,
        counting: together::rules(),
        refused: 0,
        cursors: Vec::new(),
        waits: Vec::new(),
        ends: Vec::new(),
        unit: if calm { 1 << 19 } else { 1 },
    };
    if calm {
        let ahead = history.twins.time.now() - 60_000_000;
        history.twins.time.advance((1 << 19) - ahead % (1 << 19)).await;
    }
    for step in 0..STEPS {
        let context = format!("seed {seed}, step {step}");
        history.pass_time().await;
        history.decide(&context).await;
        history.log();
        if step % 500 == 499 {
            history.look_at_all(&context).await;
            history.copy(step, &context).await;
        }
    }
    assert!(history.copied > 15, "seed {seed}: {} entries copied", history.copied);
    assert!(history.refused > 100, "seed {seed}: {} refused", history.refused);
    assert!(history.events > 1000, "seed {seed}: {} events", history.events);
}

fn name(text: &'static str) -> Name {
    Name::parse(Bytes::from_static(text.as_bytes())).unwrap()
}

/// A call is throttled exactly if a limit refuses it by its count.
fn check_refusals(call: &CheckRate, answer: &Answer) {
    let limits = call.rule.limits.iter().zip(&answer.limits);
    let cost = call.cost.max(1);
    match answer.verdict {
        Verdict::Throttle => {
            let refused = limits.filter(|(limit, used)| limit.refuses(used.count, cost)).count();
            assert!(refused > 0, "{call:?}: {answer:?}");
        }
        Verdict::Allow | Verdict::Warn => {
            let paid = if call.cost == 0 { 0 } else { cost };
            for (limit, used) in limits {
                assert!(
                    !limit.refuses(used.count.saturating_sub(paid.into()), cost),
                    "{call:?}: {answer:?}"
                );
            }
        }
        Verdict::Ban => {}
    }
}

impl History {
    async fn pass_time(&mut self) {
        let step = match self.random.random_range(0..1000) {
            0..500 => return,
            500..700 => self.random.random_range(1..1000),
            700..800 => self.random.random_range(1..1000) * 1000,
            800..850 => self.next_edge(),
            850..950 => return self.pass_to_an_end().await,
            950..990 => self.random.random_range(1..100) * 1_000_000,
            990..995 => self.random.random_range(1..100) * 60_000_000,
            // Sets the clock back by up to a minute.
            _ => {
                let back: u64 = self.random.random_range(1..60_000_000);
                return self.twins.time.set_back((back / self.unit).max(1) * self.unit).await;
            }
        };
        self.advance(step).await;
    }

    async fn advance(&self, micros: u64) {
        self.twins.time.advance((micros / self.unit).max(1) * self.unit).await;
    }

    /// Returns time until the next edge of a sub-bucket of a random rule, in µs.
    fn next_edge(&mut self) -> u64 {
        let rule = self.rules.choose(&mut self.random).unwrap();
        let window = rule.limits.choose(&mut self.random).unwrap().window.micros();
        let part = 1 << (window / 60).ilog2();
        part - self.twins.time.now() % part
    }

    /// Steps to the end of a ban, or to the instant at which a refused call passes or just before.
    async fn pass_to_an_end(&mut self) {
        let now = self.twins.time.now();
        // Steps to the ends of many long windows would exceed the last time that scripts support,
        // the year 2112.
        let farthest = if self.random.random_bool(0.02) { u64::MAX } else { now + LONG };
        self.waits.retain(|(_, at)| *at > now && *at < farthest);
        self.ends.retain(|at| *at > now && *at < farthest);
        if let Some(at) = self.ends.choose(&mut self.random).filter(|_| now.is_multiple_of(2)) {
            self.advance(at - now).await;
        } else if let Some((_, at)) = self.waits.choose(&mut self.random) {
            let early = self.random.random_range(0..3);
            self.advance((at - now).saturating_sub(early)).await;
        }
    }

    async fn decide(&mut self, context: &str) {
        let name = self.name();
        match self.random.random_range(0..100) {
            0..70 => self.check(name, context).await,
            70..74 => self.count_hits(context).await,
            74..80 => self.count_all(context).await,
            80..83 => {
                self.twins.agree(&mut self.meters, &ResetRate { name }, context).await;
            }
            83..86 => {
                let duration = Millis(self.random.random_range(1..10_000));
                let memory = Millis(self.random.random_range(1..10_000));
                let (reason, actor) = (b"a reason".to_vec(), b"ops".to_vec());
                let decision = BanKey { name, duration, memory, reason, actor };
                let ban = self.twins.agree(&mut self.meters, &decision, context).await;
                self.ends.extend([ban.until.0, ban.until.after(memory).0]);
            }
            86..88 => {
                let decision = UnbanKey { name, actor: b"ops".to_vec() };
                self.twins.agree(&mut self.meters, &decision, context).await;
            }
            88..90 => {
                self.twins.agree(&mut self.meters, &GetBan { name: name.clone() }, context).await;
                let rule = self.rules.choose(&mut self.random).cloned();
                let rule = rule.filter(|_| self.random.random_bool(0.9));
                self.twins.agree(&mut self.meters, &GetKey { name, rule }, context).await;
            }
            90..92 => {
                let shard = self.random.random_range(0..SHARDS);
                let (limit, seen) = (self.random.random_range(1..5), self.random.random_bool(0.9));
                let number = self.numbers.choose(&mut self.random).copied().filter(|_| seen);
                self.read(shard, After { number, limit }, context).await;
            }
            92..96 => {
                let key = ["a", "b", "c", "d", "e", "f"].choose(&mut self.random).unwrap();
                let name = MeterName::new(self.policy().as_ref(), &self::name(key));
                let most = *[1, 20_000_000, 3_600_000_000].choose(&mut self.random).unwrap();
                let ends = self.twins.time.now() + self.random.random_range(0..=most);
                let decision = IndexBan { name, until: Timestamp(ends) };
                self.twins.agree(&mut self.indexes, &decision, context).await;
            }
            _ => {
                let after = self.cursors.choose(&mut self.random).cloned();
                let after = after.filter(|_| self.random.random_bool(0.7));
                let limit = self.random.random_range(1..4);
                let decision =
                    ListBans { policy: self.policy(), namespace: Namespace::DEFAULT, limit, after };
                let page = self.twins.agree(&mut self.indexes, &decision, context).await;
                self.cursors.extend(page.next);
            }
        }
    }

    /// Appends the events of the last decision to the logs, as the engine does.
    fn log(&mut self) {
        for (tag, event, now) in self.twins.take_events() {
            self.logs.entry(tag).or_default().append(event, now);
        }
    }

    /// Reads events of a shard, for both policies. Keys that are decided together share a shard:
    /// their events of one instant have no order.
    async fn read(&mut self, shard: usize, after: After, context: &str) {
        for policy in ["p", "q}"].map(name) {
            let read = ReadRateEvents::new(&policy, shard, after);
            let page = self.twins.agree(&mut self.logs, &read, context).await;
            self.events += page.events.len();
            self.numbers.push(page.after + page.events.len() as u64);
            if self.numbers.len() > 50 {
                let old = self.random.random_range(0..50);
                self.numbers.swap_remove(old);
            }
        }
    }

    /// Checks a rate, or 20 rates in one batch whose items share reads.
    async fn check(&mut self, name: MeterName, context: &str) {
        let together = if self.random.random_bool(0.1) { 20 } else { 1 };
        let mut calls = vec![self.call(name)];
        for _ in 1..together {
            let name = self.name();
            let mut call = self.call(name);
            if self.random.random_bool(0.5) {
                call.rule = calls[0].rule.clone();
            }
            // Equal checks of one batch become one item of a plain script.
            let repeats =
                if self.random.random_bool(0.2) { self.random.random_range(1..5) } else { 1 };
            calls.extend(vec![call; repeats]);
        }
        let checked = self.twins.agree_all(&mut self.meters, &calls, context).await;
        for (call, checked) in calls.into_iter().zip(checked) {
            if let CheckOutcome::Decided { answer, replayed: false } = &checked {
                check_refusals(&call, answer);
            }
            if let CheckOutcome::Decided { answer, .. } = checked
                && let Some(wait) = answer.retry_after
            {
                if let Some(ban) = answer.ban.filter(|_| answer.crossed) {
                    self.ends.extend([ban.until.0, ban.until.after(call.rule.ban_memory).0]);
                }
                self.waits.push((call, self.twins.time.now() + wait.micros()));
            }
        }
    }

    fn call(&mut self, name: MeterName) -> CheckRate {
        let retry = self.waits.choose(&mut self.random).map(|(call, _)| call.clone());
        retry.filter(|_| self.random.random_bool(0.3)).unwrap_or_else(|| {
            let cost = *[0, 1, 1, 1, 1, 2, 3, 7, 1_000_000_000].choose(&mut self.random).unwrap();
            let ids = ["r1", "r2", "r3"];
            let request = self.random.random_bool(0.1);
            let request = request.then(|| self::name(ids.choose(&mut self.random).unwrap()));
            let rule = self.rules.choose(&mut self.random).unwrap().clone();
            CheckRate { name, rule, cost, request }
        })
    }

    /// Compares all events, and every key under every rule. Each key must have a TTL.
    async fn look_at_all(&mut self, context: &str) {
        for shard in 0..SHARDS {
            self.read(shard, After { number: Some(0), limit: 1000 }, context).await;
        }
        let policies = [None, Some(name("p")), Some(name("q}")), Some(name(together::POLICY))];
        let names: Vec<MeterName> = policies
            .iter()
            .flat_map(|policy| {
                ["a", "b_c", "{x}"].map(|key| MeterName::new(policy.as_ref(), &name(key)))
            })
            .collect();
        for rule in &self.rules {
            let gets = names.iter().cloned().map(|name| GetKey { name, rule: Some(rule.clone()) });
            let gets: Vec<GetKey> = gets.collect();
            let states = self.twins.agree_all(&mut self.meters, &gets, context).await;
            let looks = names.iter().cloned().map(|name| {
                let rule = rule.clone();
                CheckRate { name, rule, cost: 0, request: None }
            });
            let looks: Vec<CheckRate> = looks.collect();
            let looked = self.twins.agree_all(&mut self.meters, &looks, context).await;
            for (state, looked) in states.iter().zip(looked) {
                if let CheckOutcome::Decided { answer, .. } = looked {
                    assert_eq!(state.limits, answer.limits, "{context}");
                }
            }
        }
        for key in self.twins.time.keys().await {
            let ttl = self.twins.time.tamper(&["PTTL", &format!("{{}}:{key}")]).await.unwrap();
            assert_ne!(ttl, redis::Value::Int(-1), "{context}: {key} has no TTL");
        }
    }

    /// Copies a key by export and import.
    async fn copy(&mut self, step: usize, context: &str) {
        let from = self.name();
        let to = [from.tag(), b"\x1f", format!("copy {step}").as_bytes()].concat();
        let to = if from.index().is_empty() { to[from.tag().len()..].to_vec() } else { to };
        let replays = [b"r1", b"r2", b"r3"].map(|request| Source::new(b'r', request));
        let sources: Vec<Source> = replays.into_iter().chain([Source::new(b'm', b"")]).collect();
        let names = [from.as_bytes(), &to];
        self.copied += self.twins.copy(&mut self.meters, names, &sources, context).await;
    }

    fn policy(&mut self) -> Option<Name> {
        let policies = [None, Some(name("p")), Some(name("q}")), Some(name(together::POLICY))];
        policies.choose(&mut self.random).unwrap().clone()
    }

    fn name(&mut self) -> MeterName {
        let key = name(["a", "b_c", "{x}"].choose(&mut self.random).unwrap());
        MeterName::new(self.policy().as_ref(), &key)
    }
}
