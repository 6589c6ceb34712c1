//! `tollgate health`: checks whether a server is SERVING, for container health checks.

use std::time::Duration;

use clap::Args;
use tokio::time::timeout;
use tollgate_client::Health;

use super::{
    client::{self, ClientError, connect, failed},
    flags::{self, ServerFlags},
    output::OutputFlags,
};

/// Range of `--timeout`.
const TIMEOUT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  Whether the server on this machine answers calls:
    tollgate health

  As the health check of a container:
    HEALTHCHECK CMD [\"tollgate\", \"health\", \"--timeout\", \"2s\"]

  Whether one service answers, over TLS:
    tollgate health --service tollgate.v1.LockService \\
        --server https://tollgate:50051 --tls-ca ca.crt

Calls grpc.health.v1 and prints the status; with --output json, an object with `status`.
NOT_SERVING means that the store is unreachable or refuses writes, or that the server is
draining.

Exit status: 0 if the status is SERVING; 1 if it is NOT_SERVING; 64 if the command line is
invalid; 69 if there is no answer within --timeout, or no such service.";

/// Options of `tollgate health`.
#[derive(Debug, Clone, Args)]
pub struct HealthOptions {
    /// Full name of a service, such as `tollgate.v1.LockService` [default: the whole server]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub service: String,

    /// Time limit for connecting and for the call together, 100ms to 1m
    #[arg(long, value_name = "DURATION", default_value = "3s")]
    #[arg(value_parser = flags::duration(TIMEOUT.0, TIMEOUT.1))]
    pub timeout: Duration,

    /// The form of the result.
    #[command(flatten)]
    pub output: OutputFlags,

    /// The server.
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Checks the health. Fails if there is no answer within `--timeout`.
pub async fn run(options: &HealthOptions) -> Result<Health, ClientError> {
    let HealthOptions { service, timeout: limit, server, .. } = options;
    let what = match service.as_str() {
        "" => "check the health of the server".to_owned(),
        service => format!("check the health of `{service}`"),
    };
    let late = || {
        let limit = humantime::format_duration(*limit);
        let todo = "the server may be overloaded or unreachable; check its log";
        ClientError(format!("cannot {what} at {}: no answer within {limit}; {todo}", server.url))
    };
    let ask = async {
        let connection = connect(&server.url, &server.access, &what).await?;
        let health = connection.health(service, *limit).await;
        health.map_err(|error| match error.code {
            // The deadline of the call may expire before the overall time limit.
            "DEADLINE_EXCEEDED" => late(),
            code => failed(&what, &server.url, &error, advice(code)),
        })
    };
    timeout(*limit, ask).await.unwrap_or_else(|_| Err(late()))
}

/// Returns what to do about a failed check.
fn advice(code: &str) -> &'static str {
    match code {
        "NOT_FOUND" => {
            "pass a service such as tollgate.v1.LockService, or omit --service to \
         check the whole server"
        }
        "UNIMPLEMENTED" => {
            "this server does not implement grpc.health.v1: it may not be a \
         Tollgate server"
        }
        _ => client::advice(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::tests::parse;

    #[test]
    fn errors_name_the_flag() {
        let defaults: HealthOptions = parse("").expect("no flag is needed");
        assert_eq!((&*defaults.service, defaults.timeout.as_secs()), ("", 3));
        for (flags, part) in [
            ("--timeout 99ms", "--timeout"),
            ("--timeout 2m", "--timeout"),
            ("--server ftp://x", "--server"),
            ("--namespace a/b", "--namespace"),
        ] {
            let error = parse::<HealthOptions>(flags).expect_err(flags);
            assert!(error.contains(part), "{flags}: {error}");
        }
    }
}
