//! The history checker: reads recorded events of a pool, and checks that the capacity was never
//! exceeded and that every admission ended once.
//!
//! ```sh
//! grpcurl -plaintext -d '{"pool":"ar:0571","after":"0"}' 127.0.0.1:50051 \
//!     tollgate.v1.AdmissionService/WatchPool > events.json
//! cargo test --test history -- events.json
//! tollgate watch ar:0571 --json --count 1000 | cargo test --test history -- -
//! ```
//!
//! - `event`, `reader`: an event, and a stream of them, in protobuf's JSON form
//! - `checker`: the order of a stream, and the verdict
//! - `admissions`, `tasks`: the rules
//! - `checks`: the checker on the valid and broken `records`. If no argument names a record, only
//!   these checks run

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]

mod admissions;
mod checker;
mod checks;
mod event;
mod reader;
mod records;
mod tasks;

use std::{env, fs::File, io, process::ExitCode};

use checker::{Demands, Verdict};
use reader::check;

const HELP: &str = "\
Usage: cargo test --test history -- [OPTIONS] RECORD...

Checks the recorded events of a pool, from `tollgate watch --json` or from grpcurl's
WatchPool. A RECORD is a file whose name has a `.` or a `/` in it, or `-` for standard
input. Without a RECORD the checker runs its own checks.

  --from-start        the record begins with the pool's first event
  --complete          at its end all admissions have ended
  --max-attempts N    the largest allowed number of attempts of a task

Exit status: 0 when all records hold, 1 when one is broken, 2 when one cannot be read.";

fn main() -> ExitCode {
    let (mut demands, mut records, mut filters) = (Demands::default(), Vec::new(), Vec::new());
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" => return say(HELP),
            // `cargo test` asks every test binary for its tests; this one has none to list.
            "--list" => return ExitCode::SUCCESS,
            "--from-start" => demands.from_start = true,
            "--complete" => demands.complete = true,
            "--max-attempts" => match arguments.next().map(|number| number.parse()) {
                Some(Ok(number)) => demands.max_attempts = Some(number),
                _ => return fail("--max-attempts needs a number"),
            },
            // Options of the test harness that take a value.
            "--skip" | "--test-threads" | "--format" | "--color" => drop(arguments.next()),
            "-" => records.push(argument),
            option if option.starts_with('-') => {}
            name if name.contains(['.', '/']) => records.push(argument),
            _ => filters.push(argument),
        }
    }
    if records.is_empty() {
        return checks::run(&filters);
    }
    let mut code = ExitCode::SUCCESS;
    for record in &records {
        match read(record, demands) {
            Ok(verdict) => {
                println!("{record}: {verdict}");
                if !verdict.holds() {
                    code = ExitCode::FAILURE;
                }
            }
            Err(error) => return fail(&format!("{record}: {error}")),
        }
    }
    code
}

fn read(record: &str, demands: Demands) -> io::Result<Verdict> {
    match record {
        "-" => check(io::stdin().lock(), demands),
        file => check(File::open(file)?, demands),
    }
}

fn say(text: &str) -> ExitCode {
    println!("{text}");
    ExitCode::SUCCESS
}

fn fail(why: &str) -> ExitCode {
    eprintln!("history: {why}");
    ExitCode::from(2)
}
