//! The `tollgate` command: reads arguments and configuration, opens the engine, serves, drains.
//!
//! The command is in the library, because a binary crate would compile the types of its futures a
//! second time.

mod arguments;
pub mod ban;
mod client;
mod command;
mod confirm;
mod exit;
mod flags;
pub mod fleet;
pub mod health;
mod json;
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
mod signals;
pub mod status;
pub mod stock;
mod table;
pub mod task;
pub mod top;
pub mod transfer;
mod version;
pub mod watch;

use std::{error::Error, net::SocketAddr, path::Path, process::ExitCode, sync::Arc};

use clap_complete::Shell;
use tokio::{
    net::{TcpListener, TcpSocket},
    runtime::Builder,
    spawn,
    task::spawn_blocking,
};
use tollgate_client::Health;

use crate::{
    cli::{
        fleet::FleetOptions,
        health::HealthOptions,
        lock::LockOptions,
        next::NextOptions,
        rate::RateOptions,
        reload::{ReloadEnd, ReloadOptions},
        signals::Signals,
        status::StatusOptions,
        stock::StockOptions,
        top::TopOptions,
        watch::WatchOptions,
    },
    config::{
        Config, DataDir, EmbeddedOptions, EngineChoice, FirstConfig, LiveParts, Reloader,
        ServeFlags, secret,
        store::{ExportFlags, ImportFlags, StoreFlags},
    },
    decision::{budget::CallerLimits, time::Clock},
    engine::{
        Engine,
        embedded::{Ceiling, Disk, Embedded, OpenError},
        export::{Failure, Store},
        redis::{Redis, unfinished_import},
    },
    grpc::access,
    server::{self, Limits, Rules, allocator, telemetry, tls::Tls},
};

pub use client::ClientError;
pub use flags::{AccessFlags, AlgorithmName, RuleFlags, ServerFlags};
pub use output::{OutputFlags, OutputFormat};

use command::Command;

/// Length of the accept queue: a whole fleet may reconnect at once.
const BACKLOG: u32 = 4096;

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
        Command::Serve(flags) => return done(serve(&flags).await),
        Command::Token(output) => return done(new_token(output)),
        Command::CheckConfig { file, output } => return done(check_config(&file, output)),
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
        Command::Ban(options) => ban::ban(&options).await,
        Command::Unban(options) => ban::unban(&options).await,
        Command::Bans(options) => ban::bans(&options).await,
        Command::Sequence(options) => sequence::run(&options).await,
    };
    ended.unwrap_or_else(|error| exit::unavailable(&error))
}

/// The exit code of a command that succeeds or has reported its error.
fn done(ended: Result<(), ExitCode>) -> ExitCode {
    ended.err().unwrap_or(ExitCode::SUCCESS)
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
    print::say(&answer.text);
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

/// Runs `tollgate serve`: configuration, logs, engine, listener, then the server until a signal.
async fn serve(flags: &ServeFlags) -> Result<(), ExitCode> {
    let mut start = FirstConfig::read(flags).map_err(|error| exit::config(&error))?;
    let config = &mut start.loaded.config;
    let log = telemetry::init(config.log.json, &config.log.level);
    if flags.shows_password {
        tracing::warn!("{}", secret::IN_ARGUMENTS);
    }
    warn_of_access(config);
    let tls = start.loaded.tls.take().map(Tls::new);
    // Each connection is a file descriptor. The default soft limit is often 1024.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let engine = Arc::new(engine(&config.engine, &config.limits).await?);
    let listener = bind(config.listen)?;
    let limits = Limits {
        connections_max: config.connections_max,
        callers: config.limits,
        drain_timeout: config.drain_timeout,
        workers: config.workers,
    };
    let served = Listening { choice: config.engine.clone(), listener, tls, limits };
    let mut rules = config.take_rules();
    let parts = LiveParts {
        engine: engine.clone(),
        rules: rules.decisions.clone(),
        access: rules.access.clone(),
        tls: served.tls.clone(),
        log,
    };
    let reloader = Reloader::new(flags, start, parts);
    rules.reload = Some(reloader.clone());
    if reloader.has_files() {
        // Ends with the process.
        let following = reloader.follow();
        spawn(following.map_err(|error| exit::unavailable(&format!("no SIGHUP: {error}")))?);
    }
    serve_on(served, rules, engine).await.map_err(|error| exit::unavailable(&error))
}

/// Warns about access that is wider than it may look.
fn warn_of_access(config: &Config) {
    if config.listen.ip().is_loopback() {
        return;
    }
    if config.callers.is_none() {
        tracing::warn!(
            listen = %config.listen,
            "no [[caller]] is configured: everybody who reaches the address may do everything"
        );
    } else if config.tls.is_none() {
        tracing::warn!(
            listen = %config.listen,
            "callers send their tokens as plain text, because the server has no [tls]"
        );
    }
}

/// Opens the engine. The error is the exit code, for instance if Redis fails the preflight or has
/// an unfinished import.
async fn engine(choice: &EngineChoice, limits: &CallerLimits) -> Result<Engine, ExitCode> {
    match choice {
        EngineChoice::Embedded(EmbeddedOptions { data_dir, memory_max }) => {
            let engine = match data_dir {
                None => Embedded::new(Clock::system()),
                Some(data_dir) => open(data_dir.clone()).await?,
            };
            Ok(Engine::Embedded(engine.below(memory_max.map(Ceiling::new)).with_limits(limits)))
        }
        EngineChoice::Redis(options) => {
            let redis =
                Redis::new(options).map_err(|why| exit::config(&format!("engine: {why}")))?;
            let (unfit, unfinished) = tokio::join!(redis.unfit(), unfinished_import(options));
            match unfit.or(unfinished) {
                Some(why) => Err(exit::config(&format!("engine: cannot use this Redis: {why}"))),
                None => Ok(Engine::Redis(redis.with_limits(limits))),
            }
        }
    }
}

/// Opens a data directory on a blocking thread, because reading it may take long.
async fn open(DataDir { path, durability }: DataDir) -> Result<Embedded, ExitCode> {
    let file = path.display().to_string();
    let opened = spawn_blocking(move || {
        let disk = Disk::directory(&path)?;
        Embedded::open(Clock::system(), disk, durability)
    });
    match opened.await {
        Ok(opened) => opened.map_err(|error| exit::data_dir(&error)),
        // A panic: damage that the checks of the store did not find.
        Err(error) => Err(exit::data_dir(&OpenError::Damaged(format!("{file}: {error}")))),
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener, ExitCode> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let listening = socket.and_then(|socket| {
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    });
    listening.map_err(|error| exit::unavailable(&format!("cannot listen on {address}: {error}")))
}

/// What a server needs beside its rules and its engine.
struct Listening {
    choice: EngineChoice,
    listener: TcpListener,
    tls: Option<Tls>,
    limits: Limits,
}

/// Serves until SIGTERM or SIGINT, then drains and closes the engine.
async fn serve_on(
    served: Listening,
    rules: Rules,
    engine: Arc<Engine>,
) -> Result<(), Box<dyn Error>> {
    let mut signals = Signals::new()?;
    let Listening { choice, listener, tls, limits } = served;
    command::greet(&choice, listener.local_addr()?, tls.is_some());
    let ended = server::run(listener, tls, engine.clone(), rules, limits, signals.next()).await;
    // Waits for the disk. It may block, because no other task needs this thread now.
    engine.close();
    Ok(ended?)
}
