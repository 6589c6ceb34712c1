//! `tollgate lock`: runs a command while holding a lock, or lists the held locks.

mod child;
mod list;
mod options;
mod parent;
mod signals;

use std::time::Duration;

use tokio::{select, time::sleep};
use tollgate_client::{Acquisition, Connection, Error, Lock, pb, time};

pub use list::list;
pub use options::{HELP, IfLost, LockOptions, LockVerb};
pub use parent::WithParent;

use self::{
    child::{Ended, code},
    signals::ForwardedSignals,
};
use crate::{
    client::{self, ClientError, connect, failed},
    print,
    rate::length,
};
use tollgate_core::time::monotonic;

/// Pause before connecting again.
const PAUSE: Duration = Duration::from_millis(500);

/// How `tollgate lock` has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockEnd {
    /// The command ended with this exit code, or could not be started (126 or 127), or a signal
    /// arrived first (128 plus its number).
    Exited(u8),
    /// Another owner holds the lock, so the command was not started.
    Refused,
    /// The lock was lost before the command ended.
    Lost,
}

/// Acquires the lock, runs the command and releases the lock. Problems are passed to `warn`.
pub async fn run(options: &LockOptions, warn: impl Fn(&str)) -> Result<LockEnd, ClientError> {
    let mut signals = ForwardedSignals::listen()
        .map_err(|error| ClientError(format!("cannot listen for signals: {error}")))?;
    let connection = select! {
        connection = reach(options) => connection?,
        signal = signals.next() => return Ok(LockEnd::Exited(code(signal))),
    };
    let owner = options.owner();
    let mut lock = Lock::new(connection, options.name(), &owner, options.lease);
    let answer = select! {
        answer = lock.acquire(options.wait) => answer,
        signal = signals.next() => {
            withdraw(options, &lock).await;
            return Ok(LockEnd::Exited(code(signal)));
        }
    };
    let lease = match answer {
        Ok(Acquisition::Acquired(lease)) => lease,
        Ok(Acquisition::Held { holder, retry_after }) => {
            warn(&describe_holder(options.name(), &holder, retry_after));
            print_held(options, holder, retry_after);
            return Ok(LockEnd::Refused);
        }
        Err(error) => {
            withdraw(options, &lock).await;
            let (what, todo) = (acquire(options), advice(client::fate(&error)));
            return Err(failed(&what, &options.server, &error, todo));
        }
    };
    let token = lease.fencing_token;
    let ended = match child::start(options, &owner, token) {
        Ok(child) => {
            let run = child::wait(child, options, (&mut lock, lease), &mut signals, &warn).await;
            // If it is unknown whether the command has ended, the lock is not released but expires.
            run.map_err(|error| ClientError(format!("cannot wait for the command: {error}")))?
        }
        Err(error) => {
            let (code, reason) = parent::not_executed(&options.command[0], &error);
            warn(&reason);
            Ended { code, is_lost: false }
        }
    };
    let released = lock.release(token, ended.is_lost).await;
    Ok(settle(options, released, ended, warn))
}

/// Connects to the server. Retries until `options.wait` has passed.
async fn reach(options: &LockOptions) -> Result<Connection, ClientError> {
    let until = monotonic().checked_add(options.wait);
    loop {
        match connect(&options.server, &options.access, &acquire(options)).await {
            Err(_) if until.is_none_or(|until| monotonic() < until) => sleep(PAUSE).await,
            connected => return connected,
        }
    }
}

/// Releases a lease that an abandoned call may have been granted. Does nothing if the owner was
/// named, because another process may use the same name.
async fn withdraw(options: &LockOptions, lock: &Lock) {
    if options.owner.is_none() {
        lock.withdraw().await;
    }
}

/// Warns if the lock was lost or not released, and returns how the command has ended.
fn settle(
    options: &LockOptions,
    released: Result<bool, Error>,
    mut ended: Ended,
    warn: impl Fn(&str),
) -> LockEnd {
    let name = options.name();
    match released {
        // The loss was already reported.
        _ if ended.is_lost => {}
        Ok(true) => {}
        Ok(false) => {
            warn(&format!("`{name}` was lost before it was released: its lease had expired"));
            ended.is_lost = true;
        }
        Err(error) => {
            let lease = length(options.lease);
            warn(&format!("cannot release `{name}`: {error}; its lease expires within {lease}"));
        }
    }
    match options.if_lost {
        IfLost::Term if ended.is_lost => LockEnd::Lost,
        _ => LockEnd::Exited(ended.code),
    }
}

/// Prints the refusal with `--output json`. Nothing else is printed, because COMMAND does not run.
fn print_held(options: &LockOptions, holder: String, retry_after: Duration) {
    let held = pb::AcquireLockResponse {
        outcome: pb::AcquireLockOutcome::Held.into(),
        holder,
        retry_after: Some(time::wire(retry_after)),
        ..pb::AcquireLockResponse::default()
    };
    if let Some(line) = options.output.json("AcquireLockResponse", &held) {
        print::line(&line);
    }
}

/// Describes the holder of the lock and when its lease expires.
fn describe_holder(name: &str, holder: &str, retry_after: Duration) -> String {
    match (holder, length(retry_after)) {
        ("", _) => format!("`{name}` is reserved for waiting calls"),
        (_, ends) => format!("`{name}` is held by `{holder}`: expires in {ends} unless renewed"),
    }
}

fn acquire(options: &LockOptions) -> String {
    format!("acquire `{}`", options.name())
}

/// Returns what to do about a failed call.
fn advice(code: &str) -> &'static str {
    match code {
        "CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN" => {
            "try again; with --wait, `tollgate lock` retries for that time"
        }
        "INTERNAL" => "other locks are not affected; the log of the server may say more",
        "UNIMPLEMENTED" => "this server does not support locks: upgrade it",
        _ => client::advice(code),
    }
}
