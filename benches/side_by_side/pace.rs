//! Latency of calls at half the peak rate, in an open loop.

use std::{collections::BTreeMap, fmt};

use crate::{
    kind::Kind,
    open_loop,
    options::Options,
    results::Results,
    row::{ECHO, EMBEDDED, LANES, OTHER, Row},
    run::{Run, median, otherwise},
    table::{rate, time},
};

/// Number of connections, as in loads with 256 calls in flight.
const CONNECTIONS: usize = 16;

/// Results of a row.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Calls a second that were planned.
    wanted: f64,
    /// Calls a second that were answered.
    rate: f64,
    /// In µs.
    p50: f64,
    /// In µs.
    pub(crate) p99: f64,
    /// CPU of the server with its Redis, and of the load, in cores.
    cores: [f64; 2],
    /// Unexpected replies, with their numbers.
    wrong: BTreeMap<String, u64>,
}

/// Runs the pairs load at half of each row's peak, against each row in turn, several times.
pub(crate) async fn measure(
    options: &Options,
    rows: &mut [Row],
    results: &Results,
) -> Vec<(&'static str, Pace)> {
    let mut runs: BTreeMap<_, Vec<Run>> = BTreeMap::new();
    let wanted = |row: &str| {
        let known = [ECHO, EMBEDDED, OTHER, LANES].into_iter().find(|known| *known == row)?;
        Some((known, results.peak(Kind::Pairs, known)? / 2.0))
    };
    for _ in 0..options.reps() {
        for row in rows.iter_mut() {
            let Some((name, wanted)) = wanted(row.name) else { continue };
            let load = row.loads[&Kind::Pairs].clone();
            let run = open_loop::run(row, &load, wanted, CONNECTIONS, options.timing()).await;
            runs.entry(name).or_default().push(run);
        }
    }
    let names = rows.iter().filter_map(|row| wanted(row.name));
    names.map(|(name, wanted)| (name, Pace::new(wanted, &runs[name]))).collect()
}

impl Pace {
    fn new(wanted: f64, runs: &[Run]) -> Pace {
        let of = |value: fn(&Run) -> f64| median(runs.iter().map(value));
        let mut wrong = BTreeMap::new();
        for (what, count) in runs.iter().flat_map(|run| &run.wrong) {
            *wrong.entry(what.clone()).or_default() += count;
        }
        Pace {
            wanted,
            rate: of(|run| run.rate),
            p50: of(|run| run.p50),
            p99: of(|run| run.p99),
            cores: [
                of(|run| (run.server + run.redis) * run.rate / 1e6),
                of(|run| run.generator * run.rate / 1e6),
            ],
            wrong,
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [server, load] = self.cores;
        write!(
            f,
            "{} of {} a second, p50 {}, p99 {}, {server:.2} cores for the server and {load:.2} \
             for the load; {}",
            rate(self.rate),
            rate(self.wanted),
            time(self.p50),
            time(self.p99),
            otherwise(&self.wrong)
        )
    }
}
