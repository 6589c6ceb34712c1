//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::row::Row;

/// Measures the time that Redis spends on a decision.
///
/// The time is that of EVALSHA in Redis's own statistics (INFO commandstats), divided by the number
/// of decisions. Verbs are called through a Tollgate server with its own Redis. Prototypes on the
/// same Redis show what is possible.
///
/// All rows are measured in turn, several times, so that other work on the machine affects them
/// equally; the smallest result is printed. Each reply is checked. Needs Linux and redis-server.
#[derive(Debug, Parser)]
#[command(name = "cargo bench --bench redis_time --", after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Rounds; the smallest result of a cell is printed
    // More rounds would reach the limits of the rows with one key.
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(crate) rounds: u32,

    /// Measures only rows whose title contains this text, and packed.lua for the ratios
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,

    /// Measures this build of tollgate instead of the current one
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,

    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

const EXAMPLES: &str = "\
Examples:
  cargo bench --bench redis_time            (everything: about two minutes)
  cargo bench --bench redis_time -- --filter CheckRate --rounds 3
  cargo bench --bench redis_time -- --filter \"token bucket\" --program ../other/tollgate";

impl Options {
    pub(crate) fn measures(&self, row: &Row) -> bool {
        let is_selected = self.filter.as_ref().is_none_or(|text| row.title.contains(text));
        is_selected || row.is_reference()
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.program.clone().unwrap_or_else(|| env!("CARGO_BIN_EXE_tollgate").into())
    }
}
