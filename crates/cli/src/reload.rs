//! `tollgate reload`: reloads the configuration of a server.

use clap::Args;

use tollgate_client::pb::{ConfigDifference, ReloadConfigResponse};

use super::{
    client::{self, ClientError, connect, failed},
    flags::ServerFlags,
    output::OutputFlags,
};

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  Show what would change, and then apply it:
    tollgate reload --dry-run
    tollgate reload

Prints a line for each key whose value differs, with the value in use and the value in the
file. Secrets are not shown. The configuration is replaced as a whole or not at all. A
server also reloads on its own within 5 s of a change, and immediately on SIGHUP.
docs/operations.md lists the keys that need a restart. Behind a load balancer, address each
server with --server.

Exit status: 0 if the configuration is in use, or could be; 1 if a change needs a restart, or
the server has no configuration file; 64 if the command line is invalid; 69 if the server
does not answer or fails, for example with PERMISSION_DENIED; 78 if a file is invalid. After
1 and 78 nothing has changed.";

/// Options of `tollgate reload`.
#[derive(Debug, Clone, Args)]
pub struct ReloadOptions {
    /// Only check the files and show the differences
    #[arg(long)]
    pub dry_run: bool,

    /// The form of the result.
    #[command(flatten)]
    pub output: OutputFlags,

    /// The server.
    #[command(flatten)]
    pub server: ServerFlags,
}

/// The result of a reload, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadEnd {
    /// The configuration is in use, or could be, in a dry run.
    Done(String),
    /// A change needs a restart, or the server has no configuration file.
    NeedsRestart(String),
    /// A file is invalid.
    Invalid(String),
}

/// Reloads the configuration.
pub async fn run(options: &ReloadOptions) -> Result<ReloadEnd, ClientError> {
    let ReloadOptions { dry_run, output, server } = options;
    let ServerFlags { url: server, access } = server;
    let what = "reload the configuration";
    let connection = connect(server, access, what).await?;
    match connection.reload_config(*dry_run).await {
        Ok(reloaded) => {
            let json = output.json("ReloadConfigResponse", &reloaded);
            Ok(ReloadEnd::Done(json.unwrap_or_else(|| text(&reloaded, *dry_run))))
        }
        Err(error) => match error.code {
            "FAILED_PRECONDITION" => Ok(ReloadEnd::NeedsRestart(refusal(server, &error.message))),
            "INVALID_ARGUMENT" => Ok(ReloadEnd::Invalid(refusal(server, &error.message))),
            _ => Err(failed(what, server, &error, advice(client::fate(&error)))),
        },
    }
}

/// Returns the text for standard output.
fn text(reloaded: &ReloadConfigResponse, dry_run: bool) -> String {
    let ReloadConfigResponse { differences, hash } = reloaded;
    let count = match differences.len() {
        0 => "no difference".to_owned(),
        1 => "1 difference".to_owned(),
        count => format!("{count} differences"),
    };
    let end = if dry_run && !differences.is_empty() {
        format!("{count}; nothing was changed (--dry-run)")
    } else {
        format!("{count}; the configuration {hash} is in use")
    };
    let lines = differences.iter().map(line).chain([end]);
    lines.collect::<Vec<_>>().join("\n")
}

fn line(difference: &ConfigDifference) -> String {
    let shown = |value: &str| match value {
        "" => "not set".to_owned(),
        value => value.to_owned(),
    };
    let ConfigDifference { key, old, new } = difference;
    format!("{key}: {} -> {}", shown(old), shown(new))
}

fn refusal(server: &str, message: &str) -> String {
    format!("{server} keeps its configuration: {message}")
}

/// Returns what to do about a failed call.
fn advice(code: &str) -> &'static str {
    match code {
        "CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN" => {
            "the configuration may have been reloaded: check with `tollgate status`"
        }
        "PERMISSION_DENIED" => "use a caller with the permission `manage` for the whole server",
        "UNAUTHENTICATED" => "pass a token with --token-file",
        "UNIMPLEMENTED" => "this server cannot reload on request: upgrade it, or send it SIGHUP",
        _ => client::advice(code),
    }
}
