//! The command line and the exit codes.

use std::{
    borrow::Cow,
    io::{self, ErrorKind::BrokenPipe, IsTerminal, Write, stderr, stdout},
    net::SocketAddr,
    path::PathBuf,
};

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::{
    cli::{
        ban::{self, BanOptions, BansOptions, KeyFlags},
        fleet::{self, FleetOptions},
        health::{self, HealthOptions},
        lock::{self, LockOptions},
        next::{self, NextOptions},
        output::{OutputFlags, OutputFormat},
        pool::{self, PoolOptions},
        rate::{self, RateOptions},
        sequence::{self, SequenceOptions},
        stock::{self, StockOptions},
        task::{self, TaskOptions},
        top::{self, TopOptions},
        version::VERSION,
        watch::{self, WatchOptions},
    },
    config::{
        DataDir, EmbeddedOptions, EngineChoice, ServeFlags,
        store::{self, ExportFlags, ImportFlags},
    },
    decision::text::escaped_lines,
    engine::embedded::Durability,
};

/// Tollgate decides for backends, over gRPC, whether something may happen. It admits at most N
/// tasks at once to an external system, with a lease for each. It limits the rates of callers, with
/// warn and ban levels. It gives out serial numbers that never repeat, grants locks with leases and
/// fencing tokens, and sells stock without overselling.
#[derive(Debug, Parser)]
#[command(version = VERSION, args_conflicts_with_subcommands = true, after_help = exit::TABLE)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) serve: ServeFlags,
}

/// The sub-commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server (also without a sub-command)
    Serve(ServeFlags),
    /// Check a configuration file; exits 78 if it is invalid
    CheckConfig {
        /// The file; deploy/tollgate.toml documents every key
        file: PathBuf,
        /// The form of the result.
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Write the state of an engine to a file that any engine can import
    #[command(after_help = store::HELP)]
    Export {
        /// The source and the target.
        #[command(flatten)]
        flags: ExportFlags,
        /// Form of the summary: text on standard error; JSON on standard output, unless the export
        /// itself is written there
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        summary: OutputFormat,
    },
    /// Read a file that `tollgate export` has written into an engine
    #[command(after_help = store::HELP)]
    Import {
        /// The source and the target.
        #[command(flatten)]
        flags: ImportFlags,
        /// The form of the result.
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Simulate devices, callers or buyers against a running server; exits 1 if the cap, the limit
    /// or the stock was exceeded
    #[command(after_help = fleet::HELP)]
    Fleet(Box<FleetOptions>),
    /// Check the rate of a key; exits 1 if the call is refused
    #[command(after_help = rate::HELP)]
    Rate(RateOptions),
    /// Take serial numbers of a sequence and print them, one per line
    #[command(after_help = next::HELP)]
    Next(NextOptions),
    /// Set, reserve, confirm, cancel or show stock; exits 1 if the call is refused
    #[command(after_help = stock::HELP)]
    Stock(StockOptions),
    /// Run a command while holding a lock; exits with the code of the command, or with 1 if another
    /// owner holds the lock
    #[command(after_help = lock::HELP)]
    Lock(LockOptions),
    /// Print the events of a pool or of a policy's keys, one per line
    #[command(after_help = watch::HELP)]
    Watch(WatchOptions),
    /// Ask whether a server is SERVING; exits 1 if it is NOT_SERVING
    #[command(after_help = health::HELP)]
    Health(HealthOptions),
    /// Show, configure, pause, resume or reset pools; list or evict their leases
    #[command(after_help = pool::HELP)]
    Pool(PoolOptions),
    /// List, queue or cancel tasks; exits 1 if the call is refused
    #[command(after_help = task::HELP)]
    Task(TaskOptions),
    /// Ban a key
    #[command(after_help = ban::HELP)]
    Ban(BanOptions),
    /// Lift the ban of a key
    #[command(after_help = ban::HELP)]
    Unban(KeyFlags),
    /// List the running bans of a policy
    #[command(after_help = ban::HELP)]
    Bans(BansOptions),
    /// Show the last value of a sequence
    #[command(after_help = sequence::HELP)]
    Sequence(SequenceOptions),
    /// Print a new token for a caller, and the digest that the configuration of the server needs
    Token(OutputFlags),
    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write manual pages into a folder, one for each command
    Man {
        /// The folder, such as /usr/local/share/man/man1; it is created if it is missing
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Show the pools of a server live in the terminal
    #[command(after_help = top::HELP)]
    Top(TopOptions),
}

/// Prints the engine, the address and example calls.
pub(crate) fn greet(engine: &EngineChoice, listen: SocketAddr, has_tls: bool) {
    let engine = match engine {
        EngineChoice::Embedded(EmbeddedOptions { data_dir: None, .. }) => {
            "the embedded engine, in memory: state ends with the process".to_owned()
        }
        EngineChoice::Embedded(EmbeddedOptions { data_dir: Some(data_dir), .. }) => {
            let DataDir { path, durability } = data_dir;
            let what = match durability {
                Durability::Always => "each answer is synced before it is sent",
                Durability::Interval => "a kill or power loss loses at most one second of answers",
            };
            format!("the embedded engine, data directory {}: {what}", path.display())
        }
        EngineChoice::Redis(_) => "the Redis engine".to_owned(),
    };
    let transport = if has_tls { "-cacert ca.crt" } else { "-plaintext" };
    let admit = r#"{"pool":"demo","device_id":"camera-1","task_id":"snapshot-1"}"#;
    let check = r#"{"key":"user:7","rule":{"limits":[{"max":2,"window":"600s"}]}}"#;
    let next = r#"{"name":"order"}"#;
    let acquire = r#"{"name":"nightly-report","owner":"host-1"}"#;
    let set = r#"{"sku":"tv-55","on_hand":50}"#;
    say(&format!(
        "Tollgate {version} on {engine}\n\
         Listening on {listen}. Try:\n\n  \
         grpcurl {transport} -d '{admit}' \\\n    \
         {listen} tollgate.v1.AdmissionService/AdmitTask\n  \
         grpcurl {transport} -d '{check}' \\\n    \
         {listen} tollgate.v1.RateService/CheckRate\n  \
         grpcurl {transport} -d '{next}' \\\n    \
         {listen} tollgate.v1.SequenceService/NextSequence\n  \
         grpcurl {transport} -d '{acquire}' \\\n    \
         {listen} tollgate.v1.LockService/AcquireLock\n  \
         grpcurl {transport} -d '{set}' \\\n    \
         {listen} tollgate.v1.StockService/SetStock\n",
        version = VERSION,
    ));
}

/// Prints a text to standard output. Ignores a failure: a closed reader does not want the text.
pub(crate) fn say(text: &str) {
    let _ = writeln!(stdout(), "{}", escaped_lines(text));
}

/// Prints a problem to standard error.
pub(crate) fn warn(text: &str) {
    let _ = writeln!(stderr(), "tollgate: {}", escaped_lines(text));
}

/// Returns the text for standard output: escaped on a terminal, unchanged for programs.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    if stdout().is_terminal() { escaped_lines(text) } else { Cow::Borrowed(text) }
}

/// Prints a result that exists only here, so a failed write is an error. A closed pipe is not: its
/// reader has read enough.
pub(crate) fn hand_over(text: &str) -> io::Result<()> {
    print(text).map(drop)
}

/// Prints a part of a result. Returns whether the reader of the output reads on.
pub(crate) fn print(text: &str) -> io::Result<bool> {
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == BrokenPipe => Ok(false),
        printed => printed.map(|()| true),
    }
}

/// Exit codes of the process, from sysexits.h.
pub(crate) mod exit {
    use std::{fmt::Display, process::ExitCode};

    use crate::engine::{
        embedded::OpenError,
        export::{Failure, Unfit},
    };

    /// The table of exit codes for `--help`.
    pub(crate) const TABLE: &str = "\
Exit status:
    0  success: served until a signal, allowed, given out, printed, exported or imported
    1  refused: a rate, stock, or a lock that another owner holds; a fleet exceeded the
       cap, the limit or the stock; or a server is NOT_SERVING
   64  the command line is wrong
   65  a data directory or an export is damaged, or the imported entries do not match the
       export
   66  a data directory or an export does not exist or cannot be read
   69  no answer, or an error instead of one; the address, the Redis or the data directory
       of a server is not available
   73  the target of an import is not empty
   74  a data directory or a file cannot be used or written
   75  a lock was lost before its command ended
   78  the configuration is wrong, or its Redis failed the preflight or has an unfinished
       import
  126  the command of `tollgate lock` cannot be executed
  127  the command of `tollgate lock` does not exist
Any other status is that of the command of `tollgate lock`, or 128 plus the number of a signal.";

    /// The command line is wrong.
    pub(crate) const USAGE: u8 = 64;
    // Private codes; `TABLE` describes them.
    const DATA: u8 = 65;
    const NO_INPUT: u8 = 66;
    const UNAVAILABLE: u8 = 69;
    const OCCUPIED: u8 = 73;
    const IO: u8 = 74;
    const CONFIG: u8 = 78;

    /// A call was refused, or a server is NOT_SERVING.
    pub(crate) const REFUSED: u8 = 1;

    /// A lock was lost before its command ended. EX_TEMPFAIL: a later try may get it.
    pub(crate) const LOST: u8 = 75;

    /// Reports that the configuration is wrong.
    pub(crate) fn config(error: &impl Display) -> ExitCode {
        end(error, CONFIG)
    }

    /// Reports that a server, an address or a Redis is unreachable, or has failed.
    pub(crate) fn unavailable(error: &impl Display) -> ExitCode {
        end(error, UNAVAILABLE)
    }

    /// Reports that the data directory cannot be used.
    pub(crate) fn data_dir(error: &OpenError) -> ExitCode {
        let code = match error {
            OpenError::Damaged(_) => DATA,
            OpenError::Unusable(_) => IO,
            OpenError::Taken(_) => UNAVAILABLE,
            OpenError::Missing(_) => NO_INPUT,
        };
        end(error, code)
    }

    /// Reports that a file cannot be written.
    pub(crate) fn unwritten(error: &impl Display) -> ExitCode {
        end(error, IO)
    }

    /// Reports that an export or import has failed.
    pub(crate) fn transfer(failure: &Failure) -> ExitCode {
        let code = match failure {
            Failure::Directory(error) => return data_dir(error),
            Failure::Redis(_) => UNAVAILABLE,
            Failure::Unfit(Unfit::Unread(_)) => NO_INPUT,
            Failure::Damaged(_) | Failure::Unfit(_) | Failure::Unverified(_) => DATA,
            Failure::Occupied(_) => OCCUPIED,
            Failure::File(_) => IO,
        };
        end(failure, code)
    }

    fn end(error: &impl Display, code: u8) -> ExitCode {
        // The exit code carries the essentials if standard error has no reader.
        super::warn(&error.to_string());
        ExitCode::from(code)
    }
}
