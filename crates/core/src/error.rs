//! Errors of calls that could not be decided.
//!
//! A refusal (full, held, over the limit) is an outcome, not an `Error`.

use std::fmt;

use super::time::Millis;

/// The reason why a call could not be decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The store is unreachable, or could not take the call. The call was certainly not executed.
    Unavailable(String),
    /// The store answers, but refuses writes or has unsafe settings. The call was certainly
    /// not executed. Leases of the store still count, so no fallback share is granted.
    Refused(String),
    /// The store has lost its data, and does not know this sequence: its values could repeat. The
    /// call was certainly not executed.
    StoreLost,
    /// The deadline passed after the call was sent. It is unknown whether it was executed, and
    /// repeating it is safe.
    DeadlineExceeded,
    /// The deadline of a batch passed before this decision of it: it was certainly not executed.
    NotReached,
    /// Redis denied our user a command inside a script, perhaps after the first write of the call,
    /// so it is unknown whether it was executed.
    Denied(String),
    /// Too few replicas acknowledged the write of the call.
    Unacknowledged {
        /// The number of acknowledgements and the number required.
        why: String,
        /// Whether the call has no effect. Otherwise it may stand, and a failover may lose it.
        is_void: bool,
    },
    /// This server is at its maximum number of calls, or could not begin to execute this one within
    /// its deadline. The call was certainly not executed.
    Overloaded,
    /// This server uses as much memory as `memory_max` allows, and accepts no new names.
    MemoryFull,
    /// The namespace of the call has reached one of its limits. Nothing was decided.
    NamespaceLimit {
        /// The key of the limit in `[[namespace]]`.
        limit: &'static str,
        /// Its value.
        value: u64,
        /// When a repeat may succeed.
        retry: Millis,
    },
    /// The maximum number of unsynced bytes is waiting for the disk. Nothing was decided.
    UnsyncedFull {
        /// The maximum.
        max: usize,
    },
    /// This server is at its maximum number of watchers.
    TooManyWatchers,
    /// A watcher read so slowly that its next events are no longer stored.
    SlowWatcher,
    /// This server is shutting down, and ends its watches and waiting calls.
    Ending,
    /// A stored value or a reply of a script is unreadable.
    Corrupt(String),
}

impl Error {
    /// Whether the call may have been executed.
    pub fn is_unsure(&self) -> bool {
        matches!(
            self,
            Error::DeadlineExceeded
                | Error::Denied(_)
                | Error::Unacknowledged { is_void: false, .. }
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unavailable(why) => write!(f, "the store could not execute the call: {why}"),
            Error::Refused(why) => write!(f, "the store refuses the call: {why}"),
            Error::StoreLost => f.write_str(
                "the store has lost its data and does not know this sequence, so its values could \
                 repeat; nothing was executed: an operator must restore an export, set a floor for \
                 the sequence, or accept the loss with `tollgate store accept-loss`",
            ),
            Error::DeadlineExceeded => f.write_str(
                "no reply from the store in time; the call may have been executed: repeat it",
            ),
            Error::NotReached => f.write_str(
                "the deadline of the call passed before this request of the batch; it was not \
                 executed: send it again",
            ),
            Error::Denied(why) => write!(
                f,
                "Redis denied a command of the call's script ({why}); the call may have been \
                 executed: allow the Redis user all commands of the scripts, then repeat the call"
            ),
            Error::Unacknowledged { why, is_void: true } => {
                write!(f, "{why}; the call has no effect: try again")
            }
            Error::Unacknowledged { why, is_void: false } => {
                write!(f, "{why}; the call may stand, and a failover may lose it: repeat it")
            }
            Error::Overloaded => f.write_str(
                "this server is overloaded: it has reached its maximum number of calls, or could \
                 not begin to execute this one within its deadline; nothing was decided: try \
                 again later",
            ),
            Error::MemoryFull => f.write_str(
                "this server uses as much memory as memory_max allows: it accepts no new names; \
                 calls about known names continue",
            ),
            Error::NamespaceLimit { limit, value, .. } => write!(
                f,
                "this namespace has reached its limit {limit} = {value}; nothing was decided; \
                 leases can still be renewed and completed"
            ),
            Error::UnsyncedFull { max } => write!(
                f,
                "{max} bytes of changes are waiting for the disk, the maximum of \
                 limits.unsynced_bytes; nothing was decided: try again"
            ),
            Error::TooManyWatchers => f.write_str(
                "this server has reached its maximum number of watchers, limits.watchers: watch \
                 another server, or try again later",
            ),
            Error::SlowWatcher => f.write_str(
                "the watcher reads too slowly; to continue, watch again with the cursor of the \
                 last event as `after`",
            ),
            Error::Ending => f.write_str(
                "this server is shutting down; call another one: a watch continues with the \
                 cursor of its last event as `after`; on Redis a waiting call keeps its place \
                 in the queue for 10 s",
            ),
            Error::Corrupt(what) => write!(f, "unreadable data from the store: {what}"),
        }
    }
}

impl std::error::Error for Error {}
