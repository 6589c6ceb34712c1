//! The commands of `tollgate` that are clients of a server, one module each.
//!
//! They call the server by [`tollgate_client`], so they work with every version of it that knows
//! their calls. A command returns its exit code ([`exit`]) or a [`ClientError`], which says what to
//! do next. The bounds of flags are those of the rules in `tollgate_core`.

pub mod ban;
pub mod client;
mod confirm;
pub mod exit;
pub mod flags;
pub mod health;
pub mod json;
pub mod key;
mod listing;
pub mod lock;
pub mod next;
pub mod output;
pub mod pool;
pub mod print;
pub mod progress;
pub mod rate;
pub mod reload;
pub mod sequence;
pub mod signals;
pub mod status;
pub mod stock;
pub mod store;
pub mod table;
pub mod task;
pub mod top;
pub mod watch;

use std::process::ExitCode;

use tollgate_client::Health;

pub use client::ClientError;
pub use flags::{AccessFlags, AlgorithmName, RuleFlags, ServerFlags};
pub use output::{OutputFlags, OutputFormat};

use health::HealthOptions;
use lock::{LockOptions, LockVerb};
use next::NextOptions;
use rate::RateOptions;
use reload::{ReloadEnd, ReloadOptions};
use status::StatusOptions;
use stock::StockOptions;
use top::TopOptions;
use watch::WatchOptions;

/// Runs `tollgate rate`.
pub async fn rate(options: &RateOptions) -> Result<ExitCode, ClientError> {
    let is_allowed = rate::run(options, print::say).await?;
    Ok(ExitCode::from(if is_allowed { 0 } else { exit::REFUSED }))
}

/// Runs `tollgate next`.
pub async fn next(options: &NextOptions) -> Result<ExitCode, ClientError> {
    let serials = next::run(options).await?;
    let printed = print::hand_over(&print::shown(&serials));
    printed.map_err(|error| next::unprinted(options, &error))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `tollgate stock`.
pub async fn stock(options: &StockOptions) -> Result<ExitCode, ClientError> {
    let answer = stock::run(options).await?;
    if !answer.text.is_empty() {
        print::say(&answer.text);
    }
    Ok(ExitCode::from(if answer.done { 0 } else { exit::REFUSED }))
}

/// Runs `tollgate reload`.
pub async fn reload(options: &ReloadOptions) -> Result<ExitCode, ClientError> {
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

/// Runs `tollgate status`.
pub async fn status(options: &StatusOptions) -> Result<ExitCode, ClientError> {
    print::say(&status::run(options).await?);
    Ok(ExitCode::SUCCESS)
}

/// Runs `tollgate lock`.
pub async fn lock(options: &LockOptions) -> Result<ExitCode, ClientError> {
    if let Some(LockVerb::List(flags)) = &options.verb {
        return lock::list(options, flags).await.map(|()| ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(match lock::run(options, print::warn).await? {
        lock::LockEnd::Exited(code) => code,
        lock::LockEnd::Refused => options.conflict_exit_code,
        lock::LockEnd::Lost => exit::LOST,
    }))
}

/// Runs `tollgate watch`.
pub async fn watch(options: &WatchOptions) -> Result<ExitCode, ClientError> {
    watch::run(options, print::warn).await.map(|()| ExitCode::SUCCESS)
}

/// Runs `tollgate top`.
pub async fn top(options: &TopOptions) -> Result<ExitCode, ClientError> {
    let table = top::run(options).await?.unwrap_or_default();
    print::hand_over(&table).map_err(|error| ClientError(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `tollgate health`.
pub async fn health(options: &HealthOptions) -> Result<ExitCode, ClientError> {
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
