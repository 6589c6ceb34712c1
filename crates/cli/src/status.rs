//! `tollgate status`: shows the version, engine, uptime and configuration of a server.

use std::time::Duration;

use clap::Args;

use tollgate_client::{
    pb::{ConfigurationStatus, GetStatusResponse},
    time::time,
};

use super::{
    client::{self, ClientError, connect, failed},
    flags::ServerFlags,
    output::OutputFlags,
};

/// Text after the options in `--help`.
pub const HELP: &str = "\
Example:
  The status of a server:
    tollgate status --server http://10.0.0.7:50051

Servers with the same rules print the same hash; addresses, TLS, log and threads may differ.
Behind a load balancer, address each server with --server.

Exit status: 0 if the server answers, whatever its status; 64 if the command line is invalid;
69 if the server does not answer or fails, for example with PERMISSION_DENIED.";

/// Options of `tollgate status`.
#[derive(Debug, Clone, Args)]
pub struct StatusOptions {
    /// The form of the result.
    #[command(flatten)]
    pub output: OutputFlags,

    /// The server.
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Reads the status and returns it as lines of text or as JSON.
pub async fn run(options: &StatusOptions) -> Result<String, ClientError> {
    let StatusOptions { output, server } = options;
    let ServerFlags { url: server, access } = server;
    let what = "read the status";
    let connection = connect(server, access, what).await?;
    let status = connection.status().await;
    let status = status.map_err(|error| failed(what, server, &error, advice(error.code)))?;
    Ok(output.json("GetStatusResponse", &status).unwrap_or_else(|| text(status)))
}

fn text(status: GetStatusResponse) -> String {
    let GetStatusResponse {
        version,
        engine,
        topology,
        store,
        readiness,
        uptime_seconds,
        servers,
        ..
    } = status;
    let uptime = humantime::format_duration(Duration::from_secs(uptime_seconds));
    let mut lines = vec![
        format!("version        {version}"),
        format!("engine         {engine}, {topology}"),
        format!("store          {store}"),
        format!("readiness      {readiness}"),
        format!("uptime         {uptime}"),
    ];
    match servers {
        0 if engine != "redis" => {}
        0 => lines.push("servers        unknown".to_owned()),
        servers => lines.push(format!("servers        {servers} on this Redis")),
    }
    let ConfigurationStatus { hash, load_time, last_error, error_time } =
        status.configuration.unwrap_or_default();
    let at = |stamp| match time(stamp) {
        Ok(time) => format!(" since {}", humantime::format_rfc3339_seconds(time)),
        Err(_) => String::new(),
    };
    lines.push(match &*hash {
        "" => "configuration  no file".to_owned(),
        hash => format!("configuration  {hash}{}", at(load_time)),
    });
    if !last_error.is_empty() {
        lines.push(format!("last reload    failed{}: {last_error}", at(error_time)));
    }
    lines.join("\n")
}

/// Returns what to do about a failed call.
fn advice(code: &str) -> &'static str {
    match code {
        "PERMISSION_DENIED" => "use a caller with the permission `read` for the whole server",
        "UNAUTHENTICATED" => "pass a token with --token-file",
        "UNIMPLEMENTED" => "this server does not support GetStatus: upgrade it",
        _ => client::advice(code),
    }
}
