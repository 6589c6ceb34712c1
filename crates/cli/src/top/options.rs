//! Options of `tollgate top`.

use clap::Args;

use super::super::{flags, output::OutputFlags};

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  The pools of the server on this machine:
    tollgate top

  The pools of another server, once, as a table:
    tollgate top --once --server http://tollgate:50051

Shows the pools, the fullest first, with the slots in use and the capacity; the tasks per
second that were admitted, refused as FULL, reported late and expired over the last five
seconds; the age of the oldest lease by this machine's clock; the numbers of queued tasks
and of waiting calls; and the latest events.

Polls 100 pools per second, at most 1,000, and watches the events of the 32 busiest pools
and of the selected one; `-` means unknown. FULL counts only the calls that this server
answered.

Keys: Up and Down, or k and j, select a pool and show only its events; Esc clears the
selection; p pauses the display; ? shows the help; q or Ctrl-C quits. If the connection to
the server is lost, the display says so and continues when it answers again. Without a
terminal it prints a table once. With --output json it prints all pools once, a Pool on each
line.

Exit status: 0 at the end; 64 if the command line is invalid; 69 if the server is
unreachable at the start.";

/// Options of `tollgate top`.
#[derive(Debug, Clone, Args)]
pub struct TopOptions {
    /// Print a table once and exit
    #[arg(long)]
    pub once: bool,

    /// The form of the result.
    #[command(flatten)]
    pub output: OutputFlags,

    /// URL of the server
    #[arg(long, value_name = "URL", env = "TOLLGATE_SERVER", value_parser = flags::server)]
    #[arg(default_value = "http://127.0.0.1:50051")]
    pub server: String,

    /// TLS and token.
    #[command(flatten)]
    pub access: flags::AccessFlags,
}
