//! Results of an independent client for the same load, as a check of this benchmark's own results.

use std::{path::Path, process::Stdio, time::Duration};

use serde_json::Value;
use tokio::{process::Command, time::timeout};

use crate::{
    install::{self, Source},
    kind::Kind,
    options::Options,
    results::Results,
    row::{EMBEDDED, Row},
    table::{or_dash, rate, time},
};

const GHZ: Source = Source::Go("github.com/bojand/ghz/cmd/ghz@v0.120.0");
/// Calls in flight, spread over the connections.
const IN_FLIGHT: u32 = 256;
const CONNECTIONS: u32 = 16;
/// Duration of the load, in seconds.
const SECONDS: u32 = 2;
const PATH: &str = "tollgate.v1.RateService/CheckRate";

/// Result of a client.
#[derive(Debug)]
pub(crate) struct Opinion {
    /// Client and load.
    pub(crate) of: String,
    /// Its figures.
    pub(crate) what: String,
}

/// Runs ghz against the embedded server's CheckRate (fixed window, one key), if peers are
/// measured and ghz is available.
pub(crate) async fn ask(options: &Options, rows: &[Row], results: &Results) -> Vec<Opinion> {
    let row = rows.iter().find(|row| row.name == EMBEDDED);
    let Some(row) = row.filter(|row| row.loads.contains_key(&Kind::Fixed)) else {
        return Vec::new();
    };
    let ours = results.rate((Kind::Fixed, IN_FLIGHT, EMBEDDED));
    let of =
        |who: &str| format!("embedded, CheckRate, fixed window, {IN_FLIGHT} in flight, by {who}");
    let mut opinions =
        vec![Opinion { of: of("our own load"), what: or_dash(ours, rate) + " calls a second" }];
    if !options.with_peers() {
        return opinions;
    }
    let what = ghz(row).await.unwrap_or_else(|why| format!("skipped: {why}"));
    opinions.push(Opinion { of: of("ghz"), what });
    opinions
}

/// Runs a client for `seconds` and returns its output.
pub(crate) async fn output(command: &mut Command, seconds: u32) -> Result<String, String> {
    let command = command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let limit = Duration::from_secs(u64::from(seconds) + 30);
    match timeout(limit, command.output()).await {
        Err(_) => Err("it did not end in time".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(output)) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
    }
}

async fn ghz(row: &Row) -> Result<String, String> {
    let program = install::program("ghz", GHZ).await?;
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let mut command = Command::new(program);
    command
        .args(["--insecure", "--format", "json", "--call", PATH, "--import-paths"])
        .arg(&proto)
        .arg("--proto")
        .arg(proto.join("tollgate/v1/rate.proto"))
        .args(["--data", r#"{"key": "key:000000000000", "policy": "fixed"}"#])
        .args(["--connections", &CONNECTIONS.to_string()])
        .args(["--concurrency", &IN_FLIGHT.to_string()])
        .args(["--duration", &format!("{SECONDS}s"), "--duration-stop", "wait"])
        .arg(row.address.to_string());
    let text = output(&mut command, SECONDS).await?;
    let said: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let figure = said["rps"].as_f64().ok_or("no figures")?;
    let distribution = said["latencyDistribution"].as_array();
    let p99 = distribution.and_then(|all| all.iter().find(|at| at["percentage"] == 99));
    let p99 = p99.and_then(|at| at["latency"].as_f64()).map(|nanos| nanos / 1000.0);
    let right = said["statusCodeDistribution"]["OK"].as_u64().unwrap_or(0);
    let wrong = said["count"].as_u64().unwrap_or(0) - right;
    Ok(format!("{} calls a second, p99 {}, {wrong} failed", rate(figure), or_dash(p99, time)))
}
