//! The same calls by h2load (Debian: nghttp2-client) with two threads: an independent client, with
//! as many threads as the servers on a machine with two cores.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use tokio::process::Command;

use crate::{
    client::output,
    install,
    kind::Kind,
    loads,
    options::Options,
    peers::{PEERS, Store},
    row::{ECHO, EMBEDDED, Row},
    run::median,
    table::{Table, or_dash, rate},
};

/// Calls in flight, spread over the connections.
const IN_FLIGHT: u32 = 256;
const CONNECTIONS: u32 = 16;
const THREADS: u32 = 2;
/// Seconds of load before and while it counts.
const WARM_UP: u32 = 1;
const COUNTED: u32 = 2;

/// Results for servers that keep their counts in memory.
#[derive(Debug, Default)]
pub(crate) struct ByH2load {
    /// Calls a second, and CPU of the server in µs a call, of each run.
    runs: BTreeMap<(Kind, &'static str), Vec<[f64; 2]>>,
    /// Why something was not measured.
    skipped: Option<String>,
}

impl ByH2load {
    /// Measures the echo, Tollgate and the peers in turn.
    pub(crate) async fn measure(options: &Options, rows: &mut [Row]) -> ByH2load {
        let mut seen = ByH2load::default();
        let Some(program) = install::on_path("h2load") else {
            seen.skipped = Some("not on the PATH (Debian: nghttp2-client)".to_owned());
            return seen;
        };
        for _ in 0..options.reps() {
            for kind in [Kind::Fixed, Kind::Bucket] {
                for row in rows.iter_mut().filter(|row| is_in_memory(row.name)) {
                    match run(&program, row, kind).await {
                        Ok(Some(figures)) => {
                            seen.runs.entry((kind, row.name)).or_default().push(figures);
                        }
                        Ok(None) => {}
                        Err(why) => seen.skipped = Some(format!("{}: {why}", row.name)),
                    }
                }
            }
        }
        seen
    }

    /// Calls a second of one row, divided by those of another. `None` if a row failed: it might
    /// have been the fastest.
    pub(crate) fn ratio(&self, kind: Kind, row: &'static str, to: &'static str) -> Option<f64> {
        if self.skipped.is_some() {
            return None;
        }
        Some(self.median((kind, row), 0)? / self.median((kind, to), 0)?)
    }

    fn median(&self, place: (Kind, &'static str), of: usize) -> Option<f64> {
        Some(median(self.runs.get(&place)?.iter().map(|figures| figures[of])))
    }
}

fn is_in_memory(row: &str) -> bool {
    let peer = PEERS.iter().find(|peer| peer.name == row);
    row == ECHO || row == EMBEDDED || peer.is_some_and(|peer| peer.store == Store::Memory)
}

/// Runs one call, always with the same name; `None` if the row lacks this load.
async fn run(program: &Path, row: &mut Row, kind: Kind) -> Result<Option<[f64; 2]>, String> {
    let Some(load) = row.loads.get(&kind).cloned() else { return Ok(None) };
    let call = &load.calls[0];
    let file = loads::folder().join("h2load.bin");
    fs::write(&file, call.body(0)).map_err(|error| error.to_string())?;
    let number = |number: u32| number.to_string();
    let mut command = Command::new(program);
    command
        .args(["-t", &number(THREADS), "-c", &number(CONNECTIONS)])
        .args(["-m", &number(IN_FLIGHT / CONNECTIONS), "-D", &number(COUNTED)])
        .args(["--warm-up-time", &number(WARM_UP), "-H", "content-type: application/grpc"])
        .args(["-H", "te: trailers", "-d"])
        .arg(file)
        .arg(format!("http://{}{}", row.address, call.path));
    let before = row.meter.read();
    let text = output(&mut command, COUNTED + WARM_UP).await?;
    let used = row.meter.read().since(&before);
    // "finished in 2.00s, 12345.00 req/s, 1.23MB/s"
    let line = text.lines().find(|line| line.starts_with("finished in")).unwrap_or_default();
    let figure = line.split(", ").nth(1).and_then(|part| part.split(' ').next());
    let figure: f64 = figure.and_then(|figure| figure.parse().ok()).ok_or("no figures")?;
    // "requests: 2 total, 2 started, 2 done, 2 succeeded, 0 failed, 0 errored, 0 timeout"
    if !text.contains(" 0 failed, 0 errored, 0 timeout") || figure == 0.0 {
        return Err("calls failed".to_owned());
    }
    // h2load does not check replies. Capacity only shrinks during the run, so one correct reply now
    // confirms all earlier ones.
    row.ask(call).await?;
    // Assumes the same rate during the warm-up.
    let calls = figure * f64::from(COUNTED + WARM_UP);
    Ok(Some([figure, used.server as f64 / 1000.0 / calls]))
}

impl fmt::Display for ByH2load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.runs.is_empty() && self.skipped.is_none() {
            return Ok(());
        }
        writeln!(f, "### By h2load, {IN_FLIGHT} in flight\n")?;
        if !self.runs.is_empty() {
            let mut table = Table::new(["load", "row", "calls a second", "server"]);
            for place @ (kind, row) in self.runs.keys() {
                let cost = or_dash(self.median(*place, 1), |micros| format!("{micros:.1}"));
                let calls = or_dash(self.median(*place, 0), rate);
                table.line([kind.title().to_owned(), (*row).to_owned(), calls, cost]);
            }
            writeln!(f, "{table}")?;
            writeln!(f, "{THREADS} threads, one key; CPU of the server in µs a call.\n")?;
        }
        match &self.skipped {
            Some(why) => writeln!(f, "Skipped: {why}\n"),
            None => Ok(()),
        }
    }
}
