//! What is measured besides the loads: a bare round trip to Redis, the pace of half the
//! peak, overload, and a server that has nothing to do.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

use indicatif::ProgressBar;
use tollgate::time::monotonic;

use crate::{
    client::Opinion,
    closed_loop::{self, Callers, Timing},
    crowd::Crowd,
    h2load::ByH2load,
    idle::Idle,
    kind::Kind,
    open_loop,
    options::Options,
    results::Results,
    row::{ECHO, EMBEDDED, LANES, Row, loopback},
    run::{Run, median, otherwise},
    table::{Table, rate, time},
};

/// PINGs of a bare round trip.
const PINGS: usize = 5000;
/// The calls that a Tollgate on Redis takes at a time by default (`calls_max`).
const TAKEN_MAX: usize = 4096;
/// How many times as many are made at a time when it is overloaded.
const OVERLOAD: usize = 3;
/// Connections of an overload.
const CONNECTIONS: usize = 32;
/// Connections of a pace, as many as of 256 in flight.
const PACE_CONNECTIONS: usize = 16;

/// What was measured; what is none was not.
#[derive(Debug, Default)]
pub(crate) struct Besides {
    /// The median of a PING and its answer, in µs.
    pub(crate) ping: Option<f64>,
    /// At half the peak, by row.
    paces: Vec<(&'static str, Pace)>,
    /// With more calls than are taken.
    pub(crate) overload: Option<Run>,
    pub(crate) idle: Option<Idle>,
    /// What other clients say of the same load.
    pub(crate) opinions: Vec<Opinion>,
    pub(crate) by_h2load: ByH2load,
    /// Why not, where it was not.
    pub(crate) crowd: Option<Result<Crowd, String>>,
}

/// What calls took that came at a pace, however soon others were answered.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Calls a second that were to be made.
    wanted: f64,
    /// Calls a second that were answered.
    rate: f64,
    /// In µs.
    p50: f64,
    /// In µs.
    pub(crate) p99: f64,
    /// CPU of the server and its Redis, and of the load, in cores.
    cores: [f64; 2],
    /// What should not have come, and how often.
    wrong: BTreeMap<String, u64>,
}

impl Besides {
    /// Measures what the rows that run allow.
    pub(crate) async fn measure(options: &Options, rows: &mut [Row], results: &Results) -> Besides {
        let mut besides = Besides::default();
        let timing = options.timing();
        let progress = ProgressBar::new_spinner();
        progress.enable_steady_tick(Duration::from_millis(200));
        for row in rows.iter_mut() {
            if row.name == LANES {
                besides.ping = row.redis_port.and_then(|port| ping(port).ok());
            }
            if [ECHO, EMBEDDED, LANES].contains(&row.name)
                && let Some(peak) = results.peak(Kind::Pairs, row.name)
            {
                progress.set_message(format!("at half the peak's pace: {}", row.name));
                let pace = pace(row, peak / 2.0, timing, options.reps()).await;
                besides.paces.push((row.name, pace));
            }
            if row.name == LANES && row.loads.contains_key(&Kind::Pairs) {
                progress.set_message("overload");
                besides.overload = Some(overload(row, timing).await);
            }
        }
        progress.set_message("other clients");
        besides.opinions = crate::client::ask(options, rows, results).await;
        if options.with_peers() {
            progress.set_message("h2load");
            besides.by_h2load = ByH2load::measure(options, rows).await;
        }
        progress.set_message("a million keys");
        besides.crowd = Some(Crowd::measure(options).await);
        progress.set_message("a server that has nothing to do");
        besides.idle = Some(Idle::measure(options).await);
        progress.finish_and_clear();
        besides
    }

    pub(crate) fn pace(&self, row: &str) -> Option<&Pace> {
        self.paces.iter().find(|(name, _)| *name == row).map(|(_, pace)| pace)
    }
}

/// The median of a PING and its answer over a connection of its own, in µs.
fn ping(port: u16) -> io::Result<f64> {
    let mut stream = TcpStream::connect(loopback(port))?;
    stream.set_nodelay(true)?;
    let mut took = Vec::with_capacity(PINGS);
    let mut answer = [0; 7];
    for _ in 0..PINGS {
        let begun = monotonic();
        stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
        stream.read_exact(&mut answer)?;
        took.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(took))
}

async fn pace(row: &mut Row, wanted: f64, timing: Timing, reps: u32) -> Pace {
    let load = row.loads[&Kind::Pairs].clone();
    let mut runs = Vec::new();
    for _ in 0..reps {
        runs.push(open_loop::run(row, &load, wanted, PACE_CONNECTIONS, timing).await);
    }
    let of = |value: fn(&Run) -> f64| median(runs.iter().map(value));
    let (rate, p50, p99) = (of(|run| run.rate), of(|run| run.p50), of(|run| run.p99));
    let server = of(|run| (run.server + run.redis) * run.rate / 1e6);
    let cores = [server, of(|run| run.generator * run.rate / 1e6)];
    let mut wrong = BTreeMap::new();
    for (what, count) in runs.into_iter().flat_map(|run| run.wrong) {
        *wrong.entry(what).or_default() += count;
    }
    Pace { wanted, rate, p50, p99, cores, wrong }
}

async fn overload(row: &mut Row, timing: Timing) -> Run {
    let load = row.loads[&Kind::Pairs].clone();
    let streams = OVERLOAD * TAKEN_MAX / CONNECTIONS;
    // So many callers need a while until each has had its turn.
    let timing = Timing { warm_up: timing.time.max(Duration::from_secs(1)), ..timing };
    closed_loop::run(row, &load, Callers { connections: CONNECTIONS, streams }, timing).await
}

impl fmt::Display for Besides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.idle.is_none() {
            return Ok(());
        }
        writeln!(f, "### Besides\n")?;
        let mut table = Table::new(["what", "measured"]);
        let mut line = |what: &str, measured: String| table.line([what.to_owned(), measured]);
        if let Some(ping) = self.ping {
            line("a PING to Redis and its answer, p50", time(ping));
        }
        for (row, pace) in &self.paces {
            line(
                &format!("{row}, AdmitTask + CompleteTask, calls at half the peak's pace"),
                format!(
                    "{} of {} a second, p50 {}, p99 {}, {:.2} cores for the server and {:.2} for \
                     the load; {}",
                    rate(pace.rate),
                    rate(pace.wanted),
                    time(pace.p50),
                    time(pace.p99),
                    pace.cores[0],
                    pace.cores[1],
                    otherwise(&pace.wrong)
                ),
            );
        }
        if let Some(run) = &self.overload {
            line(
                &format!(
                    "Redis, {} calls at a time, of which it takes {TAKEN_MAX}; those \
                          refused come again after 100 ms",
                    OVERLOAD * TAKEN_MAX
                ),
                format!(
                    "{} a second answered, {} refused, p99 of the answered {}; {}",
                    rate(run.rate),
                    rate(run.refused),
                    time(run.p99),
                    otherwise(&run.wrong)
                ),
            );
        }
        for opinion in &self.opinions {
            line(&opinion.of, opinion.what.clone());
        }
        if let Some(crowd) = &self.crowd {
            line(
                "embedded, CheckRate, fixed window, 256 in flight, of 1,000 keys and of 1,000,000",
                match crowd {
                    Ok(crowd) => crowd.to_string(),
                    Err(why) => format!("failed: {why}"),
                },
            );
        }
        if let Some(idle) = &self.idle {
            line("an idle server, embedded", idle.to_string());
        }
        writeln!(f, "{table}")?;
        write!(f, "{}", self.by_h2load)
    }
}
