//! The command line.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Parser, ValueEnum};

use crate::{closed_loop::Timing, kind::Kind};

/// Measures Tollgate beside a bare echo and beside its peers, all on this machine and in
/// one run.
///
/// Rows: an echo by tonic with the same set-up as the server; Tollgate in memory, over
/// Redis with one decision a script call, and over Redis as it is by default; and, where
/// they can be installed (cargo, go) into target/peers, throttlecrab, envoyproxy/ratelimit
/// and gubernator; limitador where `limitador-server` is on the PATH.
///
/// Every load is run against every row in turn, with so many calls in flight, again and
/// again; what is printed are medians. Needs Linux and redis-server. Prints tables and the
/// targets; a whole run also writes the plot and the generated part of benches/README.md.
#[derive(Debug, Parser)]
#[command(name = "cargo bench --bench side_by_side --", after_help = EXAMPLES)]
pub(crate) struct Options {
    /// A first look in about two minutes: one short run each, no peers, nothing written
    #[arg(long)]
    pub(crate) quick: bool,

    /// Runs of each row [default: 5; quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=101))]
    reps: Option<u32>,

    /// How long a run counts [default: 1s; quick: 200ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    time: Option<Duration>,

    /// How long a run goes before it counts [default: 300ms; quick: 100ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    warm_up: Option<Duration>,

    /// Calls in flight; 256 are 16 on each of 16 connections
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,16,64,256,1024")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) in_flight: Vec<u32>,

    /// Loads to run [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    loads: Vec<Kind>,

    /// Another build of tollgate to measure in place of this one's
    #[arg(long, value_name = "FILE")]
    pub(crate) server: Option<PathBuf>,

    /// A further build of tollgate, in memory and over Redis: a row each at the loads
    #[arg(long, value_name = "FILE")]
    pub(crate) other: Option<PathBuf>,

    /// No peers
    #[arg(long)]
    no_peers: bool,

    /// No Redis: only the echo and what keeps its counts in memory
    #[arg(long)]
    pub(crate) no_redis: bool,

    /// What is measured besides the loads [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "no_extras")]
    extras: Vec<Extra>,

    /// Only the loads
    #[arg(long)]
    no_extras: bool,

    /// Write nothing into benches/
    #[arg(long)]
    no_write: bool,

    /// Redis, the echo and peers listen on ports from this one on, on loopback
    #[arg(long, value_name = "PORT", default_value_t = 21_200)]
    pub(crate) ports: u16,

    /// Be the echo
    #[arg(long, value_name = "ADDRESS", hide = true)]
    pub(crate) echo: Option<SocketAddr>,

    /// What cargo passes
    #[arg(long, hide = true)]
    bench: bool,
}

/// What is measured besides the loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Extra {
    /// A PING to Redis and its answer
    Ping,
    /// What calls take at half the peak's pace
    Pace,
    /// More calls than are taken, on Redis
    Overload,
    /// What ghz says of the same load
    Clients,
    /// Servers in memory by h2load, where there are peers
    H2load,
    /// A million keys
    Crowd,
    /// A server that has nothing to do
    Idle,
}

const EXAMPLES: &str = "\
Examples:
  cargo bench --bench side_by_side -- --quick
  cargo bench --bench side_by_side -- --no-peers --loads pairs,fixed --in-flight 64,256
  cargo bench --bench side_by_side -- --no-peers --no-redis --loads pairs --extras pace
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

    pub(crate) fn measures(&self, extra: Extra) -> bool {
        !self.no_extras && (self.extras.is_empty() || self.extras.contains(&extra))
    }

    pub(crate) fn with_peers(&self) -> bool {
        !self.no_peers && !self.quick
    }

    /// Whether this is a whole run, whose figures are to be kept.
    pub(crate) fn writes(&self) -> bool {
        let is_whole = self.loads.is_empty() && self.extras.is_empty() && !self.no_extras;
        !self.no_write && !self.quick && is_whole && !self.no_redis && self.other.is_none()
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_millis(10)..=Duration::from_secs(60);
    if range.contains(&time) { Ok(time) } else { Err("expected 10ms to 60s".to_owned()) }
}
