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
    print::say,
    rate::length,
};
use tollgate_core::time::monotonic;

/// Pause before the connection is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// The result of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockEnd {
    /// The command ended with this exit code. 126 or 127 if it could not be started; 128 plus the
    /// number of a signal that arrived first.
    Exited(u8),
    /// Another owner holds the lock, so the command was not started.
    Refused,
    /// The lock was lost before the command ended.
    Lost,
}

/// Acquires the lock, runs the command and releases the lock. Problems are reported to `tell`.
pub async fn run(options: &LockOptions, tell: impl Fn(&str)) -> Result<LockEnd, ClientError> {
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
            tell(&held(options.name(), &holder, retry_after));
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
            let run = child::wait(child, options, (&mut lock, lease), &mut signals, &tell).await;
            // If the end of the command is unknown, the lock is not released; its lease ends.
            run.map_err(|error| ClientError(format!("cannot wait for the command: {error}")))?
        }
        Err(error) => {
            let (code, reason) = parent::not_executed(&options.command[0], &error);
            tell(&reason);
            Ended { code, is_lost: false }
        }
    };
    let released = lock.release(token, ended.is_lost).await;
    Ok(report(options, released, ended, tell))
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

/// Releases a lease that an abandoned call may have got. Does nothing for a named owner, because
/// another process may use the same name.
async fn withdraw(options: &LockOptions, lock: &Lock) {
    if options.owner.is_none() {
        lock.withdraw().await;
    }
}

/// Reports how the lock ended, and returns the end of the command.
fn report(
    options: &LockOptions,
    released: Result<bool, Error>,
    mut ended: Ended,
    tell: impl Fn(&str),
) -> LockEnd {
    let name = options.name();
    match released {
        // The loss was already reported.
        _ if ended.is_lost => {}
        Ok(true) => {}
        Ok(false) => {
            tell(&format!("`{name}` was lost before it was released: the lease had ended"));
            ended.is_lost = true;
        }
        Err(error) => {
            let lease = length(options.lease);
            tell(&format!("cannot release `{name}`: {error}; its lease ends within {lease}"));
        }
    }
    match options.if_lost {
        IfLost::Term if ended.is_lost => LockEnd::Lost,
        _ => LockEnd::Exited(ended.code),
    }
}

/// Prints the refusal with `--output json`. COMMAND does not run, so nothing else is printed.
fn print_held(options: &LockOptions, holder: String, retry_after: Duration) {
    let held = pb::AcquireLockResponse {
        outcome: pb::AcquireLockOutcome::Held.into(),
        holder,
        retry_after: Some(time::wire(retry_after)),
        ..pb::AcquireLockResponse::default()
    };
    if let Some(line) = options.output.json("AcquireLockResponse", &held) {
        say(&line);
    }
}

/// Describes the holder of the lock and the end of its lease.
fn held(name: &str, holder: &str, retry_after: Duration) -> String {
    match (holder, length(retry_after)) {
        ("", _) => format!("`{name}` is reserved for waiting calls"),
        (_, ends) => format!("`{name}` is held by `{holder}`: ends in {ends} unless renewed"),
    }
}

fn acquire(options: &LockOptions) -> String {
    format!("acquire `{}`", options.name())
}

/// Returns what to do about a failed call.
fn advice(code: &str) -> &'static str {
    match code {
        "CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN" => {
            "try again; with --wait, `tollgate lock` retries until that time is over"
        }
        "INTERNAL" => "other locks are not affected; the server's log may say more",
        "UNIMPLEMENTED" => "this server does not know locks: update it",
        _ => client::advice(code),
    }
}
