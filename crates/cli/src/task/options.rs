//! Options of `tollgate task`, with validation.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use tollgate_client::TaskState;

use super::super::{
    flags::{self, ServerFlags},
    output::OutputFlags,
};

/// Range of `--expire-in`, since the contract does not support times after 2111.
const EXPIRE_IN: (Duration, Duration) =
    (Duration::from_millis(1), Duration::from_secs(80 * 365 * 86_400));

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  The queued tasks of a pool, running ones included, and the dead ones:
    tollgate task list ar:0571
    tollgate task list ar:0571 --state dead

  Queue a task with a payload for a device, for at most an hour:
    tollgate task queue ar:0571 camera-1 snapshot-1 --payload '{\"zoom\":2}' \\
        --expire-in 1h

  Remove it from the queue again:
    tollgate task cancel ar:0571 camera-1 snapshot-1

  Let a device run a dead task again:
    tollgate task requeue ar:0571 camera-1 snapshot-1

A running task keeps its slot after cancel; `tollgate pool evict` frees the slot.
--expire-in is relative to the clock of this machine, and the server compares the result with
the clock of its engine.

With --output json, list prints a Task on each line, queue an EnqueueResult, cancel a
CancelTaskResponse, and requeue a RequeueTaskResponse.

Exit status: 0 if the requested state is reached, by this call or an earlier one; 1 if the
call was refused: queue with EXPIRED or FULL, cancel with COMPLETED or UNKNOWN, requeue with
NOT_DEAD, EXPIRED, FULL or UNKNOWN; 64 if the command line is invalid; 69 if the server does
not answer.";

/// Options of `tollgate task`.
#[derive(Debug, Clone, Args)]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
#[command(disable_help_subcommand = true)]
pub struct TaskOptions {
    /// The verb.
    #[command(subcommand)]
    pub verb: TaskVerb,

    /// The form of the result.
    #[command(flatten)]
    pub output: OutputFlags,

    /// The server.
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Verbs of `tollgate task`.
#[derive(Debug, Clone, Subcommand)]
pub enum TaskVerb {
    /// List the tasks of a pool by device, the oldest of each device first
    List {
        /// The pool, such as `ar:0571`
        #[arg(value_name = "POOL", value_parser = flags::name)]
        pool: String,
        /// List only tasks in this state [default: queued and running tasks]
        #[arg(long, value_name = "STATE")]
        state: Option<TaskStateName>,
    },
    /// Queue a task for a device; exits 1 if it is refused
    Queue(QueueFlags),
    /// Remove a task from the queue of its device, or from the dead tasks
    Cancel(TaskIdFlags),
    /// Queue a dead task again, with new attempts; exits 1 if it is refused
    Requeue(TaskIdFlags),
}

/// The name of a task.
#[derive(Debug, Clone, Args)]
pub struct TaskIdFlags {
    /// The pool, such as `ar:0571`
    #[arg(value_name = "POOL", value_parser = flags::name)]
    pub pool: String,
    /// The device
    #[arg(value_name = "DEVICE", value_parser = flags::name)]
    pub device: String,
    /// The task, unique within its device
    #[arg(value_name = "TASK", value_parser = flags::name)]
    pub task: String,
}

/// A task to queue.
#[derive(Debug, Clone, Args)]
pub struct QueueFlags {
    /// The name of the task.
    #[command(flatten)]
    pub name: TaskIdFlags,

    /// Payload for the device, at most 65,536 bytes
    #[arg(long, value_name = "TEXT", conflicts_with = "payload_file")]
    pub payload: Option<String>,

    /// File with the payload; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub payload_file: Option<PathBuf>,

    /// Do not dispatch the task after this time [default: no limit]
    #[arg(long, value_name = "DURATION")]
    #[arg(value_parser = flags::duration(EXPIRE_IN.0, EXPIRE_IN.1))]
    pub expire_in: Option<Duration>,
}

/// States of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TaskStateName {
    /// Waits until its device asks for a task
    Queued,
    /// Its lease is running or in its grace period
    Running,
    /// Its last attempt ended without success
    Dead,
    /// Cancelled, and not yet forgotten
    Cancelled,
    /// Its time to start has passed
    Expired,
}

impl From<TaskStateName> for TaskState {
    fn from(name: TaskStateName) -> TaskState {
        match name {
            TaskStateName::Queued => TaskState::Queued,
            TaskStateName::Running => TaskState::Running,
            TaskStateName::Dead => TaskState::Dead,
            TaskStateName::Cancelled => TaskState::Cancelled,
            TaskStateName::Expired => TaskState::Expired,
        }
    }
}

impl TaskVerb {
    /// Describes the verb in errors.
    pub(super) fn what(&self) -> String {
        match self {
            TaskVerb::List { pool, .. } => format!("list the tasks of `{pool}`"),
            TaskVerb::Queue(QueueFlags { name: TaskIdFlags { pool, task, .. }, .. }) => {
                format!("queue `{task}` in the pool `{pool}`")
            }
            TaskVerb::Cancel(TaskIdFlags { pool, task, .. }) => {
                format!("cancel `{task}` of the pool `{pool}`")
            }
            TaskVerb::Requeue(TaskIdFlags { pool, task, .. }) => {
                format!("requeue `{task}` of the pool `{pool}`")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::tests::parse;

    #[test]
    fn errors_name_what_is_wrong() {
        for (flags, part) in [
            ("", "VERB"),
            ("list", "<POOL>"),
            ("list p --state gone", "--state"),
            ("queue p d", "<TASK>"),
            ("queue p d t --payload x --payload-file f", "--payload"),
            ("queue p d t --expire-in 0s", "--expire-in"),
            ("cancel p d", "<TASK>"),
            ("requeue p d", "<TASK>"),
        ] {
            let error = parse::<TaskOptions>(flags).expect_err(flags);
            assert!(error.contains(part), "{flags}: {error}");
        }
        let queue = "queue p d t --payload-file - --expire-in 30days --output json";
        assert!(parse::<TaskOptions>(queue).is_ok());
    }
}
