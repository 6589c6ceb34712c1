//! Both executors of every lock decision on the same random histories with stepped time. The clock
//! is also set back.

use std::collections::BTreeMap;

use bytes::Bytes;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tollgate_core::{
    Decision,
    lock::{
        AcquireLock, Acquisition, GetLock, HeartbeatLock, Lock, Release, ReleaseLock, RenewLock,
        Renewal, RevokeLock,
    },
    names::Name,
    record::Source,
    time::Millis,
    waiting::Proceed,
};

use crate::support::{
    callers::Callers,
    twins::{States, Twins, play},
};

const STEPS: usize = 15_000;
const SEEDS: [u64; 3] = [1, 2, 3];
/// Steps between two comparisons of wake-ups; each comparison costs a round trip.
const HINTS_EVERY: usize = 20;
/// Steps between two copies of a partition by export and import.
const COPY_EVERY: usize = 500;

struct History {
    twins: Twins,
    locks: States<Lock>,
    random: ChaCha8Rng,
    callers: Callers,
    tokens: Vec<u64>,
    met: BTreeMap<&'static str, usize>,
}

#[tokio::test]
async fn both_executors_of_every_lock_decision_agree() {
    play(&SEEDS, history).await;
}

async fn history(seed: u64) {
    let (callers, random) = (Callers::default(), ChaCha8Rng::seed_from_u64(seed));
    let twins = Twins::listening(&callers.channels()).await;
    let (locks, tokens, met) = (States::new(), Vec::new(), BTreeMap::new());
    let mut history = History { twins, locks, random, callers, tokens, met };
    for step in 0..STEPS {
        let context = format!("seed {seed}, step {step}");
        history.pass_time().await;
        history.decide(&context).await;
        if step % HINTS_EVERY == 0 {
            *history.met.entry("told").or_default() +=
                history.twins.agree_on_wake_ups(&context).await;
        }
        if step % COPY_EVERY == 0 {
            let (to, sources) = (format!("copy {step}"), [Source::new(b'l', b"")]);
            let names = [&b"one"[..], to.as_bytes()];
            let copied = history.twins.copy(&mut history.locks, names, &sources, &context).await;
            *history.met.entry("copied").or_default() += copied;
        }
    }
    for (what, least) in [
        ("acquired", 500),
        ("replayed", 100),
        ("held", 1000),
        ("waits", 1000),
        ("renewed", 50),
        ("not held", 500),
        ("released", 100),
        ("turn", 100),
        ("again", 50),
        ("told", 300),
        ("revoked", 50),
        ("stays", 1),
        ("copied", 15),
    ] {
        let met = history.met.get(what).copied().unwrap_or_default();
        assert!(met >= least, "seed {seed}: {what} in {:?}", history.met);
    }
}

impl History {
    async fn pass_time(&mut self) {
        let time = &self.twins.time;
        match self.random.random_range(0..1000) {
            0..700 => {}
            700..900 => time.advance(self.random.random_range(0..300_000)).await,
            900..995 => time.advance(self.random.random_range(0..3_000_000)).await,
            995..998 => time.advance(self.random.random_range(0..400_000_000)).await,
            _ => time.set_back(self.random.random_range(0..10_000_000)).await,
        }
    }

    async fn decide(&mut self, context: &str) {
        let name = self.name(&["one", "two{}"]);
        let owner = self.name(&["a", "b", "c", "d", "e", "f", "g"]);
        let length = Millis(self.random.random_range(1..40) * 100);
        let token = match self.random.random_range(0..4) {
            0 => self.tokens.choose(&mut self.random).copied(),
            1 | 2 => self.tokens.last().copied(),
            _ => None,
        };
        match self.random.random_range(0..100) {
            0..55 => {
                let waiting = self.callers.waiting(&mut self.random);
                let decision = AcquireLock { name, owner, lease_duration: length, waiting };
                let acquisition = self.agree(&decision, context).await;
                self.callers.asked(&decision, &acquisition);
                match acquisition {
                    Acquisition::Acquired { lease, replayed } => {
                        self.record(if replayed { "replayed" } else { "acquired" });
                        self.tokens.push(lease.token);
                    }
                    Acquisition::Held { proceed: Proceed::Waits(_), .. } => self.record("waits"),
                    Acquisition::Held { .. } => self.record("held"),
                }
            }
            55..65 => {
                let lease_duration = self.random.random_bool(0.5).then_some(length);
                let decision = RenewLock { name, owner, token, lease_duration };
                match self.agree(&decision, context).await {
                    Renewal::Renewed(_) => self.record("renewed"),
                    Renewal::NotHeld => self.record("not held"),
                }
            }
            65..85 => match self.agree(&ReleaseLock { name, owner, token }, context).await {
                Release::Released => self.record("released"),
                Release::NotHeld => self.record("not held"),
            },
            85..89 => {
                let token = token.unwrap_or(0);
                if self.agree(&RevokeLock { name, owner, token }, context).await {
                    self.record("revoked")
                } else {
                    self.record("stays")
                }
            }
            89..92 => {
                self.agree(&GetLock { name }, context).await;
            }
            _ => {
                let heartbeat = self.callers.heartbeat(&mut self.random);
                let answer = self.agree(&HeartbeatLock { name, heartbeat }, context).await;
                if answer.again {
                    self.record("again");
                }
                if !answer.proceeding.is_empty() {
                    self.record("turn");
                }
            }
        }
    }

    async fn agree<D>(&mut self, decision: &D, context: &str) -> D::Outcome
    where
        D: Decision<State = Lock>,
    {
        self.twins.agree(&mut self.locks, decision, context).await
    }

    fn record(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
    }

    fn name(&mut self, names: &[&'static str]) -> Name {
        let name = names.choose(&mut self.random).unwrap();
        Name::parse(Bytes::from_static(name.as_bytes())).unwrap()
    }
}
