//! The command line.

use std::{
    io::{self, ErrorKind::BrokenPipe, Write, stderr, stdout},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
};

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};

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
};

/// Tollgate answers, over gRPC, whether something may happen: at most N
/// devices at once on an external system, with a lease for each; callers
/// within their rates, with warn and ban levels; gives out serial numbers that
/// never repeat; keeps locks, with leases and fencing tokens; and sells stock
/// without overselling.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeFlags,
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

/// Reads the command line; the error is how to end: 64 for a wrong one.
pub(crate) fn parse() -> Result<Command, ExitCode> {
    match Cli::try_parse().and_then(check) {
        Ok(cli) => Ok(cli.command.unwrap_or(Command::Serve(cli.serve))),
        Err(error) => {
            // Nobody is left to tell when even this cannot be printed.
            let _ = error.print();
            Err(if error.use_stderr() { ExitCode::from(exit::USAGE) } else { ExitCode::SUCCESS })
        }
    }
}

/// Checks what no flag can tell alone.
fn check(cli: Cli) -> Result<Cli, clap::Error> {
    let checked = match &cli.command {
        Some(Command::Fleet(options)) => options.check(),
        Some(Command::Rate(options)) => options.check(),
        _ => Ok(()),
    };
    let error = |message| Cli::command().error(ErrorKind::ValueValidation, message);
    checked.map_err(error)?;
    Ok(cli)
}

/// Says where the server listens and what to try.
pub(crate) fn greet(engine: &EngineChoice, listen: SocketAddr) {
    let engine = match engine {
        EngineChoice::Embedded(EmbeddedOptions { data_dir: None, .. }) => {
            "the embedded engine, in memory: state ends with the process".to_owned()
        }
        EngineChoice::Embedded(EmbeddedOptions { data_dir: Some(data_dir), .. }) => {
            let DataDir { path, durability } = data_dir;
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
    let _ = writeln!(stdout(), "{text}");
}

/// Says what went wrong, on standard error.
pub(crate) fn warn(text: &str) {
    let _ = writeln!(stderr(), "tollgate: {text}");
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
