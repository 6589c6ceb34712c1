//! Measurements besides the loads.

use std::{
    fmt,
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

use indicatif::ProgressBar;
use tollgate_core::time::monotonic;

use crate::{
    client::Opinion,
    closed_loop::{self, Callers, Timing},
    crowd::Crowd,
    envoy::Envoy,
    h2load::ByH2load,
    idle::Idle,
    kind::Kind,
    options::{Extra, Options},
    pace::{self, Pace},
    results::Results,
    row::{LANES, Row, loopback},
    run::{Run, median, otherwise},
    table::{Table, rate, time},
};

/// PINGs in the measurement of a bare round trip.
const PINGS: usize = 5000;
/// Calls that a Tollgate on Redis handles at a time by default (`calls_max`).
const TAKEN_MAX: usize = 4096;
/// Calls in flight of an overload, as a multiple of `calls_max`.
const OVERLOAD: usize = 3;
/// Connections of an overload.
const CONNECTIONS: usize = 32;

/// Results; `None` for a measurement that was not made.
#[derive(Debug, Default)]
pub(crate) struct Besides {
    /// Median round trip of a PING, in µs.
    pub(crate) ping: Option<f64>,
    /// At half the peak, by row.
    paces: Vec<(&'static str, Pace)>,
    /// With more calls in flight than the server handles.
    pub(crate) overload: Option<Run>,
    pub(crate) idle: Option<Idle>,
    /// Results of other clients for the same load.
    pub(crate) opinions: Vec<Opinion>,
    pub(crate) by_h2load: ByH2load,
    pub(crate) envoy: Option<Envoy>,
    /// `Err` with the reason of a failure.
    pub(crate) crowd: Option<Result<Crowd, String>>,
}

impl Besides {
    /// Measures everything that the available rows allow.
    pub(crate) async fn measure(options: &Options, rows: &mut [Row], results: &Results) -> Besides {
        let mut besides = Besides::default();
        let progress = ProgressBar::new_spinner();
        progress.enable_steady_tick(Duration::from_millis(200));
        let begins = |extra, what| {
            progress.set_message(what);
            options.measures(extra)
        };
        if begins(Extra::Ping, "a PING") {
            let port = rows.iter().find(|row| row.name == LANES).and_then(|row| row.redis_port);
            besides.ping = port.and_then(|port| ping(port).ok());
        }
        if begins(Extra::Pace, "at half the peak's pace") {
            besides.paces = pace::measure(options, rows, results).await;
        }
        let lanes = rows.iter_mut().find(|row| row.name == LANES);
        if let Some(row) = lanes.filter(|row| row.loads.contains_key(&Kind::Pairs))
            && begins(Extra::Overload, "overload")
        {
            besides.overload = Some(overload(row, options.timing()).await);
        }
        if begins(Extra::Clients, "other clients") {
            besides.opinions = crate::client::ask(options, rows, results).await;
        }
        if begins(Extra::H2load, "h2load") && options.with_peers() {
            besides.by_h2load = ByH2load::measure(options, rows).await;
        }
        if begins(Extra::Envoy, "ShouldRateLimit") && options.with_peers() && !options.no_redis {
            besides.envoy = Some(Envoy::measure(options).await);
        }
        if begins(Extra::Crowd, "a million keys") {
            besides.crowd = Some(Crowd::measure(options).await);
        }
        if begins(Extra::Idle, "a server that has nothing to do") {
            besides.idle = Some(Idle::measure(options).await);
        }
        progress.finish_and_clear();
        besides
    }

    pub(crate) fn pace(&self, row: &str) -> Option<&Pace> {
        self.paces.iter().find(|(name, _)| *name == row).map(|(_, pace)| pace)
    }
}

/// Returns the median round trip of a PING over a separate connection, in µs.
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

async fn overload(row: &mut Row, timing: Timing) -> Run {
    let load = row.loads[&Kind::Pairs].clone();
    let streams = OVERLOAD * TAKEN_MAX / CONNECTIONS;
    // This many callers need a longer warm-up until each has made a call.
    let timing = Timing { warm_up: timing.time.max(Duration::from_secs(1)), ..timing };
    closed_loop::run(row, &load, Callers { connections: CONNECTIONS, streams }, timing).await
}

impl fmt::Display for Besides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["what", "measured"]);
        let mut line = |what: &str, measured: String| table.line([what.to_owned(), measured]);
        if let Some(ping) = self.ping {
            line("a PING to Redis and its answer, p50", time(ping));
        }
        for (row, pace) in &self.paces {
            line(
                &format!("{row}, AdmitTask + CompleteTask, calls at half the peak rate"),
                pace.to_string(),
            );
        }
        if let Some(run) = &self.overload {
            line(
                &format!(
                    "Redis, {} calls at a time, of which it accepts {TAKEN_MAX}; refused calls \
                     retry after 100 ms",
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
        if !table.is_empty() {
            writeln!(f, "### Other measurements\n\n{table}")?;
        }
        if let Some(envoy) = &self.envoy {
            writeln!(f, "### ShouldRateLimit\n\n{envoy}")?;
        }
        write!(f, "{}", self.by_h2load)
    }
}
