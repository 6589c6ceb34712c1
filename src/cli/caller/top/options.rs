//! Options of `tollgate top`.

use clap::Args;

use super::super::flags;

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  The pools of the server on this machine:
    tollgate top

  Those of another one, once, as a table:
    tollgate top --once --server http://tollgate:50051

Shows the pools, the fullest first: slots in use and their number; how many tasks a
second were admitted, refused as FULL, reported late and expired, over the last five
seconds; for how long the oldest lease has run, by this machine's clock; how many tasks
are queued and how many calls wait for a slot; and what happened last.

Asks for 100 pools a second, of at most 1,000, and watches the events of the 32 busiest
and of the one that is selected; `-` stands where nothing is known. FULL is counted by
the server that is asked, for the calls that it answers itself.

Keys: Up and Down, or k and j, select a pool, whose events are then shown alone; Esc
deselects it; p pauses the display; ? helps; q or Ctrl-C ends it. When the server is
lost it says so, and goes on when it is back. Where standard output is no terminal it
prints a table once.

Exit status: 0 at the end, 64 for a wrong command line, 69 when the server cannot be
reached at the start.";

/// Options of `tollgate top`.
#[derive(Debug, Clone, Args)]
pub struct TopOptions {
    /// Print a table once and exit
    #[arg(long)]
    pub once: bool,

    /// URL of the server
    #[arg(long, value_name = "URL", env = "TOLLGATE_SERVER", value_parser = flags::server)]
    #[arg(default_value = "http://127.0.0.1:50051")]
    pub server: String,
}
