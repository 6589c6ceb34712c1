//! One caller, a few calls: `tollgate rate`, to try a limit from the shell.

mod flags;
mod line;
mod options;

use std::fmt;

pub use flags::{AlgorithmName, RuleFlags};
pub use options::{HELP, RateOptions};

pub(crate) use flags::{between, name, server};

use crate::grpc::client::{Against, CallError, Client};

/// Why there is no answer, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerError(String);

impl fmt::Display for CallerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CallerError {}

/// Makes the calls, one after the other, and tells of each as it is answered;
/// whether the last one was allowed.
pub async fn run(options: &RateOptions, mut tell: impl FnMut(&str)) -> Result<bool, CallerError> {
    let against = against(options).map_err(CallerError)?;
    let client = Client::connect(&options.server).await.map_err(|error| {
        let todo = "start a server with `tollgate serve`, or name another with --server";
        failed(options, &error, todo)
    })?;
    let mut allowed = false;
    for number in 1..=options.count {
        let answer = client.check_rate(&options.key, &against, options.cost).await;
        let answer = answer.map_err(|error| failed(options, &error, advice(error.code)))?;
        tell(&line::line(number, options.count, &answer));
        allowed = answer.allowed();
    }
    Ok(allowed)
}

fn against(options: &RateOptions) -> Result<Against, String> {
    Ok(match &options.policy {
        Some(policy) => Against::policy(policy),
        None => Against::rule(&options.rule.spec()?),
    })
}

fn failed(options: &RateOptions, error: &CallError, todo: &str) -> CallerError {
    let RateOptions { key, server, .. } = options;
    CallerError(format!("cannot check `{key}` at {server}: {error}; {todo}"))
}

/// What to do about a call that failed.
fn advice(code: &str) -> &'static str {
    match code {
        "DEADLINE_EXCEEDED" => "the call may have been counted; try again",
        "FAILED_PRECONDITION" => "ResetRate forgets what the key has used",
        "INTERNAL" => "ResetRate repairs a key's usage, Unban its ban",
        "INVALID_ARGUMENT" => "correct that and try again",
        "NOT_FOUND" => "or give a rule with --max and --window",
        "RESOURCE_EXHAUSTED" | "UNAVAILABLE" => "try again in a moment; if it stays, see its log",
        "UNIMPLEMENTED" => "this server does not know rates: update it",
        _ => "the server's log may say more",
    }
}
