//! Both executors of every admission decision on the same random histories with stepped time. All
//! outcomes and the remaining state must be equal.
//!
//! Lengths and steps are multiples of 100 ms, so that calls often fall on the exact instant at
//! which something ends.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tollgate_core::{
    Decision,
    admission::{
        AdmitTask, CancelTask, CompleteTask, ConfigurePool, CountHeld, EnqueueTask, EvictTask,
        GetPool, HeartbeatPool, LeaseCursor, ListLeases, ListTasks, Outcome, Overrides, Pool,
        QueueState, Queued, ReadEvents, RequeueTask, Settings, SweepPool, Task, TaskCursor,
        TaskName, TaskState,
    },
    collections::After,
    names::Name,
    record::Source,
    time::{Millis, Timestamp},
};

mod allowance;
mod crowd;
mod left;
mod together;
mod unwaited;

use left::settings;

use crate::support::{
    callers::Callers,
    twins::{States, Twins, play},
};

const STEPS: usize = 21_000;
const SEEDS: [u64; 4] = [1, 2, 3, 4];
/// Steps between two comparisons of wake-ups; each comparison costs a round trip.
const HINTS_EVERY: usize = 20;

/// One random history on both executors.
struct History {
    twins: Twins,
    pools: States<Pool>,
    random: ChaCha8Rng,
    tokens: Vec<u64>,
    cursors: Vec<LeaseCursor>,
    listed: Vec<(bool, TaskCursor)>,
    seen: Vec<u64>,
    callers: Callers,
    hints: usize,
    kinds: HashSet<u8>,
    /// The verdicts of RequeueTask.
    requeued: HashSet<String>,
    /// Number of revocations without effect, and number of freed slots.
    revoked: [usize; 2],
}

#[tokio::test]
async fn both_executors_of_every_decision_agree() {
    play(&SEEDS, history).await;
}

async fn history(seed: u64) {
    let random = ChaCha8Rng::seed_from_u64(seed);
    let (pools, tokens, cursors) = (States::new(), Vec::new(), Vec::new());
    let callers = Callers::default();
    let twins = Twins::listening(&callers.channels()).await;
    let (hints, kinds, requeued) = (0, HashSet::new(), HashSet::new());
    let (listed, seen, revoked) = (Vec::new(), vec![0], [0; 2]);
    let mut history = History {
        twins,
        pools,
        random,
        tokens,
        cursors,
        listed,
        seen,
        callers,
        hints,
        kinds,
        requeued,
        revoked,
    };
    let (mut compared, mut copied) = (0, 0);
    for step in 0..STEPS {
        let context = format!("seed {seed}, step {step}");
        history.pass_time().await;
        history.decide(&context).await;
        if step % HINTS_EVERY == 0 {
            history.hints += history.twins.agree_on_wake_ups(&context).await;
        }
        if step % 500 == 0 {
            copied += history.copy(step, &context).await;
        }
        if step % 1000 == 999 {
            compared += history.compare_state(&context).await;
        }
    }
    assert!(compared > 100, "seed {seed}: only {compared} records to compare");
    assert!(copied > 100, "seed {seed}: only {copied} entries copied");
    assert_eq!(history.kinds.len(), 10, "seed {seed}: some kinds of events did not occur");
    // FULL needs a full queue: tests/it/admission/requeue.rs.
    assert_eq!(history.requeued.len(), 5, "seed {seed}: {:?}", history.requeued);
    assert!(history.revoked.iter().all(|of| *of > 20), "seed {seed}: {:?}", history.revoked);
    assert!(history.hints > 3, "seed {seed}: only {} wake-ups", history.hints);
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

    /// Steps to the exact instant at which something of a random task ends.
    async fn pass_to_an_end(&mut self) {
        let now = self.twins.time.now();
        let tasks = self.pools.values().flat_map(|pool| pool.tasks(Timestamp(now)));
        let ends = tasks.flat_map(|(_, task)| {
            let queued = task.queued.as_ref().and_then(|queued| queued.ends);
            [task.lease.expire, task.slot_end, task.forget].into_iter().chain(queued)
        });
        let mut ends: Vec<u64> =
            ends.map(|end| end.0).filter(|end| *end > now && *end < u64::MAX).collect();
        ends.sort();
        if let Some(end) = ends.choose(&mut self.random) {
            self.twins.time.advance(end - now).await;
        }
    }

    async fn decide(&mut self, context: &str) {
        let pool = self.name(&["one", "two", "three{}"]);
        let settings = settings(&pool);
        let name = self.task_name(&pool);
        match self.random.random_range(0..160) {
            150.. => self.revoke(&pool, context).await,
            140.. => self.decide_together(context).await,
            110..140 => self.decide_of_queue(name, settings, context).await,
            0..40 | 100..110 => {
                let decision = self.admit(name, settings);
                if pool.as_str() != "one" {
                    return self.admit_unwaited(&decision, context).await;
                }
                let admission = self.agree(&decision, context).await;
                self.asked(&decision, &admission);
            }
            40..65 => {
                let decision = self.complete(name, settings);
                self.agree(&decision, context).await;
            }
            65..80 => {
                let decision = self.renew(name, settings);
                self.agree(&decision, context).await;
            }
            80..86 => {
                let reason = Bytes::from_static(b"a reason");
                self.agree(&EvictTask { name, reason, settings }, context).await;
            }
            86..90 => {
                self.agree(&GetPool { pool, settings }, context).await;
            }
            90..92 => {
                self.agree(&CountHeld { pool }, context).await;
            }
            92..95 => {
                let heartbeat = self.callers.heartbeat(&mut self.random);
                self.agree(&HeartbeatPool { pool, settings, heartbeat }, context).await;
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
                    max_attempts: self.maybe(1..4).map(|attempts| attempts as u32),
                };
                let reset = self.random.random_bool(0.2);
                let decision = ConfigurePool { pool, overrides, reset, settings };
                self.agree(&decision, context).await;
            }
        }
    }

    /// Makes a random decision about queued tasks or events.
    async fn decide_of_queue(&mut self, name: TaskName, settings: Settings, context: &str) {
        let pool = name.pool.clone();
        match self.random.random_range(0..30) {
            0..12 => {
                let payload =
                    Bytes::from(vec![self.random.random(); self.random.random_range(0..9)]);
                let now = self.twins.time.now();
                let ends = self.maybe(0..30).map(|steps| Timestamp(now + steps * 100_000));
                self.agree(&EnqueueTask { name, payload, ends, settings }, context).await;
            }
            12..14 => {
                self.agree(&CancelTask { name, settings }, context).await;
            }
            14..18 => {
                let verdict = self.agree(&RequeueTask { name, settings }, context).await;
                self.requeued.insert(format!("{verdict:?}"));
            }
            18..21 => {
                self.agree(&SweepPool { pool, settings }, context).await;
            }
            21..25 => {
                let left = self.random.random_bool(0.5);
                let mut cursors = self.listed.iter().filter(|(of, _)| *of == left);
                let after = cursors.next_back().map(|(_, cursor)| cursor.clone());
                let after = after.filter(|_| self.random.random_bool(0.5));
                let limit = self.random.random_range(1..4);
                let page = self.agree(&ListTasks { pool, left, limit, after }, context).await;
                self.listed.extend(page.next.map(|cursor| (left, cursor)));
            }
            _ => {
                let number = self.seen.choose(&mut self.random).copied();
                let number = number.filter(|_| self.random.random_bool(0.9));
                let after = After { number, limit: self.random.random_range(1..30) };
                let page = self.agree(&ReadEvents { pool, after }, context).await;
                self.seen.extend([page.last, page.after]);
                self.kinds.extend(page.events.iter().map(|event| event.kind as u8));
            }
        }
    }

    /// Copies a pool by export and import.
    async fn copy(&mut self, step: usize, context: &str) -> usize {
        let now = Timestamp(self.twins.time.now());
        let from = self.name(&["one", "two", "three{}"]);
        let pool = self.pools.get(from.as_bytes());
        let tasks = pool.into_iter().flat_map(|pool| pool.tasks(now));
        let tasks = tasks.map(|(member, _)| Source::new(b't', member));
        let mut sources = vec![Source::new(b'p', b""), Source::new(b'q', b"")];
        sources.extend(tasks.chain([Source::new(b'x', b"")]));
        let to = format!("copy {step}");
        let names = [from.as_bytes(), to.as_bytes()];
        self.twins.copy(&mut self.pools, names, &sources, context).await
    }

    async fn agree<D>(&mut self, decision: &D, context: &str) -> D::Outcome
    where
        D: Decision<State = Pool>,
    {
        self.twins.agree(&mut self.pools, decision, context).await
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
