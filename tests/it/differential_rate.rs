//! Both executors of every decision about rates on the same random histories
//! with stepped time, clocks that are set back included.
//!
//! What they keep is compared through what they say: every key is looked at
//! under every rule now and then.

use std::sync::Arc;

use bytes::Bytes;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tollgate::{
    names::Name,
    rate::{
        Algorithm, BanCursor, BanIndex, BanKey, CheckRate, Checked, GetBan, LimitSpec, ListBans,
        Meter, MeterName, NoteBan, ResetRate, Rule, RuleSpec, TierAction, TierSpec, UnbanKey,
    },
    time::{Millis, Timestamp},
};

use crate::twins::{States, Twins, play};

const STEPS: usize = 15_000;
const SEEDS: [u64; 3] = [1, 2, 3];
const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::FixedWindow,
    Algorithm::CalendarWindow,
    Algorithm::SlidingWindow,
    Algorithm::TokenBucket,
];
const CALM: [Algorithm; 3] =
    [Algorithm::SlidingWindow, Algorithm::TokenBucket, Algorithm::FixedWindow];

struct History {
    twins: Twins,
    meters: States<Meter>,
    indexes: States<BanIndex>,
    random: ChaCha8Rng,
    rules: Vec<Arc<Rule>>,
    cursors: Vec<BanCursor>,
    /// What a refused caller was told: the call, and when it passes.
    waits: Vec<(CheckRate, u64)>,
    /// When bans end and when they are forgotten.
    ends: Vec<u64>,
    /// What all steps of time are multiples of. In calm histories it is the
    /// length of a minute's sub-buckets, each step to when one is given back.
    unit: u64,
}

#[tokio::test(flavor = "multi_thread")]
async fn both_executors_of_every_rate_decision_agree() {
    play(&SEEDS, history).await;
}

async fn history(seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let calm = seed.is_multiple_of(2);
    let rules = (0..24).map(|_| Arc::new(rule(&mut random, calm))).collect();
    let mut history = History {
        twins: Twins::new().await,
        meters: States::new(),
        indexes: States::new(),
        random,
        rules,
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
        if step % 500 == 499 {
            history.look_at_all(&context).await;
        }
    }
}

/// A rule of limits with few names, so that rules meet each other's usage. Calm
/// ones have an algorithm for each name, so that usage lasts.
fn rule(random: &mut ChaCha8Rng, calm: bool) -> Rule {
    loop {
        let count = random.random_range(1..4);
        let names = ["a", "b", "c"];
        let limits: Vec<LimitSpec> =
            (0..count).map(|i| limit(random, names[i], calm.then_some(i))).collect();
        let levels = random.random_range(0..4);
        let tiers = (0..levels).map(|_| tier(random)).collect();
        let utc_offset = random.random_range(-840..840);
        let ban_memory = Some(Millis(random.random_range(1..100_000)));
        let spec = RuleSpec { limits, tiers, utc_offset, ban_memory };
        // Of a random rule much may be wrong.
        if let Ok(rule) = spec.build() {
            return rule;
        }
    }
}

fn limit(random: &mut ChaCha8Rng, name: &str, calm: Option<usize>) -> LimitSpec {
    let algorithm = calm.map_or_else(|| *ALGORITHMS.choose(random).unwrap(), |i| CALM[i]);
    let odd = random.random_range(1..20_000);
    let lengths = [1, 7, 59, 100, 1000, 10_000, 60_000, 120_000, 3_600_000, odd];
    let window = match algorithm {
        Algorithm::CalendarWindow => *[1000, 5000, 60_000, 3_600_000].choose(random).unwrap(),
        _ if calm.is_some() => *[5000, 60_000, 60_000, 120_000].choose(random).unwrap(),
        _ => *lengths.choose(random).unwrap(),
    };
    let most = *[3, 10, 40, 3000, 90_000_000].choose(random).unwrap();
    let burst = random.random_bool(0.3).then(|| random.random_range(1..20));
    LimitSpec {
        name: name.into(),
        max: Some(random.random_range(0..=most)),
        window: Some(Millis(window)),
        algorithm: Some(algorithm),
        burst: burst.filter(|_| algorithm == Algorithm::TokenBucket),
    }
}

fn tier(random: &mut ChaCha8Rng) -> TierSpec {
    let actions = [TierAction::Warn, TierAction::Throttle, TierAction::Ban];
    let action = *actions.choose(random).unwrap();
    let bans = if action == TierAction::Ban { random.random_range(0..3) } else { 0 };
    let ban_durations = (0..bans).map(|_| Millis(random.random_range(1..5000))).collect();
    TierSpec { above: Some(random.random_range(0..30)), action: Some(action), ban_durations }
}

fn name(text: &'static str) -> Name {
    Name::parse(Bytes::from_static(text.as_bytes())).unwrap()
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
            // A clock that is set back, by up to a minute.
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

    /// How far it is to the next edge of a sub-bucket of some rule's window.
    fn next_edge(&mut self) -> u64 {
        let rule = self.rules.choose(&mut self.random).unwrap();
        let window = rule.limits.choose(&mut self.random).unwrap().window.micros();
        let part = 1 << (window / 60).ilog2();
        part - self.twins.time.now() % part
    }

    /// To the instant at which some refused call passes, or just before it.
    async fn pass_to_an_end(&mut self) {
        let now = self.twins.time.now();
        self.waits.retain(|(_, at)| *at > now);
        self.ends.retain(|at| *at > now);
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
            0..80 => self.check(name, context).await,
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
                self.twins.agree(&mut self.meters, &UnbanKey { name }, context).await;
            }
            88..90 => {
                self.twins.agree(&mut self.meters, &GetBan { name }, context).await;
            }
            90..96 => {
                let key = ["a", "b", "c", "d", "e", "f"].choose(&mut self.random).unwrap();
                let name = MeterName::new(self.policy().as_ref(), &self::name(key));
                let most = *[1, 20_000_000, 3_600_000_000].choose(&mut self.random).unwrap();
                let ends = self.twins.time.now() + self.random.random_range(0..=most);
                let decision = NoteBan { name, until: Timestamp(ends) };
                self.twins.agree(&mut self.indexes, &decision, context).await;
            }
            _ => {
                let after = self.cursors.choose(&mut self.random).cloned();
                let after = after.filter(|_| self.random.random_bool(0.7));
                let limit = self.random.random_range(1..4);
                let decision = ListBans { policy: self.policy(), limit, after };
                let page = self.twins.agree(&mut self.indexes, &decision, context).await;
                self.cursors.extend(page.next);
            }
        }
    }

    async fn check(&mut self, name: MeterName, context: &str) {
        let retry = self.waits.choose(&mut self.random).map(|(call, _)| call.clone());
        let call = retry.filter(|_| self.random.random_bool(0.3)).unwrap_or_else(|| {
            let cost = *[0, 1, 1, 1, 1, 2, 3, 7, 1_000_000_000].choose(&mut self.random).unwrap();
            let ids = ["r1", "r2", "r3"];
            let request = self.random.random_bool(0.1);
            let request = request.then(|| self::name(ids.choose(&mut self.random).unwrap()));
            let rule = self.rules.choose(&mut self.random).unwrap().clone();
            CheckRate { name, rule, cost, request }
        });
        let checked = self.twins.agree(&mut self.meters, &call, context).await;
        if let Checked::Decided { answer, .. } = checked
            && let Some(wait) = answer.retry_after
        {
            if let Some(ban) = answer.ban.filter(|_| answer.crossed) {
                self.ends.extend([ban.until.0, ban.until.after(call.rule.ban_memory).0]);
            }
            self.waits.push((call, self.twins.time.now() + wait.micros()));
        }
    }

    async fn look_at_all(&mut self, context: &str) {
        for rule in self.rules.clone() {
            for policy in [None, Some(name("p")), Some(name("q}"))] {
                for key in ["a", "b_c", "{x}"] {
                    let name = MeterName::new(policy.as_ref(), &name(key));
                    let rule = rule.clone();
                    let look = CheckRate { name, rule, cost: 0, request: None };
                    self.twins.agree(&mut self.meters, &look, context).await;
                }
            }
        }
        for key in self.twins.time.keys().await {
            let ttl = self.twins.time.tamper(&["PTTL", &format!("{{}}:{key}")]).await.unwrap();
            assert_ne!(ttl, redis::Value::Int(-1), "{context}: {key} has no TTL");
        }
    }

    fn policy(&mut self) -> Option<Name> {
        [None, Some(name("p")), Some(name("q}"))].choose(&mut self.random).unwrap().clone()
    }

    fn name(&mut self) -> MeterName {
        let key = name(["a", "b_c", "{x}"].choose(&mut self.random).unwrap());
        MeterName::new(self.policy().as_ref(), &key)
    }
}
