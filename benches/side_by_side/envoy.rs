//! Envoy's ShouldRateLimit: Tollgate and envoyproxy/ratelimit, measured in turn, each on its own
//! Redis.

use std::{collections::BTreeMap, fmt, fs, sync::Arc};

use tollgate_core::time::monotonic;

use crate::{
    call::{Call, Load, NUMBER, first_is},
    closed_loop::{self, Callers},
    connection::{Connection, Failure},
    kind::KEYS,
    loads::{self, Ports},
    options::Options,
    peer_calls::should_rate_limit,
    peers::{self, SHOULD_RATE_LIMIT},
    row::Row,
    run::{Run, median, otherwise},
    table::{Table, rate, time},
};

/// The rules of both servers.
pub(crate) const LIMITS: &str = include_str!("envoy.yaml");
const OURS: &str = "Tollgate";
const THEIRS: &str = "envoyproxy/ratelimit";
const ROWS: [&str; 2] = [OURS, THEIRS];
/// Calls in flight: one proxy, and several that keep the servers busy.
const IN_FLIGHT: [usize; 2] = [1, 64];
/// OK and OVER_LIMIT of `overall_code`.
const OK: u8 = 1;
const OVER: u8 = 2;

/// A gRPC status.
const UNAVAILABLE: u16 = 14;
/// Measured calls without Redis.
const OUTAGE_CALLS: usize = 2000;

/// A load: descriptors, and whether it is refused.
type Asked = (usize, bool);
const LOADS: [Asked; 4] = [(1, false), (10, false), (1, true), (10, true)];

/// Load, calls in flight and row.
type Place = (Asked, usize, &'static str);

/// Results; `Err` with the reason if a server is missing.
#[derive(Debug)]
pub(crate) struct Envoy(Result<Measured, String>);

#[derive(Debug)]
struct Measured {
    runs: BTreeMap<Place, Vec<Run>>,
    /// Latencies of UNAVAILABLE while Redis is not running, p50 and p99, in µs.
    outage: [f64; 2],
}

/// Returns a call of one descriptor that passes.
pub(crate) fn granted() -> Call {
    call((1, false), first_is::<OK>)
}

fn call((descriptors, is_refused): Asked, accepts: fn(&[u8]) -> bool) -> Call {
    let kind = if is_refused { "blocked" } else { "key" };
    let keys: Vec<String> = (0..descriptors).map(|number| format!("{kind}{number}")).collect();
    should_rate_limit(&keys, &format!("value:{NUMBER}"), accepts)
}

fn load(asked: Asked) -> Load {
    if asked.1 {
        Load::of(call(asked, first_is::<OVER>), 1)
    } else {
        Load::of(call(asked, first_is::<OK>), KEYS)
    }
}

impl Envoy {
    pub(crate) async fn measure(options: &Options) -> Envoy {
        Envoy(measured(options).await)
    }

    /// Returns the 99th percentile of UNAVAILABLE without Redis, in µs.
    pub(crate) fn outage(&self) -> Option<f64> {
        self.0.as_ref().ok().map(|measured| measured.outage[1])
    }

    /// Returns the median of a figure of a load.
    fn median(&self, place: Place, value: fn(&Run) -> f64) -> Option<f64> {
        let runs = self.0.as_ref().ok()?.runs.get(&place)?;
        Some(median(runs.iter().map(value)))
    }

    /// Returns a figure of Tollgate divided by that of the peer, for each load with 64 calls in
    /// flight.
    fn ratios(&self, value: fn(&Run) -> f64) -> impl Iterator<Item = f64> {
        LOADS.into_iter().filter_map(move |asked| {
            let busy = IN_FLIGHT[1];
            let [ours, theirs] = ROWS.map(|row| self.median((asked, busy, row), value));
            Some(ours? / theirs?)
        })
    }

    /// Returns the least ratio of calls a second.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.ratios(|run| run.rate).reduce(f64::min)
    }

    /// Returns the highest ratio of the server's CPU of a call.
    pub(crate) fn cpu(&self) -> Option<f64> {
        self.ratios(|run| run.server).reduce(f64::max)
    }
}

async fn measured(options: &Options) -> Result<Measured, String> {
    let mut ports = Ports::from(options.ports + 100);
    let text = |error: std::io::Error| error.to_string();
    let folder = loads::folder().join("envoy");
    fs::create_dir_all(&folder).map_err(text)?;
    fs::write(folder.join("bench.yaml"), LIMITS).map_err(text)?;
    let file = loads::folder().join("envoy.toml");
    fs::write(&file, format!("[envoy]\nconfig = {:?}\n", folder.display().to_string()))
        .map_err(text)?;
    let (program, port) = (loads::program(options), ports.next());
    let ours = Row::tollgate(OURS, program, &file, &[port], &[]).await?;
    let theirs = peers::start_one(&SHOULD_RATE_LIMIT, &mut ports).await?;
    let mut rows = [ours, theirs];
    for row in &rows {
        row.ask_until_right(&granted()).await?;
        for asked in LOADS.into_iter().filter(|(_, is_refused)| *is_refused) {
            row.ask_until_right(&call(asked, first_is::<OVER>)).await?;
        }
    }
    let mut runs = BTreeMap::new();
    for _ in 0..options.reps() {
        for (asked, in_flight) in LOADS.into_iter().flat_map(|it| IN_FLIGHT.map(|n| (it, n))) {
            let load = Arc::new(load(asked));
            for (row, name) in rows.iter_mut().zip(ROWS) {
                let callers = Callers::in_flight(in_flight);
                let run = closed_loop::run(row, &load, callers, options.timing()).await;
                runs.entry((asked, in_flight, name)).or_insert_with(Vec::new).push(run);
            }
        }
    }
    let [mut ours, _theirs] = rows;
    Ok(Measured { runs, outage: outage(&mut ours).await? })
}

/// Kills Redis, and measures calls from the first UNAVAILABLE on.
async fn outage(row: &mut Row) -> Result<[f64; 2], String> {
    let text = |failure: Failure| format!("without Redis: {failure:?}");
    let mut connection = Connection::open(row.address).await.map_err(|error| error.to_string())?;
    row.kill_redis();
    let call = granted();
    let request = connection.request(&call);
    let mut took = Vec::with_capacity(OUTAGE_CALLS);
    let mut is_known = false;
    for number in 0..u64::MAX {
        let begun = monotonic();
        match connection.call(request.clone(), call.body(number % KEYS)).await {
            Err(Failure::Status(UNAVAILABLE, _)) if is_known => {
                took.push(begun.elapsed().as_secs_f64() * 1e6);
            }
            Err(Failure::Status(UNAVAILABLE, _)) => is_known = true,
            // Calls in flight may have been executed.
            Ok(_) | Err(Failure::Status(..)) if !is_known => {}
            Ok(_) => return Err("an answer without Redis".to_owned()),
            Err(failure) => return Err(text(failure)),
        }
        if took.len() == OUTAGE_CALLS {
            break;
        }
    }
    connection.close();
    took.sort_by(f64::total_cmp);
    Ok([took[OUTAGE_CALLS / 2], took[OUTAGE_CALLS * 99 / 100]])
}

impl fmt::Display for Envoy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured { runs, outage } = match &self.0 {
            Ok(measured) => measured,
            Err(why) => return writeln!(f, "ShouldRateLimit was not measured: {why}"),
        };
        let heading =
            ["descriptors", "in flight", "row", "calls a second", "p50", "p99", "server", "Redis"];
        let mut table = Table::new(heading);
        let mut wrong = String::new();
        for ((descriptors, is_refused), in_flight) in
            LOADS.into_iter().flat_map(|it| IN_FLIGHT.map(|n| (it, n)))
        {
            for row in ROWS {
                let place = ((descriptors, is_refused), in_flight, row);
                let of = |value: fn(&Run) -> f64| self.median(place, value).unwrap_or(f64::NAN);
                let what = if is_refused { "refused" } else { "granted" };
                table.line([
                    format!("{descriptors}, {what}"),
                    in_flight.to_string(),
                    row.to_owned(),
                    rate(of(|run| run.rate)),
                    time(of(|run| run.p50)),
                    time(of(|run| run.p99)),
                    format!("{:.1}", of(|run| run.server)),
                    format!("{:.1}", of(|run| run.redis)),
                ]);
                for run in runs.get(&place).into_iter().flatten().filter(|it| !it.wrong.is_empty())
                {
                    wrong += &format!("WRONG: {row}, {descriptors}: {}\n", otherwise(&run.wrong));
                }
            }
        }
        let [p50, p99] = outage.map(time);
        let [calls, cpu] = [self.rate(), self.cpu()].map(|it| it.unwrap_or(f64::NAN));
        writeln!(
            f,
            "{table}\nServer and Redis: CPU in µs a call. {THEIRS} has its local cache.\n"
        )?;
        writeln!(
            f,
            "With 64 in flight Tollgate answers at least {calls:.1} times as many calls, with at most \
             {cpu:.2} times the server's CPU a call. Without Redis UNAVAILABLE takes {p50} (p50), {p99} \
             (p99).\n{wrong}"
        )
    }
}
