//! The `tollgate` command: parses arguments, loads the configuration, opens the engine, serves and
//! drains.
//!
//! It is part of the library because a binary crate would compile the types of its futures a second
//! time.

mod arguments;
mod command;
mod envoy;
mod exit;
mod manual;
mod serve;
pub mod transfer;
mod version;

use std::{path::Path, process::ExitCode};

use clap_complete::Shell;
use tokio::runtime::Builder;

use crate::{
    config::{
        Config, EngineChoice, secret,
        store::{ExportFlags, ImportFlags, StoreFlags},
    },
    grpc::access,
    server::allocator,
};
use tollgate_cli::{ClientError, OutputFlags, OutputFormat, json, print};
use tollgate_engine::export::{Failure, Store};
use tollgate_fleet::FleetOptions;

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
            // A key set may still be being fetched, but nobody needs it any more.
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
        Command::Client(command) => return command.run().await,
        Command::Fleet(options) => fleet(&options).await,
    };
    ended.unwrap_or_else(|error| exit::unavailable(&error))
}

/// Returns the exit code of a command that has succeeded, or has already reported its error.
fn done(ended: Result<(), ExitCode>) -> ExitCode {
    ended.err().unwrap_or(ExitCode::SUCCESS)
}

/// Returns the exit code of a command that has chosen one, or has already reported its error.
fn done_with(ended: Result<ExitCode, ExitCode>) -> ExitCode {
    ended.unwrap_or_else(|code| code)
}

fn check_config(file: &Path, output: OutputFlags) -> Result<(), ExitCode> {
    let (checked, name) = (Config::check(file), file.display().to_string());
    if output.is_json() {
        let error = checked.as_ref().err().map(ToString::to_string);
        let result = serde_json::json!({ "file": name, "valid": error.is_none(), "error": error });
        print::line(&json::object(&result));
    }
    checked.map_err(|error| exit::config(&error))?;
    if !output.is_json() {
        print::line(&format!("{name}: valid"));
    }
    Ok(())
}

/// Prints a new token and its digest.
fn new_token(output: OutputFlags) -> Result<(), ExitCode> {
    let token = access::generate().map_err(|error| exit::unavailable(&error))?;
    let digest = access::Digest::compute(token.as_bytes()).hex();
    let text = if output.is_json() {
        json::object(&serde_json::json!({ "token": token, "tokenSha256": digest })) + "\n"
    } else {
        format!("token:        {token}\ntoken_sha256: {digest}\n")
    };
    let printed = print::deliver(&text);
    printed.map_err(|error| exit::unavailable(&format!("cannot print the token: {error}")))
}

fn completions(shell: Shell) -> Result<(), ExitCode> {
    let script = manual::completions(arguments::definition(), shell);
    let printed = print::deliver(&script);
    printed.map_err(|error| exit::unwritten(&format!("cannot print the script: {error}")))
}

fn manual_pages(folder: &Path) -> Result<(), ExitCode> {
    let count = manual::pages(&arguments::definition(), folder);
    let count = count.map_err(|error| exit::unwritten(&error))?;
    print::line(&format!("wrote {count} pages to {}", folder.display()));
    Ok(())
}

async fn export(flags: &ExportFlags, summary: OutputFormat) -> Result<(), ExitCode> {
    let mut store = open(&flags.store, Store::existing).await?;
    let exported = transfer::export(&mut store, flags.output.as_deref()).await;
    let counts = exported.map_err(|failure| exit::transfer(&failure))?;
    match (summary, &flags.output) {
        // The export itself is written to standard output.
        (OutputFormat::Json, None) => {
            print::warn(&format!("exported: {}", serde_json::json!(counts)))
        }
        (OutputFormat::Json, Some(_)) => print::line(&json::object(&serde_json::json!(counts))),
        (OutputFormat::Text, _) => print::warn(&format!("exported: {counts}")),
    }
    Ok(())
}

async fn import(flags: &ImportFlags, output: OutputFlags) -> Result<(), ExitCode> {
    let mut store = open(&flags.store, Store::directory).await?;
    let imported = transfer::import(&mut store, &flags.file, flags.replace).await;
    let imported = imported.map_err(|failure| exit::transfer(&failure))?;
    if output.is_json() {
        print::line(&json::object(&imported.json()))
    } else {
        print::line(&imported.to_string())
    }
    Ok(())
}

/// Opens the engine that the flags select, for an export or import. Warns if the arguments contain
/// a password. The error is the exit code.
async fn open(
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

async fn fleet(options: &FleetOptions) -> Result<ExitCode, ClientError> {
    if options.device.sweep.is_some() {
        return tollgate_fleet::sweep(options).await;
    }
    let report = tollgate_fleet::run(options).await?;
    if options.output.is_json() {
        print::line(&json::object(&report.json()));
    } else {
        print::line(&report.to_string());
    }
    Ok(ExitCode::from(report.exit_status()))
}
