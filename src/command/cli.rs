//! The command line.

use std::{
    borrow::Cow,
    io::{self, ErrorKind::BrokenPipe, IsTerminal, Write, stderr, stdout},
    net::SocketAddr,
    path::PathBuf,
};

use clap::{Parser, Subcommand};

use crate::{
    caller::{
        lock::{self, LockOptions},
        next::{self, NextOptions},
        rate::{self, RateOptions},
        stock::{self, StockOptions},
        top::{self, TopOptions},
        watch::{self, WatchOptions},
    },
    config::{
        DataDir, EmbeddedOptions, EngineChoice, ServeFlags,
        store::{self, ExportFlags, ImportFlags},
    },
    engine::embedded::Durability,
    fleet::{self, FleetOptions},
    text::escaped_lines,
};

/// Tollgate answers, over gRPC, whether something may happen: at most N
/// devices at once on an external system, with a lease for each; callers
/// within their rates, with warn and ban levels; gives out serial numbers that
/// never repeat; keeps locks, with leases and fencing tokens; and sells stock
/// without overselling.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true, after_help = exit::TABLE)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) serve: ServeFlags,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve (also without a command)
    Serve(ServeFlags),
    /// Check a configuration file; exits 78 when it is not good
    CheckConfig {
        /// The file; deploy/tollgate.toml documents every key
        file: PathBuf,
    },
    /// Write what an engine holds to a file, from which any engine takes it in
    #[command(after_help = store::HELP)]
    Export(ExportFlags),
    /// Take in what `tollgate export` has written
    #[command(after_help = store::HELP)]
    Import(ImportFlags),
    /// Play a fleet of devices, callers or buyers against a running server;
    /// exits 1 when the cap, the limit or the stock did not hold
    #[command(after_help = fleet::HELP)]
    Fleet(Box<FleetOptions>),
    /// Try a limit: check a key's rate; exits 1 when it is refused
    #[command(after_help = rate::HELP)]
    Rate(RateOptions),
    /// Take serial numbers of a name; prints them, one per line
    #[command(after_help = next::HELP)]
    Next(NextOptions),
    /// Set, reserve, confirm, cancel or look at stock; exits 1 when it is refused
    #[command(after_help = stock::HELP)]
    Stock(StockOptions),
    /// Run a command while holding a lock; exits with its code, or with 1 when
    /// another owner holds the lock
    #[command(after_help = lock::HELP)]
    Lock(LockOptions),
    /// Print what happens in a pool, or to a policy's keys, an event a line
    #[command(after_help = watch::HELP)]
    Watch(WatchOptions),
    /// Show the pools of a server in the terminal, as they are
    #[command(after_help = top::HELP)]
    Top(TopOptions),
}

/// Says where the server listens and what to try.
pub(crate) fn greet(engine: &EngineChoice, listen: SocketAddr) {
    let engine = match engine {
        EngineChoice::Embedded(EmbeddedOptions { data_dir: None, .. }) => {
            "the embedded engine, in memory: state ends with the process".to_owned()
        }
        EngineChoice::Embedded(EmbeddedOptions { data_dir: Some(data_dir), .. }) => {
            let DataDir { path, durability, .. } = data_dir;
            let what = match durability {
                Durability::Always => "an answer is on the disk",
                Durability::Interval => "a kill or power loss takes a second at most",
            };
            format!("the embedded engine, kept in {}: {what}", path.display())
        }
        EngineChoice::Redis(_) => "the Redis engine".to_owned(),
    };
    let admit = r#"{"pool":"demo","device_id":"camera-1","task_id":"snapshot-1"}"#;
    let check = r#"{"key":"user:7","rule":{"limits":[{"max":2,"window":"600s"}]}}"#;
    let next = r#"{"name":"order"}"#;
    let acquire = r#"{"name":"nightly-report","owner":"host-1"}"#;
    let set = r#"{"sku":"tv-55","on_hand":50}"#;
    say(&format!(
        "Tollgate {version} on {engine}\n\
         Listening on {listen}. Try:\n\n  \
         grpcurl -plaintext -d '{admit}' \\\n    \
         {listen} tollgate.v1.AdmissionService/AdmitTask\n  \
         grpcurl -plaintext -d '{check}' \\\n    \
         {listen} tollgate.v1.RateService/CheckRate\n  \
         grpcurl -plaintext -d '{next}' \\\n    \
         {listen} tollgate.v1.SequenceService/NextSequence\n  \
         grpcurl -plaintext -d '{acquire}' \\\n    \
         {listen} tollgate.v1.LockService/AcquireLock\n  \
         grpcurl -plaintext -d '{set}' \\\n    \
         {listen} tollgate.v1.StockService/SetStock\n",
        version = env!("CARGO_PKG_VERSION"),
    ));
}

/// Prints a text. A reader that is gone has chosen not to know.
pub(crate) fn say(text: &str) {
    let _ = writeln!(stdout(), "{}", escaped_lines(text));
}

/// Says what went wrong, on standard error.
pub(crate) fn warn(text: &str) {
    let _ = writeln!(stderr(), "tollgate: {}", escaped_lines(text));
}

/// A text as standard output takes it: escaped for people, as it is for programs.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    if stdout().is_terminal() { escaped_lines(text) } else { Cow::Borrowed(text) }
}

/// Prints what is nowhere else. A reader that is gone has had enough of it.
pub(crate) fn hand_over(text: &str) -> io::Result<()> {
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// How the process ends, in the codes of sysexits.h.
pub(crate) mod exit {
    use std::{fmt::Display, process::ExitCode};

    use crate::{
        archive::Unfit,
        engine::{archive::Failure, embedded::OpenError},
    };

    /// All of them, for `--help`.
    pub(crate) const TABLE: &str = "\
Exit status:
    0  it is done: served until a signal to end, allowed, given out, printed, moved
    1  it was refused: a rate, stock, a lock that another owner holds; or the cap, the
       limit or the stock of a fleet did not hold
   64  the command line is wrong
   65  a data directory or an archive is damaged, or an import does not match its archive
   66  a data directory or an archive does not exist or cannot be read
   69  no answer, or an error in its place; the address, the Redis or the data directory
       of a server cannot be had
   73  the target of an import holds something already
   74  a data directory or a file cannot be used or written
   75  a lock was lost before its command ended
   78  the configuration is wrong, or its Redis must not be used
  126  the command of `tollgate lock` cannot be executed
  127  the command of `tollgate lock` does not exist
Any other is that of the command of `tollgate lock`, or 128 and the number of a signal.";

    /// The command line is wrong.
    pub(crate) const USAGE: u8 = 64;
    const DATA: u8 = 65;
    const NO_INPUT: u8 = 66;
    const UNAVAILABLE: u8 = 69;
    const OCCUPIED: u8 = 73;
    const IO: u8 = 74;
    const CONFIG: u8 = 78;

    /// A call was refused.
    pub(crate) const REFUSED: u8 = 1;

    /// A lock was lost before its command ended. EX_TEMPFAIL: another try may hold it.
    pub(crate) const LOST: u8 = 75;

    /// The configuration is wrong.
    pub(crate) fn config(error: &impl Display) -> ExitCode {
        end(error, CONFIG)
    }

    /// Something outside is not to be had.
    pub(crate) fn unavailable(error: &impl Display) -> ExitCode {
        end(error, UNAVAILABLE)
    }

    /// The data directory cannot be used.
    pub(crate) fn data_dir(error: &OpenError) -> ExitCode {
        let code = match error {
            OpenError::Damaged(_) => DATA,
            OpenError::Unusable(_) => IO,
            OpenError::Taken(_) => UNAVAILABLE,
            OpenError::Missing(_) => NO_INPUT,
        };
        end(error, code)
    }

    /// An export or an import has failed.
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
        // The code tells the most of it where nobody reads.
        super::warn(&error.to_string());
        ExitCode::from(code)
    }
}
