//! What went wrong when a decision could not be taken.
//!
//! A refusal (full, held, over the limit) is an outcome, never an `Error`.

use std::fmt;

/// Could not decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The store can't be reached, or the call was certainly not executed.
    Unavailable(String),
    /// The deadline passed after the call was sent: its fate is unknown, and
    /// repeating it is safe.
    DeadlineExceeded,
    /// Too few replicas have what the call wrote.
    Unconfirmed {
        /// How many of how many.
        why: String,
        /// Whether nothing of it counts; if not, it may stand, and may be lost.
        is_void: bool,
    },
    /// This server has as many calls in flight as it allows itself.
    Overloaded,
    /// This server uses as much memory as it may: it takes no new names.
    MemoryFull,
    /// This server has as many watchers as it allows itself.
    TooManyWatchers,
    /// A watcher took so long that events it has not taken are no longer at hand.
    SlowWatcher,
    /// This server is about to end, and with it what only it serves.
    Ending,
    /// A stored value is not what the scripts write.
    Corrupt(String),
}

impl Error {
    /// Whether the call may have been executed.
    pub fn is_unsure(&self) -> bool {
        matches!(self, Error::DeadlineExceeded | Error::Unconfirmed { is_void: false, .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unavailable(why) => write!(f, "the store cannot take the call: {why}"),
            Error::DeadlineExceeded => f.write_str(
                "no reply from the store in time; the call may have been executed: repeat it",
            ),
            Error::Unconfirmed { why, is_void: true } => {
                write!(f, "{why}; nothing of it counts: try again")
            }
            Error::Unconfirmed { why, is_void: false } => {
                write!(f, "{why}; it may stand, and a failover may lose it: repeat it")
            }
            Error::Overloaded => f.write_str("too many calls in flight on this server"),
            Error::MemoryFull => f.write_str(
                "this server uses as much memory as memory_max allows: it takes no new names, those \
                 that it knows go on",
            ),
            Error::TooManyWatchers => f.write_str("too many watchers on this server"),
            Error::SlowWatcher => f.write_str(
                "the watcher is too slow for these events; the cursor of the last one it got, given \
                 as `after`, goes on from there",
            ),
            Error::Ending => f.write_str(
                "this server is about to end; the cursor of the last event, given as `after` to \
                 another one, goes on from there",
            ),
            Error::Corrupt(what) => write!(f, "a stored value cannot be read: {what}"),
        }
    }
}

impl std::error::Error for Error {}
