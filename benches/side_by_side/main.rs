//! Compares a bare echo, Tollgate in memory and on Redis, and peers, all on one machine.
//! `cargo bench --bench side_by_side -- --help`

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a benchmark ends at its first failure"
)]

#[path = "../process/mod.rs"]
mod process;

mod besides;
mod call;
mod client;
mod closed_loop;
mod connection;
mod crowd;
mod echo;
mod envoy;
mod h2load;
mod idle;
mod install;
mod kind;
mod loads;
mod machine;
mod meter;
mod open_loop;
mod options;
mod pace;
mod peer_calls;
mod peers;
mod plot;
mod readme;
mod report;
mod results;
mod row;
mod run;
mod table;
mod tally;
mod targets;

use std::process::ExitCode;

use clap::Parser;
use tollgate::server::allocator::{self, Allocator};

use besides::Besides;
use loads::Ports;
use options::Options;
use report::Report;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    allocator::purge_apart();
    let options = Options::parse();
    if let Some(address) = options.echo {
        let error = echo::serve(address).expect_err("it ends with the process only");
        eprintln!("the echo cannot serve on {address}: {error}");
        return ExitCode::FAILURE;
    }
    // Ten thousand connections need as many files in the client and in the server.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.expect("a runtime").block_on(measure(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("side_by_side: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(options: &Options) -> Result<(), String> {
    // Reads the machine's load before the benchmark adds its own.
    let circumstances = readme::circumstances();
    let mut ports = Ports::from(options.ports);
    let (mut rows, mut skipped) = if options.no_loads {
        (Vec::new(), Vec::new())
    } else {
        loads::start(options, &mut ports).await?
    };
    if options.with_peers() && !options.no_loads {
        skipped.extend(peers::start(options, &mut ports, &mut rows).await);
    }
    let results = loads::run(options, &mut rows).await;
    let besides = Besides::measure(options, &mut rows, &results).await;
    drop(rows);
    let plot = options.writes().then_some(plot::FILE);
    let report = Report { options, results: &results, besides: &besides, skipped: &skipped, plot };
    let text = format!("{circumstances}\n\n{report}");
    println!("{text}");
    if options.writes() {
        plot::draw(&results, &options.in_flight, &readme::folder().join(plot::FILE))
            .map_err(|error| format!("the plot: {error}"))?;
        readme::write(&text)?;
        eprintln!("written: benches/README.md, benches/{}", plot::FILE);
    }
    if results.wrong().is_empty() { Ok(()) } else { Err("not every answer was correct".to_owned()) }
}
