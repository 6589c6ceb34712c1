//! `tollgate pool`: shows and changes pools, for operators.

mod options;
mod text;

use std::process::ExitCode;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tollgate_client::{
    Connection, Error, Pool,
    pb::{self, EvictVerdict},
    time::wire,
};

pub use options::{EvictFlags, HELP, PoolName, PoolOptions, PoolVerb, SettingsFlags};

pub(super) use text::{since, until};

use super::{
    client::{self, ClientError, connect, failed},
    confirm::confirm,
    exit, json,
    listing::PrintedList,
    output::OutputFlags,
    print,
    progress::Progress,
};
use tollgate_telemetry::text::grouped;

/// Maximum number of evictions in flight.
const EVICTIONS: usize = 16;

/// Why a verb ended without a result.
enum VerbEnd {
    /// A call failed.
    Failed(Error),
    /// The error is complete and needs no further advice.
    Printed(ClientError),
    /// A refusal, with its exit code.
    Refused(u8),
}

impl From<Error> for VerbEnd {
    fn from(error: Error) -> VerbEnd {
        VerbEnd::Failed(error)
    }
}

/// Makes the calls of the verb and prints the result.
pub async fn run(options: &PoolOptions) -> Result<ExitCode, ClientError> {
    let PoolOptions { verb, output, server } = options;
    let what = verb.what();
    let connection = connect(&server.url, &server.access, &what).await?;
    let fail = |error: &Error| failed(&what, &server.url, error, advice(client::fate(error), verb));
    match call(&connection, verb, *output, fail).await {
        Ok(code) => Ok(ExitCode::from(code)),
        Err(VerbEnd::Refused(code)) => Ok(ExitCode::from(code)),
        Err(VerbEnd::Printed(error)) => Err(error),
        Err(VerbEnd::Failed(error)) => Err(fail(&error)),
    }
}

async fn call(
    connection: &Connection,
    verb: &PoolVerb,
    output: OutputFlags,
    fail: impl Fn(&Error) -> ClientError,
) -> Result<u8, VerbEnd> {
    let pool = |name: &PoolName| connection.pool(&name.pool);
    let paused = |paused| pb::ConfigurePoolRequest { paused: Some(paused), ..Default::default() };
    let (state, text): (pb::Pool, fn(&pb::Pool) -> String) = match verb {
        PoolVerb::List => {
            let listing =
                PrintedList { message: "Pool", columns: text::POOL_COLUMNS, row: text::pool_row };
            let read = async |token: &str| connection.pools(token).await;
            return listing.print(output, read, fail).await.map(|()| 0).map_err(VerbEnd::Printed);
        }
        PoolVerb::Leases(name) => {
            let (pool, row) = (pool(name), text::lease_row);
            let listing = PrintedList { message: "Lease", columns: text::LEASE_COLUMNS, row };
            let read = async |token: &str| pool.leases(token).await;
            return listing.print(output, read, fail).await.map(|()| 0).map_err(VerbEnd::Printed);
        }
        PoolVerb::Evict(flags) => return evict(connection, flags, output).await,
        PoolVerb::Get(name) => (pool(name).details().await?, text::details),
        PoolVerb::Configure(flags) => {
            (connection.pool(&flags.pool).change(change(flags)).await?, text::details)
        }
        PoolVerb::Pause(name) => (pool(name).change(paused(true)).await?, text::paused),
        PoolVerb::Resume(name) => (pool(name).change(paused(false)).await?, text::resumed),
        PoolVerb::Reset { pool: name, yes } => {
            let pool = pool(name);
            confirm(*yes, &reset_question(&pool, *yes).await).map_err(VerbEnd::Refused)?;
            let reset = pb::ConfigurePoolRequest { reset: Some(true), ..Default::default() };
            (pool.change(reset).await?, text::details)
        }
    };
    output.print("Pool", &state, || text(&state));
    Ok(0)
}

fn change(flags: &SettingsFlags) -> pb::ConfigurePoolRequest {
    let SettingsFlags { capacity, lease_duration, expiry_grace, max_attempts, .. } = flags;
    pb::ConfigurePoolRequest {
        capacity: *capacity,
        lease_duration: lease_duration.map(wire),
        expiry_grace: expiry_grace.map(wire),
        max_attempts: *max_attempts,
        ..pb::ConfigurePoolRequest::default()
    }
}

/// Describes what a reset removes. A pool that cannot be read can be reset too.
async fn reset_question(pool: &Pool, yes: bool) -> String {
    let name = pool.name();
    let state = if yes { None } else { pool.details().await.ok() };
    let (settings, hold) = match state {
        Some(state) => {
            let hold = if state.hold_end_time.is_some() { " Also ends the hold." } else { "" };
            (state.config.unwrap_or_default().overrides, hold)
        }
        None => (Vec::new(), ""),
    };
    let settings = if settings.is_empty() {
        "all run-time settings".to_owned()
    } else {
        format!("the run-time settings {}", settings.join(", "))
    };
    format!("Remove {settings} of `{name}`?{hold}")
}

/// Evicts one task, or every task with a lease.
async fn evict(
    connection: &Connection,
    flags: &EvictFlags,
    output: OutputFlags,
) -> Result<u8, VerbEnd> {
    let EvictFlags { device, task, yes, reason, .. } = flags;
    let pool = connection.pool(&flags.pool);
    let Some((device, task)) = device.as_ref().zip(task.as_ref()) else {
        return evict_all(&pool, *yes, reason, output).await;
    };
    let answer = pool.evict(device, task, reason).await?;
    let (text, code) = match answer.verdict() {
        EvictVerdict::Evicted if answer.replayed => ("EVICTED  by an earlier call", 0),
        EvictVerdict::Evicted => ("EVICTED  its slot is free", 0),
        EvictVerdict::Ended => ("ENDED  the task holds no slot", exit::REFUSED),
        EvictVerdict::Unknown => {
            ("UNKNOWN  no such task; see `tollgate pool leases`", exit::REFUSED)
        }
        EvictVerdict::Unspecified => return Err(malformed("verdict")),
    };
    output.print("EvictTaskResponse", &answer, || text.to_owned());
    Ok(code)
}

async fn evict_all(
    pool: &Pool,
    yes: bool,
    reason: &str,
    output: OutputFlags,
) -> Result<u8, VerbEnd> {
    let running = pool.usage().await?.in_use.into();
    let (count, name) = (grouped(running), pool.name());
    let question = format!(
        "Evict all {count} leases of `{name}`? Their devices may still be running when others are \
         admitted."
    );
    confirm(yes, &question).map_err(VerbEnd::Refused)?;
    let progress = Progress::new("evicted", Some(running));
    let (mut evicted, mut ended, mut token) = (0u64, 0u64, String::new());
    loop {
        // A page token is a position in the order of expiry, so evictions do not shift the next
        // page.
        let (leases, next) = pool.leases(&token).await?;
        let mut answers = stream::iter(leases)
            .map(async |lease| pool.evict(&lease.device_id, &lease.task_id, reason).await)
            .buffer_unordered(EVICTIONS);
        while let Some(answer) = answers.try_next().await? {
            match answer.verdict() {
                EvictVerdict::Evicted => evicted += 1,
                _ => ended += 1,
            }
            progress.show(evicted + ended);
        }
        if next.is_empty() {
            break;
        }
        token = next;
    }
    progress.end();
    if output.is_json() {
        print::line(&json::object(&json!({ "evicted": evicted, "ended": ended })))
    } else {
        let (evicted, ended) = (grouped(evicted), grouped(ended));
        print::line(&format!("evicted {evicted} leases; {ended} had ended before"));
    }
    Ok(0)
}

fn malformed(what: &str) -> VerbEnd {
    VerbEnd::Failed(Error {
        code: "INTERNAL",
        message: format!("malformed response: {what}"),
        ..Error::default()
    })
}

/// Returns what to do about a failed call.
fn advice(code: &str, verb: &PoolVerb) -> &'static str {
    match (code, verb) {
        ("CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN", PoolVerb::List | PoolVerb::Leases(_)) => {
            "the list is incomplete: try again"
        }
        ("CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN", PoolVerb::Get(_)) => "try again",
        ("CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN", _) => {
            "the change may have been made: repeat the command, which then changes nothing"
        }
        ("INTERNAL", _) => {
            "other pools are not affected; `tollgate pool reset` repairs the pool, and `tollgate \
             pool evict` the record of a task"
        }
        ("PERMISSION_DENIED", PoolVerb::Get(_) | PoolVerb::List | PoolVerb::Leases(_)) => {
            "use the token of a caller that may read this pool"
        }
        ("PERMISSION_DENIED", _) => {
            "use the token of a caller with the permission `manage` for this pool"
        }
        ("UNIMPLEMENTED", _) => "this is not a Tollgate server, or one without admission",
        _ => client::advice(code),
    }
}
