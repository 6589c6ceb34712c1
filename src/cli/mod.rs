//! The `tollgate` command: reads arguments and configuration, opens the engine, serves, drains.
//!
//! The command is in the library, because a binary crate would compile the types of its futures a
//! second time.

mod arguments;
pub mod ban;
mod client;
mod command;
mod confirm;
mod envoy;
mod exit;
mod flags;
pub mod fleet;
pub mod health;
mod json;
pub mod key;
mod listing;
pub mod lock;
mod manual;
pub mod next;
mod output;
pub mod pool;
mod print;
mod progress;
pub mod rate;
pub mod reload;
pub mod sequence;
mod serve;
mod signals;
pub mod status;
pub mod stock;
pub mod store;
mod table;
pub mod task;
pub mod top;
pub mod transfer;
mod version;
pub mod watch;

use std::{path::Path, process::ExitCode};

use clap_complete::Shell;
use tokio::runtime::Builder;
use tollgate_client::Health;

use crate::{
    cli::{
        fleet::FleetOptions,
        health::HealthOptions,
        lock::{LockOptions, LockVerb},
        next::NextOptions,
        rate::RateOptions,
        reload::{ReloadEnd, ReloadOptions},
        status::StatusOptions,
        stock::StockOptions,
        top::TopOptions,
        watch::WatchOptions,
    },
    config::{
        Config, EngineChoice, secret,
        store::{ExportFlags, ImportFlags, StoreFlags},
    },
    grpc::access,
    server::allocator,
};
use tollgate_engine::export::{Failure, Store};

pub use client::ClientError;
pub use flags::{AccessFlags, AlgorithmName, RuleFlags, ServerFlags};
pub use output::{OutputFlags, OutputFormat};

use command::Command;

/// Runs the command line of this process and returns its exit code.
pub fn main() -> ExitCode {
    let command = match arguments::parse() {
        Ok(command) => command,
        Err(code) => return code,
    };
    allocator::purge_apart();
    // The server has its own worker threads; this thread accepts connections and runs maintenance.
    let runtime = match command {
        Command::Serve(_) => Builder::new_current_thread().enable_all().build(),
        _ => Builder::new_multi_thread().enable_all().build(),
    };
    match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(run(command));
            // Nobody needs the key set that may still be fetched.
            runtime.shutdown_background();
            code
        }
        Err(error) => exit::unavailable(&error),
    }
}

async fn run(command: Command) -> ExitCode {
    let ended = match command {
        Command::Serve(flags) => return done(serve::serve(&flags).await),
        Command::Token(output) => return done(new_token(output)),
        Command::CheckConfig { file, envoy, merge_domains, output } => {
            let file = file.map_or(Ok(()), |file| check_config(&file, output));
            let folder = envoy.map(|folder| envoy::check(&folder, merge_domains, output));
            return done(file.and(folder.unwrap_or(Ok(()))));
        }
        Command::Envoy(command) => return done_with(envoy::run(&command)),
        Command::Completions { shell } => return done(completions(shell)),
        Command::Man { folder } => return done(manual_pages(&folder)),
        Command::Export { flags, summary } => return done(export(&flags, summary).await),
        Command::Import { flags, output } => return done(import(&flags, output).await),
        Command::Fleet(options) => play(&options).await,
        Command::Rate(options) => check_rate(&options).await,
        Command::Next(options) => take_serials(&options).await,
        Command::Reload(options) => reload_config(&options).await,
        Command::Status(options) => show_status(&options).await,
        Command::Stock(options) => sell(&options).await,
        Command::Lock(options) => run_locked(&options).await,
        Command::Watch(options) => watch_events(&options).await,
        Command::Top(options) => show_pools(&options).await,
        Command::Health(options) => check_health(&options).await,
        Command::Pool(options) => pool::run(&options).await,
        Command::Task(options) => task::run(&options).await,
        Command::WithParent(command) => return command.execute(),
        Command::Ban(options) => ban::ban(&options).await,
        Command::Unban(options) => ban::unban(&options).await,
        Command::Bans(options) => ban::bans(&options).await,
        Command::Key(options) => key::run(&options).await,
        Command::Sequence(options) => sequence::run(&options).await,
        Command::Store(options) => store::run(&options).await,
    };
    ended.unwrap_or_else(|error| exit::unavailable(&error))
}

/// The exit code of a command that succeeds or has reported its error.
fn done(ended: Result<(), ExitCode>) -> ExitCode {
    ended.err().unwrap_or(ExitCode::SUCCESS)
}

/// The exit code of a command that succeeds with a code, or has reported its error.
fn done_with(ended: Result<ExitCode, ExitCode>) -> ExitCode {
    ended.unwrap_or_else(|code| code)
}

fn check_config(file: &Path, output: OutputFlags) -> Result<(), ExitCode> {
    let (checked, name) = (Config::check(file), file.display().to_string());
    if output.is_json() {
        let error = checked.as_ref().err().map(ToString::to_string);
        let result = serde_json::json!({ "file": name, "valid": error.is_none(), "error": error });
        print::say(&json::object(&result));
    }
    checked.map_err(|error| exit::config(&error))?;
    if !output.is_json() {
        print::say(&format!("{name}: valid"));
    }
    Ok(())
}

/// Prints a new token and its digest.
fn new_token(output: OutputFlags) -> Result<(), ExitCode> {
    let token = access::generate().map_err(|error| exit::unavailable(&error))?;
    let digest = access::Digest::of(token.as_bytes()).hex();
    let text = match output.is_json() {
        true => json::object(&serde_json::json!({ "token": token, "tokenSha256": digest })) + "\n",
        false => format!("token:        {token}\ntoken_sha256: {digest}\n"),
    };
    let printed = print::hand_over(&text);
    printed.map_err(|error| exit::unavailable(&format!("cannot print the token: {error}")))
}

fn completions(shell: Shell) -> Result<(), ExitCode> {
    let script = manual::completions(arguments::definition(), shell);
    let printed = print::hand_over(&script);
    printed.map_err(|error| exit::unwritten(&format!("cannot print the script: {error}")))
}

fn manual_pages(folder: &Path) -> Result<(), ExitCode> {
    let count = manual::pages(&arguments::definition(), folder);
    let count = count.map_err(|error| exit::unwritten(&error))?;
    print::say(&format!("wrote {count} pages to {}", folder.display()));
    Ok(())
}

async fn export(flags: &ExportFlags, summary: OutputFormat) -> Result<(), ExitCode> {
    let mut store = store(&flags.store, Store::existing).await?;
    let exported = transfer::export(&mut store, flags.output.as_deref()).await;
    let counts = exported.map_err(|failure| exit::transfer(&failure))?;
    match (summary, &flags.output) {
        // The export itself is written to standard output.
        (OutputFormat::Json, None) => {
            print::warn(&format!("exported: {}", serde_json::json!(counts)))
        }
        (OutputFormat::Json, Some(_)) => print::say(&json::object(&serde_json::json!(counts))),
        (OutputFormat::Text, _) => print::warn(&format!("exported: {counts}")),
    }
    Ok(())
}

async fn import(flags: &ImportFlags, output: OutputFlags) -> Result<(), ExitCode> {
    let mut store = store(&flags.store, Store::directory).await?;
    let imported = transfer::import(&mut store, &flags.file, flags.replace).await;
    let imported = imported.map_err(|failure| exit::transfer(&failure))?;
    match output.is_json() {
        true => print::say(&json::object(&imported.json())),
        false => print::say(&imported.to_string()),
    }
    Ok(())
}

/// Opens the engine that the flags name, for an export or import; warns about a password in the
/// arguments. The error is the exit code.
async fn store(
    flags: &StoreFlags,
    directory: fn(&Path) -> Result<Store, Failure>,
) -> Result<Store, ExitCode> {
    if flags.shows_password {
        print::warn(secret::IN_ARGUMENTS);
    }
    let opened = match flags.choice().map_err(|error| exit::config(&error))? {
        EngineChoice::Redis(options) => Store::redis(&options).await,
        EngineChoice::Embedded(options) => {
            directory(&options.data_dir.map(|data_dir| data_dir.path).unwrap_or_default())
        }
    };
    opened.map_err(|failure| exit::transfer(&failure))
}

async fn play(options: &FleetOptions) -> Result<ExitCode, ClientError> {
    if options.device.sweep.is_some() {
        return fleet::sweep(options).await;
    }
    let report = fleet::run(options).await?;
    match options.output.is_json() {
        true => print::say(&json::object(&report.json())),
        false => print::say(&report.to_string()),
    }
    Ok(ExitCode::from(report.exit_status()))
}

async fn check_rate(options: &RateOptions) -> Result<ExitCode, ClientError> {
    let is_allowed = rate::run(options, print::say).await?;
    Ok(ExitCode::from(if is_allowed { 0 } else { exit::REFUSED }))
}

async fn take_serials(options: &NextOptions) -> Result<ExitCode, ClientError> {
    let serials = next::run(options).await?;
    let printed = print::hand_over(&print::shown(&serials));
    printed.map_err(|error| next::unprinted(options, &error))?;
    Ok(ExitCode::SUCCESS)
}

async fn sell(options: &StockOptions) -> Result<ExitCode, ClientError> {
    let answer = stock::run(options).await?;
    if !answer.text.is_empty() {
        print::say(&answer.text);
    }
    Ok(ExitCode::from(if answer.done { 0 } else { exit::REFUSED }))
}

async fn reload_config(options: &ReloadOptions) -> Result<ExitCode, ClientError> {
    Ok(match reload::run(options).await? {
        ReloadEnd::Done(text) => {
            print::say(&text);
            ExitCode::SUCCESS
        }
        ReloadEnd::NeedsRestart(text) => {
            print::warn(&text);
            ExitCode::from(exit::REFUSED)
        }
        ReloadEnd::Invalid(text) => exit::config(&text),
    })
}

async fn show_status(options: &StatusOptions) -> Result<ExitCode, ClientError> {
    print::say(&status::run(options).await?);
    Ok(ExitCode::SUCCESS)
}

async fn run_locked(options: &LockOptions) -> Result<ExitCode, ClientError> {
    if let Some(LockVerb::List(flags)) = &options.verb {
        return lock::list(options, flags).await.map(|()| ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(match lock::run(options, print::warn).await? {
        lock::LockEnd::Exited(code) => code,
        lock::LockEnd::Refused => options.conflict_exit_code,
        lock::LockEnd::Lost => exit::LOST,
    }))
}

async fn watch_events(options: &WatchOptions) -> Result<ExitCode, ClientError> {
    watch::run(options, print::warn).await.map(|()| ExitCode::SUCCESS)
}

async fn show_pools(options: &TopOptions) -> Result<ExitCode, ClientError> {
    let table = top::run(options).await?.unwrap_or_default();
    print::hand_over(&table).map_err(|error| ClientError(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

async fn check_health(options: &HealthOptions) -> Result<ExitCode, ClientError> {
    let (status, code) = match health::run(options).await? {
        Health::Serving => ("SERVING", 0),
        Health::NotServing => ("NOT_SERVING", exit::REFUSED),
    };
    match options.output.is_json() {
        true => print::say(&json::object(&serde_json::json!({ "status": status }))),
        false => print::say(status),
    }
    Ok(ExitCode::from(code))
}
