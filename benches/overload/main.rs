//! Overload: sends a server three times as many calls as it can answer, each with a deadline,
//! on both engines.
//!
//! A closed loop first measures the peak. Then an open loop sends three times that rate over 16
//! connections, with deadlines of 200 ms to 1 s, while a health check runs.
//!
//! `cargo bench --bench overload [-- PROGRAM …]` measures these tollgate builds; default: this
//! build.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a benchmark ends at its first failure"
)]

mod hpack;
mod line;
#[allow(dead_code, reason = "other benchmarks use the rest")]
#[path = "../process/mod.rs"]
mod process;

use std::{
    collections::{BTreeMap, VecDeque},
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use line::{End, Line};
use prost::Message;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::time::{MissedTickBehavior, interval};
use tollgate_client::pb;
use tollgate_core::time::monotonic;

const REDIS: u16 = 21_989;
const CONNECTIONS: usize = 16;
/// Calls in flight on each connection during the measurement of the peak.
const CLOSED: usize = 32;
const FACTOR: f64 = 3.0;
const WARM_UP: Duration = Duration::from_secs(1);
const HEALTH: &str = "/grpc.health.v1.Health/Check";
const HEALTH_TIME: Duration = Duration::from_secs(1);
const CHECK: &str = "/tollgate.v1.RateService/CheckRate";

#[derive(Debug, Clone, Copy)]
enum Pace {
    /// Number of calls in flight.
    Closed(usize),
    /// Calls a second.
    Open(f64),
}

#[derive(Debug, Default)]
struct Seen {
    came: u64,
    answered: u64,
    refused: Vec<Duration>,
    answered_after: Vec<Duration>,
    others: BTreeMap<String, u64>,
    /// Calls whose deadline passed before they were sent. `expired` counts calls that were sent.
    unsent: u64,
    expired: u64,
    closed: u64,
    lost: u64,
}

impl Seen {
    fn note(&mut self, end: End) {
        match end {
            End::Status(0, after) => {
                self.answered += 1;
                self.answered_after.push(after);
            }
            End::Status(8, after) => self.refused.push(after),
            End::Status(code, _) => *self.others.entry(format!("status {code}")).or_default() += 1,
            End::Expired => self.expired += 1,
            End::Reset => *self.others.entry("reset".to_owned()).or_default() += 1,
        }
    }

    fn join(&mut self, other: Seen) {
        self.came += other.came;
        self.answered += other.answered;
        self.refused.extend(other.refused);
        self.answered_after.extend(other.answered_after);
        other.others.into_iter().for_each(|(what, n)| *self.others.entry(what).or_default() += n);
        self.unsent += other.unsent;
        self.expired += other.expired;
        self.closed += other.closed;
        self.lost += other.lost;
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|one| !one.starts_with("--")).collect();
    let mut programs: Vec<PathBuf> = arguments.iter().map(PathBuf::from).collect();
    if programs.is_empty() {
        programs.push(env!("CARGO_BIN_EXE_tollgate").into());
    }
    let seconds = env::var("SECONDS_EACH").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let _redis = process::redis(REDIS);
    for engine in ["embedded".to_owned(), format!("redis://127.0.0.1:{REDIS}")] {
        for program in &programs {
            println!("{} {engine}", program.display());
            measure(program, &engine, Duration::from_secs(seconds)).await;
        }
    }
}

async fn measure(program: &Path, engine: &str, time: Duration) {
    let (server, url) = process::serve_by(program, ["--engine", engine]);
    let address: SocketAddr = url.trim_start_matches("http://").parse().unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = cpu(server.id());
    let peak = load(address, Pace::Closed(CLOSED), time / 2).await;
    let peak_cpu = cpu(server.id()) - before;
    let rate = peak.answered as f64 / (time / 2).as_secs_f64();
    println!("  peak {rate:.0} calls a second; others {:?}", peak.others);
    let each = peak_cpu / (rate * (time / 2 + WARM_UP).as_secs_f64()) * 1e6;
    println!("  processor of the server: {each:.1} µs a call");

    let before = cpu(server.id());
    let (mut seen, health) = tokio::join!(
        load(address, Pace::Open(FACTOR * rate), time),
        health(address, time + WARM_UP)
    );
    let used = (cpu(server.id()) - before) / (time + WARM_UP).as_secs_f64();
    let seconds = time.as_secs_f64();
    seen.refused.sort();
    seen.answered_after.sort();
    println!(
        "  open loop: {:.0} calls a second came, {:.0} answered ({:.0} % of the peak), {:.0} refused, \
         {:.0} expired, {:.0} expired unsent; {} connections closed with {} calls; others {:?}",
        seen.came as f64 / seconds,
        seen.answered as f64 / seconds,
        seen.answered as f64 / seconds / rate * 100.0,
        seen.refused.len() as f64 / seconds,
        seen.expired as f64 / seconds,
        seen.unsent as f64 / seconds,
        seen.closed,
        seen.lost,
        seen.others,
    );
    println!(
        "  refused after {:?} (p50), {:?} (p99); answered after {:?}, {:?}; health failed {} of \
         {}, slowest {:?}; the server used {used:.2} cores",
        at(&seen.refused, 50),
        at(&seen.refused, 99),
        at(&seen.answered_after, 50),
        at(&seen.answered_after, 99),
        health.1,
        health.0,
        health.2,
    );
}

fn at(sorted: &[Duration], percent: usize) -> Duration {
    sorted.get(sorted.len() * percent / 100).copied().unwrap_or_default()
}

/// CPU time of a process, in seconds.
fn cpu(id: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

async fn load(address: SocketAddr, pace: Pace, time: Duration) -> Seen {
    let lines: Vec<_> =
        (0..CONNECTIONS).map(|n| tokio::spawn(drive(address, pace, time, n as u64))).collect();
    let mut seen = Seen::default();
    for line in lines {
        seen.join(line.await.unwrap());
    }
    seen
}

async fn drive(address: SocketAddr, pace: Pace, time: Duration, number: u64) -> Seen {
    let mut dice = StdRng::seed_from_u64(number);
    let message = check(number).encode_to_vec();
    let mut line = Line::open(address, CHECK, &message).await.expect("the server listens");
    let (mut seen, mut waiting) = (Seen::default(), VecDeque::<Instant>::new());
    let mut tick = interval(Duration::from_millis(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let begun = monotonic();
    let (mut came, mut counts) = (0u64, false);
    loop {
        let readable = tokio::select! {
            readable = line.readable() => Some(readable),
            _ = tick.tick() => None,
        };
        let now = monotonic();
        let mut went = readable.map_or(Ok(()), |readable| readable);
        if went.is_ok() {
            went = line.read(now, |end| seen.note(end));
        }
        line.expire(now, |end| seen.note(end));
        let since = now - begun;
        if !counts && since > WARM_UP {
            (seen, counts) = (Seen::default(), true);
        }
        if since > WARM_UP + time {
            return seen;
        }
        match pace {
            Pace::Closed(most) => {
                while line.in_flight() < most && line.has_room() {
                    line.call(now, now + Duration::from_secs(5));
                }
            }
            Pace::Open(rate) => {
                let due = (since.as_secs_f64() * rate / CONNECTIONS as f64) as u64;
                for _ in came..due {
                    seen.came += 1;
                    waiting.push_back(now + Duration::from_millis(dice.random_range(200..=1000)));
                }
                came = due;
                while let Some(deadline) = waiting.front() {
                    if *deadline <= now {
                        seen.unsent += 1;
                    } else if line.has_room() {
                        line.call(now, *deadline);
                    } else {
                        break;
                    }
                    waiting.pop_front();
                }
            }
        }
        went = went.and_then(|()| line.flush());
        if went.is_err() || line.is_going {
            seen.closed += 1;
            seen.lost += line.in_flight() as u64;
            line = Line::open(address, CHECK, &message).await.expect("the server listens");
        }
    }
}

fn check(number: u64) -> pb::CheckRateRequest {
    use pb::check_rate_request::Against;
    let limit = pb::Limit {
        max: Some(1_000_000_000),
        window: Some(prost_types::Duration { seconds: 3600, nanos: 0 }),
        ..Default::default()
    };
    let rule = pb::Rule { limits: vec![limit], ..Default::default() };
    pb::CheckRateRequest {
        key: format!("key-{number}"),
        against: Some(Against::Rule(rule)),
        ..Default::default()
    }
}

/// Returns the number of health checks, of failed ones, and the longest time.
async fn health(address: SocketAddr, time: Duration) -> (usize, usize, Duration) {
    let mut line = Line::open(address, HEALTH, &[]).await.expect("the server listens");
    let (begun, mut made, mut failed, mut slowest) = (monotonic(), 0, 0, Duration::ZERO);
    while begun.elapsed() < time {
        let (start, mut ended) = (monotonic(), None);
        line.call(start, start + HEALTH_TIME);
        made += 1;
        while ended.is_none() && !line.is_going {
            let now = monotonic();
            if line.flush().is_err() || line.read(now, |end| ended = Some(end)).is_err() {
                break;
            }
            line.expire(now, |end| ended = Some(end));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        failed += usize::from(!matches!(ended, Some(End::Status(0, _))));
        slowest = slowest.max(start.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    (made, failed, slowest)
}
