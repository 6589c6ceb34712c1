//! Time that Redis spends on a decision: `usec` of `cmdstat_evalsha` (`INFO commandstats`) divided
//! by the number of decisions, compared with scripts that do only what a counter needs.
//! `cargo bench --bench redis_time -- --help`

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a benchmark ends at its first failure"
)]

#[allow(dead_code, reason = "other benchmarks use the rest")]
#[path = "../side_by_side/machine.rs"]
mod machine;
#[allow(dead_code, reason = "other benchmarks use the rest")]
#[path = "../side_by_side/meter.rs"]
mod meter;
#[allow(dead_code, reason = "other benchmarks use the rest")]
#[path = "../process/mod.rs"]
mod process;
#[allow(dead_code, reason = "other benchmarks use the rest")]
#[path = "../side_by_side/table.rs"]
mod table;

mod envoy;
mod keys;
mod options;
mod prototype;
mod rates;
mod report;
mod row;
mod singles;
mod site;
mod tasks;
mod verb;

use std::path::Path;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

use options::Options;
use report::Report;
use row::{ROWS, Row};
use site::Site;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let options = Options::parse();
    // Reads the load of the machine before the benchmark adds its own.
    let circumstances = circumstances(&options.program());
    let mut rows: Vec<Row> = ROWS.iter().filter(|row| options.measures(row)).cloned().collect();
    let mut site = Site::start(&options.program()).await;
    let cells: usize = rows.iter().map(|row| row.verb.columns().len()).sum();
    let steps = rows.len() + options.rounds as usize * cells;
    let progress = ProgressBar::new(steps as u64).with_style(
        ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left  {msg}")
            .expect("a sound template"),
    );
    for row in &mut rows {
        progress.set_message(format!("{}: preparation", row.title));
        row.prepare(&mut site).await;
        progress.inc(1);
    }
    let mut report = Report::new(&rows, options.rounds);
    for _ in 0..options.rounds {
        for (position, row) in rows.iter_mut().enumerate() {
            for column in row.verb.columns() {
                progress.set_message(format!("{}, {column}", row.title));
                let time = row.measure(&mut site, *column).await;
                report.add(position, *column, time);
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    println!("{circumstances}\n\n{report}");
}

fn circumstances(program: &Path) -> String {
    format!(
        "{}, {}. Load of the machine before: {}.",
        machine::describe(),
        machine::version(program.to_str().expect("a path of text"), &["--version"]),
        machine::load(),
    )
}
