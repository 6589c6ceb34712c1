//! The longest that one decision, or one step of the sweep, keeps the processor: while a
//! pool grows to a million leases that lapse together and are forgotten, and while a
//! million rate keys come and go. And what each takes of memory.
//!
//! `cargo bench --bench pauses [-- --count N] [-- --folder F]`
//!
//! On an engine in this process whose clock is stepped. Times are the thread's own time on the
//! processor: what else the machine does is no pause of the engine's. Beside a sweep a second
//! thread asks for the pool all the time, by the clock: what it waits for the sweep is in that.
//! With a folder, the engine keeps its data there.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "benchmarks")]
#![allow(missing_docs, reason = "benchmarks")]

use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use hdrhistogram::Histogram;
use mimalloc::MiMalloc;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;
use tollgate::{
    admission::{
        AdmitTask, CompleteTask, ConfigurePool, GetPool, Outcome, Overrides, Settings, SweepPool,
        TaskName,
    },
    engine::{
        Engine,
        embedded::{Disk, Durability, Embedded},
    },
    names::Name,
    rate::{Algorithm, CheckRate, LimitSpec, MeterName, Rule, RuleSpec},
    time::{Clock, Millis, monotonic},
};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const START: u64 = 1_800_000_000_000_000;
const SECOND: u64 = 1_000_000;
/// How long what has ended is swept, on the machine's clock.
const SWEPT_FOR: Duration = Duration::from_secs(5);

fn flag(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn name(text: &str) -> Name {
    Name::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

/// This thread's time on the processor, in ns.
fn worked() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn resident() -> usize {
    memory_stats::memory_stats().unwrap().physical_mem
}

/// Times of one kind of work.
struct Times(&'static str, Histogram<u64>);

impl Times {
    fn of(what: &'static str) -> Times {
        Times(what, Histogram::new(3).unwrap())
    }

    fn note(&mut self, since: u64) {
        self.1.record(worked() - since).unwrap();
    }
}

impl Drop for Times {
    fn drop(&mut self) {
        let Times(what, times) = self;
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        println!(
            "| {what} | {} | {:.1} | {:.1} | {:.1} |",
            times.len(),
            times.mean() / 1000.0,
            micros(times.value_at_quantile(0.9999)),
            micros(times.max()),
        );
    }
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
        D: tollgate::decision::Decision<State: tollgate::engine::embedded::Kept>,
    {
        let (deadline, before) = (monotonic() + Duration::from_secs(60), worked());
        let outcome = self.engine.run(decision, deadline).await.unwrap();
        times.note(before);
        outcome
    }

    fn admit(&self, pool: &str, number: usize) -> AdmitTask {
        AdmitTask {
            pool: name(pool),
            device: name(&format!("device-{number:07}")),
            task: Some(name("task")),
            lease_duration: None,
            settings: self.settings,
            place: None,
        }
    }

    fn complete(&self, pool: &str, number: usize) -> CompleteTask {
        let AdmitTask { pool, device, task, settings, .. } = self.admit(pool, number);
        let name = TaskName { pool, device, task: task.unwrap() };
        let (token, outcome, result) = (None, Outcome::Succeeded, Bytes::new());
        CompleteTask { name, token, outcome, result, settings }
    }

    /// A grant and its result, in turn.
    async fn pairs(&self, what: &'static str, pool: &str, from: usize) {
        let mut times = Times::of(what);
        for number in from..from + 50_000 {
            self.run(&self.admit(pool, number), &mut times).await;
            self.run(&self.complete(pool, number), &mut times).await;
            self.pass(1);
        }
    }

    /// Asks for a task of the pool until it is to end, beside whatever is done to the pool.
    fn ask(&self, end: Arc<AtomicBool>) -> JoinHandle<()> {
        let (engine, asked) = (self.engine.clone(), self.admit("crowd", 9_999_999));
        thread::spawn(move || {
            let mut times = Times::of("AdmitTask beside it, by the clock");
            let runtime = Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                while !end.load(Ordering::Relaxed) {
                    let before = monotonic();
                    let deadline = before + Duration::from_secs(60);
                    engine.run(&asked, deadline).await.unwrap();
                    times.1.record(before.elapsed().as_nanos() as u64).unwrap();
                }
            });
        })
    }

    /// What the server does beside its calls, a step of it at a time.
    async fn sweep(&self, what: [&'static str; 2]) {
        let end_asking = Arc::new(AtomicBool::new(false));
        let asking = self.ask(end_asking.clone());
        let (mut steps, mut passes) = (Times::of(what[0]), Times::of(what[1]));
        let settings = self.settings;
        let mut maintain: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(self.engine.maintain());
        let mut sweep: Pin<Box<dyn Future<Output = ()> + '_>> =
            Box::pin(self.engine.sweep(move |pool| SweepPool { pool, settings }));
        let mut end = pin!(tokio::time::sleep(SWEPT_FOR));
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
        // Half of them end, then all.
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

    fn check(&self, rule: &Arc<Rule>, number: usize) -> CheckRate {
        let key = name(&format!("key-{number:012}"));
        CheckRate { name: MeterName::new(None, &key), rule: rule.clone(), cost: 1, request: None }
    }

    async fn rates(&self) {
        let limit = LimitSpec {
            name: b"minute".to_vec(),
            max: Some(10),
            window: Some(Millis::from_secs(60)),
            algorithm: Some(Algorithm::FixedWindow),
            burst: None,
        };
        let rule = RuleSpec { limits: vec![limit], ..RuleSpec::default() }.build().unwrap();
        let rule = Arc::new(rule);
        {
            let mut times = Times::of("CheckRate beside 1,000 keys");
            for number in 0..100_000 {
                self.run(&self.check(&rule, number % 1000), &mut times).await;
            }
        }
        let before = resident();
        {
            let mut times = Times::of("CheckRate, a new key");
            for number in 1000..self.count {
                self.run(&self.check(&rule, number), &mut times).await;
            }
        }
        println!("{} bytes a key", (resident() - before) / self.count);
        {
            let mut times = Times::of("CheckRate beside all keys");
            for number in 0..100_000 {
                self.run(&self.check(&rule, number * 7919 % self.count), &mut times).await;
            }
        }
        self.pass(61 * SECOND);
        self.sweep(["sweep of lapsed keys, a step", "its decisions, a step"]).await;
        println!("{} bytes a key are left", resident().saturating_sub(before) / self.count);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
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
    println!("µs of processor time | number | mean | p99.99 | longest");
    bench.pairs("AdmitTask and CompleteTask, a small pool", "small", 0).await;
    bench.leases().await;
    bench.rates().await;
}
