//! Options of `tollgate pool`, with validation.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};

use super::super::{
    flags::{self, ServerFlags},
    output::OutputFlags,
};
use tollgate_core::admission::{ATTEMPTS_MAX, CAPACITY_MAX, GRACE_MAX, LEASE_MAX, LEASE_MIN};

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  Every pool, and one with its settings:
    tollgate pool list
    tollgate pool get ar:0571

  Admit no new tasks for a while; running leases continue:
    tollgate pool pause ar:0571
    tollgate pool resume ar:0571

  Another capacity until a reset:
    tollgate pool configure ar:0571 --capacity 40
    tollgate pool reset ar:0571

  List the leases, and evict a task whose device will not return:
    tollgate pool leases ar:0571
    tollgate pool evict ar:0571 camera-1 snapshot-1 --reason 'device is gone'

pause and resume change only `paused`, so the capacity from before the pause applies again
after resume: the one set with `pool configure`, or else that of the configuration file.
resume also opens a pool that the configuration file pauses. reset removes all settings made
with configure, pause and resume, so that those of the file apply again. It also ends a hold
after a failover, and repairs stored values that cannot be read.

reset and `evict --all` ask for confirmation; without a terminal they need --yes.
`evict --all` evicts the leases that exist while it runs: pause the pool first to prevent
new ones.

With --output json, list prints a Pool on each line, and leases a Lease; get, configure,
pause, resume and reset print a Pool; evict prints an EvictTaskResponse, or with --all an
object with `evicted` and `ended`.

Exit status: 0 if the requested state is reached, by this call or an earlier one; 1 if a
task to evict holds no slot, or if you do not confirm; 64 if the command line is invalid or
lacks --yes; 69 if the server does not answer.";

/// Options of `tollgate pool`.
#[derive(Debug, Clone, Args)]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
#[command(disable_help_subcommand = true)]
pub struct PoolOptions {
    /// The verb.
    #[command(subcommand)]
    pub verb: PoolVerb,

    /// The form of the result.
    #[command(flatten)]
    pub output: OutputFlags,

    /// The server.
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Verbs of `tollgate pool`.
#[derive(Debug, Clone, Subcommand)]
pub enum PoolVerb {
    /// List the pools that have leases or run-time settings
    List,
    /// Show the usage and the settings of a pool
    Get(PoolName),
    /// Change settings at run time, until a reset
    Configure(SettingsFlags),
    /// Admit no new tasks; running leases continue
    Pause(PoolName),
    /// Admit tasks again, with the capacity from before the pause
    Resume(PoolName),
    /// Remove all run-time settings, so that those of the configuration file apply
    Reset {
        /// The pool.
        #[command(flatten)]
        pool: PoolName,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// List the leases of a pool, the earliest expiry first
    Leases(PoolName),
    /// Free the slot of a task, or of all tasks; results that arrive later are answered LATE
    Evict(EvictFlags),
}

/// The name of a pool.
#[derive(Debug, Clone, Args)]
pub struct PoolName {
    /// The pool, such as `ar:0571`
    #[arg(value_name = "POOL", value_parser = flags::name)]
    pub pool: String,
}

/// Names of the flags, at least one of which is required.
const SETTINGS: [&str; 4] = ["capacity", "lease_duration", "expiry_grace", "max_attempts"];

/// Settings to change.
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("settings").args(SETTINGS).required(true).multiple(true)))]
pub struct SettingsFlags {
    /// The pool, such as `ar:0571`
    #[arg(value_name = "POOL", value_parser = flags::name)]
    pub pool: String,

    /// Number of slots, 0 to 1,000,000; if more are in use, no new task is admitted until enough
    /// leases have ended
    #[arg(long, value_name = "SLOTS", value_parser = flags::number(0..=CAPACITY_MAX))]
    pub capacity: Option<u32>,

    /// Length of leases granted from now on, 100ms to 1day
    #[arg(long, value_name = "DURATION")]
    #[arg(value_parser = flags::duration(LEASE_MIN.duration(), LEASE_MAX.duration()))]
    pub lease_duration: Option<Duration>,

    /// How long a lease that has expired without a result keeps its slot, 0s to 30days
    #[arg(long, value_name = "DURATION")]
    #[arg(value_parser = flags::duration(Duration::ZERO, GRACE_MAX.duration()))]
    pub expiry_grace: Option<Duration>,

    /// Number of attempts after which a queued task is dead, 1 to 1,000
    #[arg(long, value_name = "N", value_parser = flags::number(1..=ATTEMPTS_MAX))]
    pub max_attempts: Option<u32>,
}

/// The leases to evict.
#[derive(Debug, Clone, Args)]
pub struct EvictFlags {
    /// The pool
    #[arg(value_name = "POOL", value_parser = flags::name)]
    pub pool: String,

    /// The device that holds the slot
    #[arg(value_name = "DEVICE", value_parser = flags::name, requires = "task")]
    #[arg(required_unless_present = "all")]
    pub device: Option<String>,

    /// The task
    #[arg(value_name = "TASK", value_parser = flags::name)]
    pub task: Option<String>,

    /// Evict every task of the pool
    #[arg(long, conflicts_with_all = ["device", "task"])]
    pub all: bool,

    /// Do not ask before evicting all tasks
    #[arg(long)]
    pub yes: bool,

    /// Reason to store with the task, at most 256 bytes
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
}

impl PoolVerb {
    /// Describes the verb in errors.
    pub(super) fn what(&self) -> String {
        match self {
            PoolVerb::List => "list the pools".to_owned(),
            PoolVerb::Get(PoolName { pool }) => format!("get the pool `{pool}`"),
            PoolVerb::Configure(SettingsFlags { pool, .. }) => {
                format!("configure the pool `{pool}`")
            }
            PoolVerb::Pause(PoolName { pool }) => format!("pause the pool `{pool}`"),
            PoolVerb::Resume(PoolName { pool }) => format!("resume the pool `{pool}`"),
            PoolVerb::Reset { pool, .. } => format!("reset the pool `{}`", pool.pool),
            PoolVerb::Leases(PoolName { pool }) => format!("list the leases of `{pool}`"),
            PoolVerb::Evict(EvictFlags { pool, task: Some(task), .. }) => {
                format!("evict `{task}` from the pool `{pool}`")
            }
            PoolVerb::Evict(EvictFlags { pool, .. }) => format!("evict all tasks of `{pool}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::tests::parse;

    #[test]
    fn the_bounds_match_the_contract() {
        for flags in [
            "list --output json",
            "get p",
            "configure p --capacity 0",
            "configure p --capacity 1000000 --lease-duration 1day --expiry-grace 30days",
            "configure p --lease-duration 100ms --max-attempts 1000 --expiry-grace 0s",
            "reset p --yes",
            "evict p d t --reason gone",
            "evict p --all --yes",
        ] {
            let parsed = parse::<PoolOptions>(flags);
            assert!(parsed.is_ok(), "{flags}: {parsed:?}");
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        for (flags, part) in [
            ("", "VERB"),
            ("get", "<POOL>"),
            ("configure p", "--capacity"),
            ("configure p --capacity 1000001", "--capacity"),
            ("configure p --lease-duration 2days", "--lease-duration"),
            ("configure p --expiry-grace 31days", "--expiry-grace"),
            ("configure p --max-attempts 0", "--max-attempts"),
            ("evict p", "<DEVICE>"),
            ("evict p d", "<TASK>"),
            ("evict p d t --all", "--all"),
            ("list --output xml", "--output"),
        ] {
            let error = parse::<PoolOptions>(flags).expect_err(flags);
            assert!(error.contains(part), "{flags}: {error}");
        }
    }
}
