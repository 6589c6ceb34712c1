//! `tollgate key`: shows the usage, the ban and the strikes of a key, for operators.

use std::process::ExitCode;

use clap::Args;
use tollgate_client::pb::GetKeyResponse;

use super::{
    client::{self, ClientError, connect, failed},
    flags::{self, ServerFlags},
    output::OutputFlags,
    rate::{ban, usage},
};
use tollgate_telemetry::text::escaped;

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  The usage of an address under each limit of the policy `login`, and its ban:
    tollgate key ip:192.0.2.7 --policy login

This does not count as a call; `tollgate rate` does. With --output json it prints a
GetKeyResponse.

Exit status: 0 if the key is printed; 64 if the command line is invalid; 69 if the server does
not answer or does not know the policy.";

/// Options of `tollgate key`.
#[derive(Debug, Clone, Args)]
pub struct KeyOptions {
    /// The key, such as `user:17` or `ip:192.0.2.7`
    #[arg(value_name = "KEY", value_parser = flags::name)]
    pub key: String,

    /// The policy
    #[arg(long, value_name = "NAME", value_parser = flags::name)]
    pub policy: String,

    /// The form of the result.
    #[command(flatten)]
    pub output: OutputFlags,

    /// The server.
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Reads and prints a key.
pub async fn run(options: &KeyOptions) -> Result<ExitCode, ClientError> {
    let KeyOptions { key, policy, output, server } = options;
    let what = format!("get the key `{key}`");
    let connection = connect(&server.url, &server.access, &what).await?;
    let answer = connection.key(key, policy).await;
    let answer = answer.map_err(|error| failed(&what, &server.url, &error, advice(error.code)))?;
    output.print("GetKeyResponse", &answer, || text(key, &answer));
    Ok(ExitCode::SUCCESS)
}

/// Formats the key and its ban on one line, and each limit on another.
fn text(key: &str, answer: &GetKeyResponse) -> String {
    let state = match &answer.ban {
        Some(of) => ban(of),
        None => format!("not banned, strikes {}", answer.strikes),
    };
    let limits = answer.limits.iter().map(|limit| format!("  {}", usage(limit)));
    let lines = [format!("{key}: {state}")].into_iter().chain(limits);
    lines.map(|line| escaped(&line).into_owned()).collect::<Vec<_>>().join("\n")
}

/// Returns what to do about a failed call.
fn advice(code: &str) -> &'static str {
    match code {
        "INTERNAL" => "ResetRate repairs the usage of a key, and `tollgate unban` its ban",
        "NOT_FOUND" => "policies are defined in the configuration of the server",
        "PERMISSION_DENIED" => "use the token of a caller that may read this policy",
        "UNIMPLEMENTED" => "this server does not support GetKey: upgrade it",
        _ => client::advice(code),
    }
}

#[cfg(test)]
mod tests {
    use tollgate_client::pb::LimitUsage;

    use super::*;
    use crate::flags::tests::parse;

    #[test]
    fn each_limit_has_a_line() {
        let limit = |name: &str, count| LimitUsage {
            name: name.to_owned(),
            max: 10,
            count,
            remaining: 10 - count,
            ..LimitUsage::default()
        };
        let limits = vec![limit("minute", 3), limit("day", 0)];
        let answer = GetKeyResponse { limits, strikes: 2, ..GetKeyResponse::default() };
        assert_eq!(
            text("user:7", &answer),
            "user:7: not banned, strikes 2\n  minute 3/10 used, 7 left\n  day 0/10 used, 10 left"
        );
    }

    #[test]
    fn errors_name_what_is_wrong() {
        for (flags, part) in [("", "<KEY>"), ("k", "--policy"), ("k --policy=", "--policy")] {
            let error = parse::<KeyOptions>(flags).expect_err(flags);
            assert!(error.contains(part), "{flags}: {error}");
        }
    }
}
