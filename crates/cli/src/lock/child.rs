//! The command that runs while the lock is held.

use std::{io, os::unix::process::ExitStatusExt, pin::pin, process::ExitStatus};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    select,
    time::sleep_until,
};

use tollgate_client::{Lease, Lock};

use super::{
    options::{IfLost, LockOptions},
    parent,
    signals::{ForwardedSignals, reaches_all},
};
use tollgate_core::time::monotonic;

/// How the command ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    /// Exit code as in a shell: 128 plus the number of a signal.
    pub(super) code: u8,
    /// Whether the lock was lost before the command ended.
    pub(super) is_lost: bool,
}

/// Starts the command with the name, owner and fencing token of the lock in its environment. Unless
/// it may run without the lock, it ends when this process does.
pub(super) fn start(options: &LockOptions, owner: &str, token: u64) -> io::Result<Child> {
    let command = match options.if_lost {
        IfLost::Term => parent::ending_with_this(&options.command),
        IfLost::Ignore => parent::plain(&options.command),
    };
    Command::from(command)
        .env("TOLLGATE_FENCING_TOKEN", token.to_string())
        .env("TOLLGATE_LOCK_NAME", options.name())
        .env("TOLLGATE_LOCK_OWNER", owner)
        .spawn()
}

/// Renews the lease and forwards signals until the command has ended.
pub(super) async fn wait(
    mut child: Child,
    options: &LockOptions,
    (lock, lease): (&mut Lock, Lease),
    signals: &mut ForwardedSignals,
    warn: impl Fn(&str),
) -> io::Result<Ended> {
    let mut keep = pin!(lock.keep(lease));
    let (mut is_lost, mut kill_at) = (false, None);
    loop {
        select! {
            // Polled first, because the process id must not be used once the command has ended.
            biased;
            status = child.wait() => {
                return Ok(Ended { code: exit_code(status?), is_lost });
            }
            signal = signals.next() => {
                if !reaches_all(signal) {
                    send(&child, signal);
                }
            }
            lost = &mut keep, if !is_lost => {
                is_lost = true;
                let name = options.name();
                match options.if_lost {
                    IfLost::Ignore => {
                        warn(&format!("`{name}` is lost: {lost}; the command continues"));
                    }
                    IfLost::Term => {
                        warn(&format!("`{name}` is lost: {lost}; sending SIGTERM to the command"));
                        send(&child, Signal::TERM);
                        kill_at = options.kill_after.and_then(|after| monotonic().checked_add(after));
                    }
                }
            }
            () = sleep_until(kill_at.unwrap_or_else(monotonic).into()), if kill_at.is_some() => {
                kill_at = None;
                warn("the command is still running; sending SIGKILL");
                send(&child, Signal::KILL);
            }
        }
    }
}

/// Sends a signal to the command only. Its process id cannot be reused before it has been waited
/// for.
fn send(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(pid) = pid {
        // The command may have just ended, or it runs as another user and cannot be signalled.
        let _ = kill_process(pid, signal);
    }
}

/// Returns the exit code that shells use for a process that this signal has ended.
pub(super) fn code(signal: Signal) -> u8 {
    parent::by_signal(signal.as_raw())
}

fn exit_code(status: ExitStatus) -> u8 {
    match status.code() {
        Some(code) => code as u8,
        None => parent::by_signal(status.signal().unwrap_or_default()),
    }
}
