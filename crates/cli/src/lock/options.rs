//! Options of `tollgate lock`, with validation.

use std::{
    ffi::OsString,
    hash::{BuildHasher, RandomState},
    process,
    time::Duration,
};

use clap::{Args, Subcommand, ValueEnum};

use super::super::{
    flags::{self, PrefixFlags},
    output::OutputFlags,
};
use tollgate_core::lock::LEASE_MAX;

/// Minimum lease, because a busy machine may renew shorter leases too late.
const LEASE_MIN: Duration = Duration::from_secs(1);
/// Maximum wait, except for `forever`.
const WAIT_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  A report that one of many machines makes:
    tollgate lock nightly-report -- ./make-report.sh

  One migration after another, each waiting up to 10 minutes:
    tollgate lock migrate --wait 10m -- ./migrate.sh --all

  The held locks whose names begin with `deploy:`:
    tollgate lock list --prefix deploy:

Acquires the lock, runs COMMAND, renews the lease whenever a third of it has passed, and
releases the lock when COMMAND has ended. COMMAND inherits standard input, output and
error. Its environment contains:
  TOLLGATE_FENCING_TOKEN  higher than the token of every earlier lease; the protected
                          resource should reject tokens lower than one it has seen
  TOLLGATE_LOCK_NAME, TOLLGATE_LOCK_OWNER

Calls wait in order of arrival for up to 60 s, after which the call is repeated at the end
of the queue. While it waits, servers that have failed are retried too.

The lock is lost if a renewal is answered with its loss, or if no renewal was answered
before the lease expired, counted from before the call was sent. COMMAND then gets SIGTERM
and may take any time to end, unless --kill-after is set.

SIGTERM and SIGHUP are forwarded to COMMAND, and so are SIGINT and SIGQUIT, except in the
foreground of a terminal, which sends Ctrl-C and Ctrl-\\ to COMMAND itself. Before COMMAND
runs, these signals end the wait. Other processes get no signal. On Linux, killing
`tollgate lock` with SIGKILL also ends COMMAND (not with --if-lost ignore), but not the
processes that COMMAND has started. On other systems COMMAND continues. The lease then
expires.

Exit status: that of COMMAND, or 128 plus the number of the signal that ended it; 1, or N of
--conflict-exit-code, if another owner holds the lock; 75 if the lock was lost before
COMMAND ended (not with --if-lost ignore); 126 if COMMAND cannot be executed; 127 if it
does not exist; 64 if the command line is invalid; 69 if the server does not answer. Unless
the status is that of COMMAND, a message on standard error explains it. A failed release is
also reported there and does not change the status. With --output json, an
AcquireLockResponse is printed if another owner holds the lock.

With --output json, list prints a Lock on each line. To use a lock that is named `list`, put
an option before its name: `tollgate lock --wait 0s list -- COMMAND`.";

/// Options of `tollgate lock`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
#[command(disable_help_subcommand = true)]
pub struct LockOptions {
    /// The verb; `None` to run a command.
    #[command(subcommand)]
    pub verb: Option<LockVerb>,

    /// Name of the lock, such as `nightly-report`
    #[arg(value_name = "NAME", value_parser = flags::name, required = true)]
    pub name: Option<String>,

    /// Owner of the lock, unique among its competitors. Processes with the same owner share the
    /// lock, so a restarted process can keep it [default: host, process id and a random number]
    #[arg(long, value_name = "OWNER", value_parser = flags::name)]
    pub owner: Option<String>,

    /// Duration of the lease, 1s to 30days, after which the lock is free unless the lease is
    /// renewed
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = flags::duration(LEASE_MIN, LEASE_MAX.duration()))]
    pub lease: Duration,

    /// How long to wait for the lock, 0s to 30days, or `forever`; every 60 s the wait starts again
    /// at the end of the queue
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = wait)]
    pub wait: Duration,

    /// Exit code if another owner holds the lock, 0 to 255
    #[arg(long, short = 'E', value_name = "N", default_value_t = 1)]
    pub conflict_exit_code: u8,

    /// What to do if the lock is lost while COMMAND is running
    #[arg(long, value_name = "WHAT", default_value = "term")]
    pub if_lost: IfLost,

    /// If the lock is lost, send SIGKILL this long after SIGTERM, 0s to 1day [default: never]
    #[arg(long, value_name = "DURATION")]
    #[arg(value_parser = flags::duration(Duration::ZERO, LEASE_MAX.duration()))]
    pub kill_after: Option<Duration>,

    /// The form of the result.
    #[command(flatten)]
    pub output: OutputFlags,

    /// URL of the server
    #[arg(long, value_name = "URL", env = "TOLLGATE_SERVER", value_parser = flags::server)]
    #[arg(default_value = "http://127.0.0.1:50051", global = true)]
    pub server: String,

    /// TLS and token.
    #[command(flatten)]
    pub access: flags::AccessFlags,

    /// Command to run, with its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub command: Vec<OsString>,
}

/// Verbs of `tollgate lock`.
#[derive(Debug, Clone, Subcommand)]
pub enum LockVerb {
    /// List the held locks, in no particular order
    List(PrefixFlags),
}

/// Reaction to a lock that is lost while the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IfLost {
    /// Send SIGTERM to COMMAND
    Term,
    /// Print a warning and let COMMAND continue
    Ignore,
}

impl LockOptions {
    /// Returns the name of the lock, which is empty if there is a verb.
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Returns the owner: the option, or a new unique name.
    pub(super) fn owner(&self) -> String {
        let random = || RandomState::new().hash_one(0u8) as u32;
        self.owner.clone().unwrap_or_else(|| {
            let system = rustix::system::uname();
            let host: String = system
                .nodename()
                .to_string_lossy()
                .chars()
                .filter(|character| !character.is_control())
                .collect();
            format!("{host}-{}-{:08x}", process::id(), random())
        })
    }
}

/// Parses `--wait`; `forever` is the maximum duration.
fn wait(text: &str) -> Result<Duration, String> {
    match text {
        "forever" => Ok(Duration::MAX),
        _ => flags::between(text, Duration::ZERO, WAIT_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::tests::parse;

    #[test]
    fn arguments_after_the_dashes_belong_to_the_command() {
        let options: LockOptions = parse("n --wait 90s -- ls --wait -- x").expect("good");
        assert_eq!(options.command, ["ls", "--wait", "--", "x"]);
        assert_eq!((options.lease.as_secs(), options.wait.as_secs()), (30, 90));
        assert_eq!((options.if_lost, options.kill_after), (IfLost::Term, None));
        let options: LockOptions = parse("n --wait forever -- ls").expect("good");
        assert_eq!(options.wait, Duration::MAX);
    }

    #[test]
    fn list_is_a_verb_unless_an_option_is_before_it() {
        let options: LockOptions = parse("list --prefix a --server http://x").expect("good");
        let Some(LockVerb::List(PrefixFlags { prefix })) = &options.verb else { panic!() };
        assert_eq!((&**prefix, &*options.server, options.name()), ("a", "http://x", ""));
        let options: LockOptions = parse("--wait 0s list -- ls").expect("good");
        assert_eq!((options.name(), options.verb.is_none()), ("list", true));
        assert!(parse::<LockOptions>("list -- ls").is_err());
    }

    #[test]
    fn owners_differ_unless_they_are_given() {
        let options: LockOptions = parse("n -- ls").expect("good");
        assert_ne!(options.owner(), options.owner());
        assert!(options.owner().contains(&format!("-{}-", process::id())));
        let options: LockOptions = parse("n --owner me -- ls").expect("good");
        assert_eq!(options.owner(), "me");
    }

    #[test]
    fn errors_name_the_flag() {
        for (arguments, part) in [
            ("-- ls", "<NAME>"),
            ("n", "<COMMAND>"),
            ("n --", "<COMMAND>"),
            ("n ls", "ls"),
            ("n --lease 999ms -- ls", "--lease"),
            ("n --lease 31days -- ls", "--lease"),
            ("n --wait=-1s -- ls", "--wait"),
            ("n --wait 31days -- ls", "--wait"),
            ("n --if-lost kill -- ls", "--if-lost"),
            ("n --owner= -- ls", "--owner"),
            ("n --kill-after soon -- ls", "--kill-after"),
            ("n --server ftp://x -- ls", "--server"),
        ] {
            let error = parse::<LockOptions>(arguments).expect_err(arguments);
            assert!(error.contains(part), "{arguments}: {error}");
        }
    }
}
