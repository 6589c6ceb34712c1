//! `tollgate ban`, `tollgate unban` and `tollgate bans`: bans of keys, for operators.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use tollgate_client::{Error, pb::Ban, time};

use super::{
    client::{self, ClientError, connect, failed},
    flags::{self, ServerFlags},
    listing::PrintedList,
    output::OutputFlags,
    pool::until,
    table::Column,
};
use tollgate_core::rate::{LENGTH_MAX, LENGTH_MIN};

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  Ban an address of the policy `login` for an hour, and lift the ban:
    tollgate ban ip:192.0.2.7 --policy login --for 1h --reason abuse --actor ann
    tollgate unban ip:192.0.2.7 --policy login --actor ann

  The bans in force under the policy, the earliest end first:
    tollgate bans --policy login

Without --policy the key belongs to rules that come with calls, such as those of `tollgate
rate`. A ban replaces a running one. unban also clears strikes and usage, so the next call
of the key is allowed. The server records the actor but does not check it.

With --output json, ban prints a BanResponse, unban an UnbanResponse, bans a Ban on each
line.

Exit status: 0 if the requested state is reached, by this call or an earlier one; 64 if the
command line is invalid; 69 if the server does not answer or does not know the policy.";

/// A key, and the policy that it is counted under.
#[derive(Debug, Clone, Args)]
pub struct KeyFlags {
    /// The key, such as `user:17` or `ip:192.0.2.7`
    #[arg(value_name = "KEY", value_parser = flags::name)]
    pub key: String,

    /// The policy [default: rules that come with the calls]
    #[arg(long, value_name = "NAME", value_parser = flags::name)]
    pub policy: Option<String>,

    /// Person or program to record as the actor, at most 256 bytes
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    #[arg(env = "TOLLGATE_ACTOR", value_parser = actor)]
    pub actor: String,

    /// The form of the result.
    #[command(flatten)]
    pub output: OutputFlags,

    /// The server.
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Options of `tollgate ban`.
#[derive(Debug, Clone, Args)]
pub struct BanOptions {
    /// The key.
    #[command(flatten)]
    pub key: KeyFlags,

    /// Duration of the ban, starting now, 1ms to 30days
    #[arg(long = "for", value_name = "DURATION")]
    #[arg(value_parser = flags::duration(LENGTH_MIN.duration(), LENGTH_MAX.duration()))]
    pub length: Duration,

    /// Reason for the ban, at most 256 bytes
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
}

/// Options of `tollgate bans`.
#[derive(Debug, Clone, Args)]
pub struct BansOptions {
    /// The policy [default: rules that come with the calls]
    #[arg(long, value_name = "NAME", value_parser = flags::name)]
    pub policy: Option<String>,

    /// The form of the result.
    #[command(flatten)]
    pub output: OutputFlags,

    /// The server.
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Bans a key and prints the ban.
pub async fn ban(options: &BanOptions) -> Result<ExitCode, ClientError> {
    let BanOptions { key: KeyFlags { key, policy, actor, output, server }, length, reason } =
        options;
    let what = format!("ban `{key}`");
    let connection = connect(&server.url, &server.access, &what).await?;
    let policy = policy.as_deref().unwrap_or_default();
    let answer = connection.ban(key, policy, *length, reason, actor).await;
    let answer =
        answer.map_err(|error| failed(&what, &server.url, &error, advice(client::fate(&error))))?;
    output.print("BanResponse", &answer, || {
        let Ban { until, strikes, .. } = answer.ban.clone().unwrap_or_default();
        format!("{key}: banned until {}, strike {strikes}", end(until))
    });
    Ok(ExitCode::SUCCESS)
}

/// Lifts the ban of a key.
pub async fn unban(options: &KeyFlags) -> Result<ExitCode, ClientError> {
    let KeyFlags { key, policy, actor, output, server } = options;
    let what = format!("unban `{key}`");
    let connection = connect(&server.url, &server.access, &what).await?;
    let answer = connection.unban(key, policy.as_deref().unwrap_or_default(), actor).await;
    let answer =
        answer.map_err(|error| failed(&what, &server.url, &error, advice(client::fate(&error))))?;
    output.print("UnbanResponse", &answer, || {
        if answer.existed {
            format!("{key}: the ban is lifted; strikes and usage are cleared")
        } else {
            format!("{key}: was not banned; strikes and usage are cleared")
        }
    });
    Ok(ExitCode::SUCCESS)
}

/// Lists the bans in force under a policy.
pub async fn bans(options: &BansOptions) -> Result<ExitCode, ClientError> {
    let BansOptions { policy, output, server } = options;
    let what = match policy {
        Some(policy) => format!("list the bans of `{policy}`"),
        None => "list the bans".to_owned(),
    };
    let connection = connect(&server.url, &server.access, &what).await?;
    let policy = policy.as_deref().unwrap_or_default();
    let read = async |token: &str| connection.bans(policy, token).await;
    let fail = |error: &Error| failed(&what, &server.url, error, advice(client::fate(error)));
    PrintedList { message: "Ban", columns: COLUMNS, row }.print(*output, read, fail).await?;
    Ok(ExitCode::SUCCESS)
}

const COLUMNS: [Column; 6] = [
    Column::Text("KEY"),
    Column::Text("UNTIL"),
    Column::Number("ENDS IN"),
    Column::Number("STRIKES"),
    Column::Text("REASON"),
    Column::Text("ACTOR"),
];

fn row(ban: &Ban) -> [String; 6] {
    [
        ban.key.clone(),
        end(ban.until),
        until(ban.until),
        ban.strikes.to_string(),
        ban.reason.clone(),
        ban.actor.clone(),
    ]
}

/// Returns the end of a ban in UTC.
fn end(until: Option<prost_types::Timestamp>) -> String {
    let until = time::time(until).map(humantime::format_rfc3339_seconds);
    // An unreadable ban has only a key.
    until.map_or_else(|_| "unreadable".to_owned(), |until| until.to_string())
}

/// Parses an actor, which cannot contain control characters.
fn actor(text: &str) -> Result<String, String> {
    if text.len() <= 256 && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("expected at most 256 bytes without control characters".to_owned())
    }
}

/// Returns what to do about a failed call.
fn advice(code: &str) -> &'static str {
    match code {
        "CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN" => {
            "the change may have been made: check with `tollgate bans`, or repeat the command"
        }
        "INTERNAL" => "`tollgate unban` repairs the ban of a key",
        "NOT_FOUND" => "policies are defined in the configuration of the server",
        "PERMISSION_DENIED" => "use the token of a caller with the permission `manage`",
        "UNIMPLEMENTED" => "this server does not support rates: upgrade it",
        _ => client::advice(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::tests::parse;

    #[test]
    fn errors_name_what_is_wrong() {
        for (flags, part) in [
            ("", "<KEY>"),
            ("k", "--for"),
            ("k --for 0s", "--for"),
            ("k --for 31days", "--for"),
            ("k --for 1h --policy=", "--policy"),
            ("k --for 1h --actor a\u{7}b", "--actor"),
        ] {
            let error = parse::<BanOptions>(flags).expect_err(flags);
            assert!(error.contains(part), "{flags}: {error}");
        }
        assert!(parse::<BansOptions>("--policy login --output json").is_ok());
    }
}
