//! `tollgate rate`: checks the rate of a key.

mod line;
mod options;

pub use options::{HELP, RateOptions};

pub(super) use line::length;

use super::{CallerError, connect, failed};
use crate::grpc::client::Against;

/// Makes the calls one after the other and prints each answer. Returns whether the last call was
/// allowed.
pub async fn run(options: &RateOptions, mut tell: impl FnMut(&str)) -> Result<bool, CallerError> {
    let against = against(options).map_err(CallerError)?;
    let what = format!("check `{}`", options.key);
    let client = connect(&options.server, &what).await?;
    let mut allowed = false;
    for number in 1..=options.count {
        let answer = client.check_rate(&options.key, &against, options.cost).await;
        let answer =
            answer.map_err(|error| failed(&what, &options.server, &error, advice(error.code)))?;
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

/// Returns what to do about a failed check.
fn advice(code: &str) -> &'static str {
    match code {
        "DEADLINE_EXCEEDED" => "the call may have been counted; try again",
        "FAILED_PRECONDITION" => "ResetRate removes the usage of the key",
        "INTERNAL" => "ResetRate repairs a key's usage, Unban its ban",
        "NOT_FOUND" => "name a configured policy, or give a rule with --max and --window",
        "UNIMPLEMENTED" => "this server does not know rates: update it",
        _ => super::advice(code),
    }
}
