//! Pauses: the longest CPU time of one decision and of one sweep step, and memory per entry.
//! A pool grows to a million leases that expire together and are forgotten; a million rate keys
//! appear and lapse.
//!
//! `cargo bench --bench pauses [-- --count N] [-- --folder F]`
//!
//! The engine runs in this process, with a stepped clock. Times are CPU times of the thread, so
//! that other work of the machine does not count as a pause of the engine. During a sweep a second
//! thread constantly makes calls about the pool and about keys of all shards. Its times are
//! wall-clock times minus the time that Linux reports as waiting for a core. They include waiting
//! for the sweep and for other threads, even while the sweep's thread waits for a core with the
//! shard locked. With a folder, the engine has a data directory there. A control before and after
//! measures the pauses that the machine adds to plain arithmetic.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "benchmarks")]
#![allow(missing_docs, reason = "benchmarks")]

mod beside;
mod control;
mod times;

use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::time::sleep;
use tollgate::server::allocator::{self, Allocator};
use tollgate_core::{
    Decision,
    admission::{
        AdmitTask, CompleteTask, ConfigurePool, GetPool, Outcome, Overrides, Settings, SweepPool,
        TaskName,
    },
    error::Error,
    names::Name,
    rate::{Algorithm, CheckRate, LimitSpec, MeterName, Rule, RuleSpec},
    time::{Clock, Millis, monotonic},
};
use tollgate_engine::{
    Engine,
    embedded::{Disk, Durability, Embedded, Sharded},
};

use beside::ask;
use control::control;
use times::{Times, resident, worked};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

const START: u64 = 1_800_000_000_000_000;
const SECOND: u64 = 1_000_000;
/// Duration of a sweep, in real time.
pub(crate) const SWEPT_FOR: Duration = Duration::from_secs(5);
/// Deadline of a decision.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

fn flag(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn name(text: &str) -> Name {
    Name::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

struct Bench {
    engine: Arc<Engine>,
    clock: Arc<AtomicU64>,
    settings: Settings,
    count: usize,
}

impl Bench {
    fn pass(&self, micros: u64) {
        self.clock.fetch_add(micros, Ordering::SeqCst);
    }

    async fn run<D>(&self, decision: &D, times: &mut Times) -> D::Outcome
    where
        D: Decision<State: Sharded>,
    {
        loop {
            let before = worked();
            match self.engine.store(decision, monotonic() + PATIENCE).await {
                // Changes arrive faster than the disk writes them.
                Err(Error::Overloaded) => sleep(Duration::from_millis(1)).await,
                outcome => {
                    times.note(before);
                    return outcome.unwrap();
                }
            }
        }
    }

    fn admit(&self, pool: &str, number: usize) -> AdmitTask {
        AdmitTask {
            pool: name(pool),
            device: name(&format!("device-{number:07}")),
            task: Some(name("task")),
            lease_duration: None,
            settings: self.settings,
            waiting: None,
        }
    }

    fn complete(&self, pool: &str, number: usize) -> CompleteTask {
        let AdmitTask { pool, device, task, settings, .. } = self.admit(pool, number);
        let name = TaskName { pool, device, task: task.unwrap() };
        let (token, outcome, result) = (None, Outcome::Succeeded, Bytes::new());
        CompleteTask { name, token, outcome, result, settings }
    }

    /// Grants and completes tasks, one after the other.
    async fn pairs(&self, what: &'static str, pool: &str, from: usize) {
        let mut times = Times::of(what);
        for number in from..from + 50_000 {
            self.run(&self.admit(pool, number), &mut times).await;
            self.run(&self.complete(pool, number), &mut times).await;
            self.pass(1);
        }
    }

    /// Runs the server's background work in single steps.
    async fn sweep(&self, what: [&'static str; 2]) {
        // By now a data directory has stored all earlier changes.
        sleep(Duration::from_secs(3)).await;
        let end_asking = Arc::new(AtomicBool::new(false));
        let task = self.admit("crowd", 9_999_999);
        let asking = ask(self.engine.clone(), task, end_asking.clone());
        let (mut steps, mut passes) = (Times::of(what[0]), Times::of(what[1]));
        let settings = self.settings;
        let mut maintain: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(self.engine.maintain());
        let mut sweep: Pin<Box<dyn Future<Output = ()> + '_>> =
            Box::pin(self.engine.sweep(move |pool| SweepPool { pool, settings }));
        let mut end = pin!(sleep(SWEPT_FOR));
        std::future::poll_fn(|context| {
            let before = worked();
            let _ = maintain.as_mut().poll(context);
            steps.note(before);
            let before = worked();
            let _ = sweep.as_mut().poll(context);
            passes.note(before);
            end.as_mut().poll(context)
        })
        .await;
        end_asking.store(true, Ordering::Relaxed);
        asking.join().unwrap();
    }

    async fn leases(&self) {
        let before = resident();
        {
            let mut times = Times::of("AdmitTask, the pool grows");
            for number in 0..self.count {
                self.run(&self.admit("crowd", number), &mut times).await;
                self.pass(1);
            }
        }
        println!("{} bytes a lease", (resident() - before) / self.count);
        self.pairs("AdmitTask and CompleteTask beside them", "crowd", self.count).await;
        {
            let mut times = Times::of("AdmitTask, FULL, the capacity halved");
            let half = Some(self.count as u32 / 2);
            self.configure(half, &mut times).await;
            for number in 0..1000 {
                self.run(&self.admit("crowd", 3 * self.count + number), &mut times).await;
            }
            self.configure(None, &mut times).await;
        }
        // First half of the leases expire, then all of them.
        self.pass(self.settings.lease_duration.micros() - self.count as u64 / 2);
        for what in ["any decision, half of them have lapsed", "the same, all have"] {
            let mut times = Times::of(what);
            for number in 0..5_000 {
                self.run(&self.admit("crowd", 2 * self.count + number), &mut times).await;
                let view = GetPool { pool: name("crowd"), settings: self.settings };
                self.run(&view, &mut times).await;
                self.run(&self.complete("crowd", number), &mut times).await;
            }
            drop(times);
            self.pass(self.count as u64 + SECOND);
        }
        self.sweep(["sweep of lapsed leases, a step", "its decisions, a step"]).await;
        self.pass(self.settings.retention.micros());
        self.pairs("AdmitTask and CompleteTask, all to be forgotten", "crowd", 4 * self.count)
            .await;
        self.sweep(["sweep of forgotten tasks, a step", "its decisions, a step"]).await;
        println!("{} bytes a lease are left", resident().saturating_sub(before) / self.count);
    }

    async fn configure(&self, capacity: Option<u32>, times: &mut Times) {
        let overrides = Overrides { capacity, ..Overrides::default() };
        let (pool, settings) = (name("crowd"), self.settings);
        self.run(&ConfigurePool { pool, overrides, reset: capacity.is_none(), settings }, times)
            .await;
    }

    async fn rates(&self) {
        let rule = rule(10);
        {
            let mut times = Times::of("CheckRate beside 1,000 keys");
            for number in 0..100_000 {
                self.run(&check(&rule, number % 1000), &mut times).await;
            }
        }
        let before = resident();
        {
            let mut times = Times::of("CheckRate, a new key");
            for number in 1000..self.count {
                self.run(&check(&rule, number), &mut times).await;
            }
        }
        println!("{} bytes a key", (resident() - before) / self.count);
        {
            let mut times = Times::of("CheckRate beside all keys");
            for number in 0..100_000 {
                self.run(&check(&rule, number * 7919 % self.count), &mut times).await;
            }
        }
        self.pass(61 * SECOND);
        self.sweep(["sweep of lapsed keys, a step", "its decisions, a step"]).await;
        println!("{} bytes a key are left", resident().saturating_sub(before) / self.count);
    }
}

pub(crate) fn rule(max: u64) -> Arc<Rule> {
    let limit = LimitSpec {
        name: b"minute".to_vec(),
        max: Some(max),
        window: Some(Millis::from_secs(60)),
        algorithm: Some(Algorithm::FixedWindow),
        burst: None,
    };
    Arc::new(RuleSpec { limits: vec![limit], ..RuleSpec::default() }.build().unwrap())
}

pub(crate) fn check(rule: &Arc<Rule>, number: usize) -> CheckRate {
    let key = name(&format!("key-{number:012}"));
    CheckRate { name: MeterName::new(None, &key), rule: rule.clone(), cost: 1, request: None }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    allocator::purge_apart();
    let count = flag("--count").map_or(1_000_000, |text| text.parse().expect("a number"));
    let clock = Arc::new(AtomicU64::new(START));
    let source = Clock::Stepped(clock.clone());
    let engine = match flag("--folder") {
        None => Embedded::new(source),
        Some(folder) => {
            let disk = Disk::directory(folder.as_ref()).unwrap();
            Embedded::open(source, disk, Durability::Interval).unwrap()
        }
    };
    let settings = Settings {
        capacity: 4 * count as u32,
        lease_duration: Millis::from_secs(3600),
        ..Settings::default()
    };
    let bench = Bench { engine: Arc::new(Engine::Embedded(engine)), clock, settings, count };
    println!("µs of processor time | number | mean | p99.99 | longest | above 1 ms | in all, s");
    control();
    bench.pairs("AdmitTask and CompleteTask, a small pool", "small", 0).await;
    bench.leases().await;
    bench.rates().await;
    control();
}
