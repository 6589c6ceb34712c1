//! `tollgate lock`: runs a command while holding a lock.

mod child;
mod keeper;
mod options;
mod signals;

use std::io::ErrorKind;

use tokio::select;

pub use options::{HELP, IfLost, LockOptions};

use self::{
    child::{Ended, code},
    keeper::{Answer, Keeper},
    signals::Signals,
};
use super::{CallerError, rate::length};
use crate::{decision::time::Millis, lock::Release};

/// The result of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The command ended with this exit code. 126 or 127 if it could not be started; 128 plus the
    /// number of a signal that arrived first.
    Exited(u8),
    /// Another owner holds the lock, so the command was not started.
    Refused,
    /// The lock was lost before the command ended.
    Lost,
}

/// Acquires the lock, runs the command and releases the lock. Problems are reported to `tell`.
pub async fn run(options: &LockOptions, tell: impl Fn(&str)) -> Result<End, CallerError> {
    let mut signals = Signals::listen()
        .map_err(|error| CallerError(format!("cannot listen for signals: {error}")))?;
    let mut keeper = select! {
        keeper = Keeper::connect(options) => keeper?,
        signal = signals.next() => return Ok(End::Exited(code(signal))),
    };
    let answer = select! {
        answer = keeper.acquire() => answer?,
        signal = signals.next() => {
            keeper.withdraw().await;
            return Ok(End::Exited(code(signal)));
        }
    };
    let tenure = match answer {
        Answer::Granted(tenure) => tenure,
        Answer::Held { holder, retry_after } => {
            tell(&held(&options.name, &String::from_utf8_lossy(&holder), retry_after));
            return Ok(End::Refused);
        }
    };
    let ended = match child::start(options, keeper.owner(), tenure.token) {
        Ok(child) => {
            let run = child::attend(child, &mut keeper, tenure, &mut signals, &tell).await;
            // If the end of the command is unknown, the lock is not released; its lease ends.
            run.map_err(|error| CallerError(format!("cannot wait for the command: {error}")))?
        }
        Err(error) => {
            tell(&format!("cannot run `{}`: {error}", options.command[0].to_string_lossy()));
            let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
            Ended { code, is_lost: false }
        }
    };
    Ok(release(options, &mut keeper, tenure.token, ended, tell).await)
}

async fn release(
    options: &LockOptions,
    keeper: &mut Keeper<'_>,
    token: u64,
    mut ended: Ended,
    tell: impl Fn(&str),
) -> End {
    let name = &options.name;
    match keeper.release(token, ended.is_lost).await {
        // The loss was already reported.
        _ if ended.is_lost => {}
        Ok(Release::Released) => {}
        Ok(Release::NotHeld) => {
            tell(&format!("`{name}` was lost before it was released: the lease had ended"));
            ended.is_lost = true;
        }
        Err(error) => {
            let lease = length(Millis(options.lease.as_millis() as u64));
            tell(&format!("cannot release `{name}`: {error}; its lease ends within {lease}"));
        }
    }
    match options.if_lost {
        IfLost::Term if ended.is_lost => End::Lost,
        _ => End::Exited(ended.code),
    }
}

/// Describes the holder of the lock and the end of its lease.
fn held(name: &str, holder: &str, retry_after: Millis) -> String {
    match (holder, length(retry_after)) {
        ("", _) => format!("`{name}` is reserved for waiting calls"),
        (_, ends) => format!("`{name}` is held by `{holder}`: ends in {ends} unless renewed"),
    }
}
