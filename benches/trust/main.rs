//! The cost of TLS, of callers, and of metrics and traces. h2load (Debian: nghttp2-client) calls
//! servers with different configurations in turn. Each server is compared with a plain server that
//! gets the same headers: h2load never indexes `authorization`, so the server decodes its text in
//! each call.
//!
//! `--telemetry` compares servers with metrics and traces with one that has neither.
//! `--fair` measures a caller of one namespace while a caller of another one floods the server.
//!
//! `cargo bench --bench trust -- [--telemetry | --fair] [--rounds N] [--program PATH]`; default: 9
//! rounds of this build.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a benchmark ends at its first failure"
)]

#[allow(dead_code, reason = "other benchmarks use the rest")]
#[path = "../process/mod.rs"]
mod process;

mod fairness;
mod server;

use std::{env, path::PathBuf, process::Command};

use server::{Kind, Server};

/// Connections of the load, and the calls in flight on each.
const CONNECTIONS: u32 = 8;
const IN_FLIGHT: u32 = 32;
/// Calls of a run.
const CALLS: u32 = 60_000;
/// Connections whose handshakes are measured, one call each.
const HANDSHAKES: u32 = 1_000;

/// The figures of one run.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Calls a second.
    rate: f64,
    /// CPU time of the server for a call, in µs.
    cost: f64,
    /// CPU time of the server for a connection with one call, in µs.
    connection: f64,
}

fn main() {
    let rounds = flag("--rounds").map_or(9, |text| text.parse().expect("a number"));
    let program = flag("--program").map(PathBuf::from);
    let program = program.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_tollgate")));
    if env::args().any(|argument| argument == "--fair") {
        return fairness::run(&program);
    }
    let is_telemetry = env::args().any(|argument| argument == "--telemetry");
    let kinds = if is_telemetry { Kind::TELEMETRY } else { Kind::ACCESS };
    let servers: Vec<Server> =
        kinds.iter().map(|kind| Server::start(&program, *kind, None)).collect();
    let mut runs = vec![Vec::new(); servers.len()];
    for round in 0..=rounds {
        for (server, runs) in servers.iter().zip(&mut runs) {
            let authorization = server.authorization.as_deref();
            let pair = (run(&servers[0], authorization), run(server, authorization));
            // The first round warms up.
            if round > 0 {
                runs.push(pair);
            }
        }
        eprintln!("{round} of {rounds} rounds");
    }
    println!("| server | calls/s | of plain | server µs a call | of plain | µs a connection |");
    println!("|---|---|---|---|---|---|");
    for (server, pairs) in servers.iter().zip(&runs) {
        let own = |figure: fn(&Run) -> f64| median(pairs.iter().map(|(_, own)| figure(own)));
        let ratio = |figure: fn(&Run) -> f64| {
            median(pairs.iter().map(|(plain, own)| figure(own) / figure(plain)))
        };
        println!(
            "| {} | {:.0} | {:.2} | {:.2} | {:.2} | {:.0} |",
            server.kind.label(),
            own(|run| run.rate),
            ratio(|run| run.rate),
            own(|run| run.cost),
            ratio(|run| run.cost),
            own(|run| run.connection),
        );
    }
}

fn run(server: &Server, authorization: Option<&str>) -> Run {
    let counted = |connections, in_flight, calls| {
        counted(load(server, authorization, connections, in_flight), calls)
    };
    let before = server.cpu();
    let rate = counted(CONNECTIONS, IN_FLIGHT, CALLS);
    let calls = server.cpu();
    counted(HANDSHAKES, 1, HANDSHAKES);
    let end = server.cpu();
    Run {
        rate,
        cost: (calls - before) / f64::from(CALLS),
        connection: (end - calls) / f64::from(HANDSHAKES),
    }
}

/// Returns the h2load command for a server, without the number of calls or the duration.
fn load(server: &Server, authorization: Option<&str>, connections: u32, in_flight: u32) -> Command {
    let mut command = Command::new("h2load");
    command
        .args(["-t", "1", "-c", &connections.to_string(), "-m", &in_flight.to_string()])
        .args(["-H", "content-type: application/grpc", "-H", "te: trailers", "-d"])
        .arg(server.file("message"))
        .args(authorization.iter().flat_map(|header| ["-H", header]))
        .arg(format!("{}/tollgate.v1.RateService/CheckRate", server.url));
    command
}

/// Makes calls; returns their number per second.
fn counted(mut command: Command, calls: u32) -> f64 {
    let output = command.args(["-n", &calls.to_string()]).output();
    let output = output.expect("h2load is installed (Debian: nghttp2-client)");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(" 0 failed, 0 errored, 0 timeout"), "{text}");
    // "finished in 2.00s, 12345.00 req/s, 1.23MB/s"
    let line = text.lines().find(|line| line.starts_with("finished in")).expect("figures");
    let rate = line.split(", ").nth(1).and_then(|part| part.split(' ').next());
    rate.and_then(|rate| rate.parse().ok()).expect("a rate")
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Returns the value after a flag.
fn flag(name: &str) -> Option<String> {
    env::args().skip_while(|argument| argument != name).nth(1)
}
