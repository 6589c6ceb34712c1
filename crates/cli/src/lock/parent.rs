//! Ends a command when `tollgate lock` ends, even by SIGKILL, because the command must not continue
//! without the lock.
//!
//! On Linux a process sets its own parent-death signal, which survives `execve`. So `tollgate lock`
//! starts this program again, which sets the signal and then executes the command.

use std::{
    ffi::{OsStr, OsString},
    io::{self, ErrorKind},
    os::unix::process::{CommandExt, parent_id},
    process::{Command, ExitCode},
};

use clap::Args;

use crate::print::warn;

/// The name of the subcommand.
#[cfg(target_os = "linux")]
const NAME: &str = "with-parent";

/// A command to execute, and its parent.
#[derive(Debug, Clone, Args)]
pub struct WithParent {
    /// Process id of the parent
    parent: u32,
    /// The command
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

impl WithParent {
    /// Executes the command in this process. Returns only if it cannot be executed.
    pub fn execute(&self) -> ExitCode {
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{Signal, set_parent_process_death_signal};
            // If this fails, the command runs as on other systems.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
        }
        // The parent may have ended before the signal was set.
        if parent_id() != self.parent {
            return ExitCode::from(by_signal(rustix::process::Signal::KILL.as_raw()));
        }
        let error = Command::new(&self.command[0]).args(&self.command[1..]).exec();
        let (code, reason) = not_executed(&self.command[0], &error);
        warn(&reason);
        ExitCode::from(code)
    }
}

/// Builds a process that executes `command` and, on Linux, ends when this process does.
pub(super) fn ending_with_this(command: &[OsString]) -> Command {
    #[cfg(target_os = "linux")]
    {
        // The program file may have been replaced since this process was started.
        let mut this = Command::new("/proc/self/exe");
        this.arg0("tollgate").arg(NAME).arg(std::process::id().to_string()).args(command);
        this
    }
    #[cfg(not(target_os = "linux"))]
    plain(command)
}

/// Builds a process that executes just `command`.
pub(super) fn plain(command: &[OsString]) -> Command {
    let mut plain = Command::new(&command[0]);
    plain.args(&command[1..]);
    plain
}

/// Returns the exit code and the message for a command that could not be executed.
pub(super) fn not_executed(command: &OsStr, error: &io::Error) -> (u8, String) {
    let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
    (code, format!("cannot run `{}`: {error}", command.to_string_lossy()))
}

/// Returns the exit code that shells use for a process that the signal with this number has ended.
pub(super) fn by_signal(number: i32) -> u8 {
    128 | number as u8
}
