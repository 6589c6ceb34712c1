//! Results of a run, and medians of several.

use std::collections::BTreeMap;

use crate::{meter::Reading, tally::Tally};

/// Results of one run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Calls a second with the expected reply.
    pub(crate) rate: f64,
    /// Median latency of these calls, in µs.
    pub(crate) p50: f64,
    /// 99th percentile of their latency, in µs.
    pub(crate) p99: f64,
    /// CPU of the server, µs a call.
    pub(crate) server: f64,
    /// CPU of Redis, µs a call.
    pub(crate) redis: f64,
    /// CPU of the load, µs a call.
    pub(crate) generator: f64,
    /// Time of scripts by Redis's statistics, µs a call.
    pub(crate) script: f64,
    /// Script calls per call.
    pub(crate) scripts: f64,
    /// Calls a second refused with RESOURCE_EXHAUSTED.
    pub(crate) refused: f64,
    /// Unexpected replies, with their numbers.
    pub(crate) wrong: BTreeMap<String, u64>,
}

impl Run {
    pub(crate) fn new(tally: Tally, seconds: f64, used: Reading) -> Run {
        let Tally { mut latencies, refused, wrong } = tally;
        latencies.sort_unstable();
        let calls = latencies.len();
        let each = |amount: u64| amount as f64 / calls.max(1) as f64;
        Run {
            rate: calls as f64 / seconds,
            p50: quantile(&latencies, 0.5),
            p99: quantile(&latencies, 0.99),
            server: each(used.server) / 1000.0,
            redis: each(used.redis) / 1000.0,
            generator: each(used.generator) / 1000.0,
            script: each(used.scripts_micros),
            scripts: each(used.scripts),
            refused: refused as f64 / seconds,
            wrong,
        }
    }
}

impl Run {
    /// Returns the same figures by decision, for calls of several decisions. Latencies stay those
    /// of calls.
    pub(crate) fn by_decision(self, decisions: f64) -> Run {
        Run {
            rate: self.rate * decisions,
            server: self.server / decisions,
            redis: self.redis / decisions,
            generator: self.generator / decisions,
            script: self.script / decisions,
            scripts: self.scripts / decisions,
            ..self
        }
    }
}

/// Returns the number of unexpected replies, and the most frequent one.
pub(crate) fn otherwise(wrong: &BTreeMap<String, u64>) -> String {
    let all: u64 = wrong.values().sum();
    match wrong.iter().max_by_key(|(_, count)| **count) {
        Some((what, _)) => format!("{all} otherwise ({what})"),
        None => "none otherwise".to_owned(),
    }
}

/// Returns a quantile in µs of sorted latencies in ns.
fn quantile(sorted: &[u32], quantile: f64) -> f64 {
    let at = (sorted.len() as f64 * quantile) as usize;
    sorted.get(at).or(sorted.last()).map_or(0.0, |nanos| f64::from(*nanos) / 1000.0)
}

/// Returns the median; of an even number of values, the mean of the middle two.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        odd if !odd.is_multiple_of(2) => values[odd / 2],
        even => f64::midpoint(values[even / 2 - 1], values[even / 2]),
    }
}
