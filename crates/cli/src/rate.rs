//! `tollgate rate`: checks the rate of a key.

mod line;
mod options;

pub use options::{HELP, RateOptions};

pub(crate) use line::{ban, length, usage};

use tollgate_client::Against;

use super::client::{self, ClientError, connect, failed};

/// Makes the calls one after another and passes each answer to `print`. Returns whether the last
/// call was allowed.
pub async fn run(options: &RateOptions, mut print: impl FnMut(&str)) -> Result<bool, ClientError> {
    let against = against(options).map_err(ClientError)?;
    let what = format!("check `{}`", options.key);
    let connection = connect(&options.server, &options.access, &what).await?;
    let mut allowed = false;
    for number in 1..=options.count {
        let answer = connection.check(&options.key, &against, options.cost).await;
        let answer =
            answer.map_err(|error| failed(&what, &options.server, &error, advice(error.code)))?;
        let text = || line::line(number, options.count, &answer);
        print(&options.output.json("CheckRateResponse", &answer).unwrap_or_else(text));
        allowed = answer.allowed;
    }
    Ok(allowed)
}

fn against(options: &RateOptions) -> Result<Against, String> {
    match &options.policy {
        Some(policy) => Ok(Against::Policy(policy.clone())),
        None => options.rule.against(),
    }
}

/// Returns what to do about a failed check.
fn advice(code: &str) -> &'static str {
    match code {
        "DEADLINE_EXCEEDED" => "the call may have been counted; try again",
        "FAILED_PRECONDITION" => "ResetRate removes the usage of the key",
        "INTERNAL" => "ResetRate repairs the usage of a key, and Unban its ban",
        "NOT_FOUND" => "use a configured policy, or define a rule with --max and --window",
        "UNIMPLEMENTED" => "this server does not support rates: upgrade it",
        _ => client::advice(code),
    }
}
