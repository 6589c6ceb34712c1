//! The command line.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Parser, ValueEnum};

use crate::{closed_loop::Timing, kind::Kind};

/// Compares Tollgate with a bare echo and with its peers, all on this machine and in one run.
///
/// Rows: an echo by tonic with the same set-up as the server; Tollgate in memory, on Redis with
/// one decision per script call, and on Redis by default. Peers: throttlecrab,
/// envoyproxy/ratelimit and gubernator, if cargo and go can install them into target/peers;
/// limitador, if `limitador-server` is on the PATH.
///
/// Runs each load against each row in turn, with each number of calls in flight, several times.
/// Prints medians and the targets. Needs Linux and redis-server. A complete run also writes the
/// plot and the generated part of benches/README.md.
#[derive(Debug, Parser)]
#[command(name = "cargo bench --bench side_by_side --", after_help = EXAMPLES)]
pub(crate) struct Options {
    /// A first look in about two minutes: one short run each, no peers, writes nothing
    #[arg(long)]
    pub(crate) quick: bool,

    /// Runs of each row [default: 5; quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=101))]
    reps: Option<u32>,

    /// Counted time of a run [default: 1s; quick: 200ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    time: Option<Duration>,

    /// Warm-up before the counted time [default: 300ms; quick: 100ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    warm_up: Option<Duration>,

    /// Calls in flight; 256 are 16 on each of 16 connections. At most 16 for calls of 100
    /// decisions
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,16,64,256,1024")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) in_flight: Vec<u32>,

    /// Loads to run [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    loads: Vec<Kind>,

    /// Measures this build of tollgate instead of the current one
    #[arg(long, value_name = "FILE")]
    pub(crate) server: Option<PathBuf>,

    /// Measures another build of tollgate as additional rows, in memory and over Redis
    #[arg(long, value_name = "FILE")]
    pub(crate) other: Option<PathBuf>,

    /// Skips the peers
    #[arg(long)]
    no_peers: bool,

    /// Skips Redis: measures only the echo and servers with counts in memory
    #[arg(long)]
    pub(crate) no_redis: bool,

    /// Also measures Tollgate on a Redis Cluster of three primaries
    #[arg(long, conflicts_with = "no_redis")]
    pub(crate) cluster: bool,

    /// Measurements besides the loads [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "no_extras")]
    extras: Vec<Extra>,

    /// Runs only the loads
    #[arg(long)]
    no_extras: bool,

    /// Runs no loads, and only the extras that need none: envoy, crowd, idle
    #[arg(long, conflicts_with = "no_extras")]
    pub(crate) no_loads: bool,

    /// Writes nothing into benches/
    #[arg(long)]
    no_write: bool,

    /// First port on loopback for Redis, the echo and peers
    #[arg(long, value_name = "PORT", default_value_t = 21_200)]
    pub(crate) ports: u16,

    /// Runs as the echo
    #[arg(long, value_name = "ADDRESS", hide = true)]
    pub(crate) echo: Option<SocketAddr>,

    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// A measurement besides the loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Extra {
    /// A PING to Redis and its answer
    Ping,
    /// Latency at half the peak rate
    Pace,
    /// More calls in flight than the server handles, on Redis
    Overload,
    /// The same load by ghz
    Clients,
    /// Servers in memory, by h2load; needs peers
    H2load,
    /// A million keys
    Crowd,
    /// Envoy's ShouldRateLimit beside envoyproxy/ratelimit, on Redis; needs peers
    Envoy,
    /// An idle server
    Idle,
}

const EXAMPLES: &str = "\
Examples:
  cargo bench --bench side_by_side -- --quick
  cargo bench --bench side_by_side -- --no-peers --loads pairs,fixed --in-flight 64,256
  cargo bench --bench side_by_side -- --no-peers --no-redis --loads pairs --extras pace
  cargo bench --bench side_by_side -- --no-loads --extras envoy
  cargo bench --bench side_by_side          (everything: about 35 minutes)";

impl Options {
    pub(crate) fn reps(&self) -> u32 {
        self.reps.unwrap_or(if self.quick { 1 } else { 5 })
    }

    pub(crate) fn timing(&self) -> Timing {
        let of = |given: Option<Duration>, quick, whole| {
            given.unwrap_or(Duration::from_millis(if self.quick { quick } else { whole }))
        };
        Timing { warm_up: of(self.warm_up, 100, 300), time: of(self.time, 200, 1000) }
    }

    pub(crate) fn kinds(&self) -> &[Kind] {
        if self.loads.is_empty() { Kind::ALL } else { &self.loads }
    }

    /// Returns the loads with their numbers of calls in flight, in the order of the runs, without
    /// repeats: all numbers above a load's maximum are the same run.
    pub(crate) fn plan(&self) -> Vec<(Kind, u32)> {
        let mut plan = Vec::new();
        for wanted in &self.in_flight {
            for kind in self.kinds() {
                let run = (*kind, kind.in_flight(*wanted));
                if !plan.contains(&run) {
                    plan.push(run);
                }
            }
        }
        plan
    }

    pub(crate) fn measures(&self, extra: Extra) -> bool {
        !self.no_extras && (self.extras.is_empty() || self.extras.contains(&extra))
    }

    pub(crate) fn with_peers(&self) -> bool {
        !self.no_peers && !self.quick
    }

    /// Whether this is a complete run, whose results are stored.
    pub(crate) fn writes(&self) -> bool {
        let is_whole = self.loads.is_empty() && self.extras.is_empty();
        let is_whole = is_whole && !self.no_extras && !self.no_loads;
        let is_usual = !self.no_redis && self.other.is_none() && !self.cluster;
        !self.no_write && !self.quick && is_whole && is_usual
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_millis(10)..=Duration::from_secs(60);
    if range.contains(&time) { Ok(time) } else { Err("expected 10ms to 60s".to_owned()) }
}
