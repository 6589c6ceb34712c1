//! The client commands on the command line, and their dispatch.

use std::process::ExitCode;

use clap::Subcommand;
use tollgate_client::Health;

use super::{
    ban::{self, BanOptions, BansOptions, KeyFlags},
    client::ClientError,
    exit,
    health::{self, HealthOptions},
    json,
    key::{self, KeyOptions},
    lock::{self, LockOptions, LockVerb, WithParent},
    next::{self, NextOptions},
    pool::{self, PoolOptions},
    print,
    rate::{self, RateOptions},
    reload::{self, ReloadEnd, ReloadOptions},
    sequence::{self, SequenceOptions},
    status::{self, StatusOptions},
    stock::{self, StockOptions},
    store::{self, StoreOptions},
    task::{self, TaskOptions},
    top::{self, TopOptions},
    watch::{self, WatchOptions},
};

/// Example calls, one for each capability: an RPC and its request.
pub const FIRST_CALLS: [(&str, &str); 5] = [
    (
        "AdmissionService/AdmitTask",
        r#"{"pool":"demo","device_id":"camera-1","task_id":"snapshot-1"}"#,
    ),
    ("RateService/CheckRate", r#"{"key":"user:7","rule":{"limits":[{"max":2,"window":"600s"}]}}"#),
    ("SequenceService/NextSequence", r#"{"name":"order"}"#),
    ("LockService/AcquireLock", r#"{"name":"nightly-report","owner":"host-1"}"#),
    ("StockService/SetStock", r#"{"sku":"tv-55","on_hand":50}"#),
];

/// A command that is a client of a server.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Check the rate of a key; exits 1 if the call is refused
    #[command(after_help = rate::HELP)]
    Rate(RateOptions),
    /// Take serial numbers from a sequence and print them, one per line
    #[command(after_help = next::HELP)]
    Next(NextOptions),
    /// Set, reserve, confirm, cancel, show or list stock; exits 1 if the call is refused
    #[command(after_help = stock::HELP)]
    Stock(StockOptions),
    /// Run a command while holding a lock, or list the held locks; exits with the status of the
    /// command, or with 1 if another owner holds the lock
    #[command(after_help = lock::HELP)]
    Lock(LockOptions),
    /// Execute a command that ends with its parent, for `tollgate lock`
    #[command(hide = true)]
    WithParent(WithParent),
    /// Print the events of a pool or of a policy's keys, one per line
    #[command(after_help = watch::HELP)]
    Watch(WatchOptions),
    /// Check whether a server is SERVING; exits 1 if it is NOT_SERVING
    #[command(after_help = health::HELP)]
    Health(HealthOptions),
    /// Show, configure, pause, resume or reset pools; list or evict their leases
    #[command(after_help = pool::HELP)]
    Pool(PoolOptions),
    /// List, queue, cancel or requeue tasks; exits 1 if the call is refused
    #[command(after_help = task::HELP)]
    Task(TaskOptions),
    /// Ban a key
    #[command(after_help = ban::HELP)]
    Ban(BanOptions),
    /// Lift the ban of a key
    #[command(after_help = ban::HELP)]
    Unban(KeyFlags),
    /// List the bans in force under a policy
    #[command(after_help = ban::HELP)]
    Bans(BansOptions),
    /// Show the usage, ban and strikes of a key
    #[command(after_help = key::HELP)]
    Key(KeyOptions),
    /// Show the last value of a sequence, list all sequences, or move one forward
    #[command(after_help = sequence::HELP)]
    Sequence(SequenceOptions),
    /// Reload the configuration of a server, or show what would change; exits 1 if a change needs a
    /// restart, 78 if a file is invalid
    #[command(after_help = reload::HELP)]
    Reload(ReloadOptions),
    /// Show the version, engine, uptime and configuration of a server
    #[command(after_help = status::HELP)]
    Status(StatusOptions),
    /// Show whether Redis has lost its data, or accept the loss; exits 1 if a loss has not been
    /// accepted
    #[command(after_help = store::HELP)]
    Store(StoreOptions),
    /// Show the pools of a server live in the terminal
    #[command(after_help = top::HELP)]
    Top(TopOptions),
}

impl ClientCommand {
    /// Checks options that depend on each other. The error consists of the command and the problem.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        match self {
            ClientCommand::Rate(options) => options.check().map_err(|error| ("rate", error)),
            _ => Ok(()),
        }
    }

    /// Runs the command, prints its error if it fails, and returns its exit code.
    pub async fn run(&self) -> ExitCode {
        let ended = match self {
            ClientCommand::Rate(options) => rate(options).await,
            ClientCommand::Next(options) => next(options).await,
            ClientCommand::Stock(options) => stock(options).await,
            ClientCommand::Lock(options) => lock(options).await,
            ClientCommand::WithParent(command) => return command.execute(),
            ClientCommand::Watch(options) => watch(options).await,
            ClientCommand::Health(options) => health(options).await,
            ClientCommand::Pool(options) => pool::run(options).await,
            ClientCommand::Task(options) => task::run(options).await,
            ClientCommand::Ban(options) => ban::ban(options).await,
            ClientCommand::Unban(options) => ban::unban(options).await,
            ClientCommand::Bans(options) => ban::bans(options).await,
            ClientCommand::Key(options) => key::run(options).await,
            ClientCommand::Sequence(options) => sequence::run(options).await,
            ClientCommand::Reload(options) => reload(options).await,
            ClientCommand::Status(options) => status(options).await,
            ClientCommand::Store(options) => store::run(options).await,
            ClientCommand::Top(options) => top(options).await,
        };
        ended.unwrap_or_else(|error| exit::unavailable(&error))
    }
}

async fn rate(options: &RateOptions) -> Result<ExitCode, ClientError> {
    let is_allowed = rate::run(options, print::line).await?;
    Ok(ExitCode::from(if is_allowed { 0 } else { exit::REFUSED }))
}

async fn next(options: &NextOptions) -> Result<ExitCode, ClientError> {
    let serials = next::run(options).await?;
    let printed = print::deliver(&print::shown(&serials));
    printed.map_err(|error| next::unprinted(options, &error))?;
    Ok(ExitCode::SUCCESS)
}

async fn stock(options: &StockOptions) -> Result<ExitCode, ClientError> {
    let answer = stock::run(options).await?;
    if !answer.text.is_empty() {
        print::line(&answer.text);
    }
    Ok(ExitCode::from(if answer.done { 0 } else { exit::REFUSED }))
}

async fn reload(options: &ReloadOptions) -> Result<ExitCode, ClientError> {
    Ok(match reload::run(options).await? {
        ReloadEnd::Done(text) => {
            print::line(&text);
            ExitCode::SUCCESS
        }
        ReloadEnd::NeedsRestart(text) => {
            print::warn(&text);
            ExitCode::from(exit::REFUSED)
        }
        ReloadEnd::Invalid(text) => exit::config(&text),
    })
}

async fn status(options: &StatusOptions) -> Result<ExitCode, ClientError> {
    print::line(&status::run(options).await?);
    Ok(ExitCode::SUCCESS)
}

async fn lock(options: &LockOptions) -> Result<ExitCode, ClientError> {
    if let Some(LockVerb::List(flags)) = &options.verb {
        return lock::list(options, flags).await.map(|()| ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(match lock::run(options, print::warn).await? {
        lock::LockEnd::Exited(code) => code,
        lock::LockEnd::Refused => options.conflict_exit_code,
        lock::LockEnd::Lost => exit::LOST,
    }))
}

async fn watch(options: &WatchOptions) -> Result<ExitCode, ClientError> {
    watch::run(options, print::warn).await.map(|()| ExitCode::SUCCESS)
}

async fn top(options: &TopOptions) -> Result<ExitCode, ClientError> {
    let table = top::run(options).await?.unwrap_or_default();
    print::deliver(&table).map_err(|error| ClientError(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

async fn health(options: &HealthOptions) -> Result<ExitCode, ClientError> {
    let (status, code) = match health::run(options).await? {
        Health::Serving => ("SERVING", 0),
        Health::NotServing => ("NOT_SERVING", exit::REFUSED),
    };
    if options.output.is_json() {
        print::line(&json::object(&serde_json::json!({ "status": status })));
    } else {
        print::line(status);
    }
    Ok(ExitCode::from(code))
}
