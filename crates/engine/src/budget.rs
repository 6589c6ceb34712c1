//! The server's budget: a counter for each limit on what callers can occupy.
//!
//! The code that enforces a limit calls [`note`] each time the limit refuses or ends
//! something. [`report`] logs the counters that rose, at most once in `REPORT_EVERY`, so
//! that a flood of refusals costs one log line. `docs/limits.md` lists every limit with its
//! default, its configuration key and its error.

mod adjustable;
mod callers;
mod namespace_limits;
mod namespaces;
mod peers;
mod refused;
mod refused_calls;
mod tally;
mod usage;

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::sleep;

pub use adjustable::{AdjustablePermits, Place, Places};
pub use callers::CallerLimits;
pub use namespace_limits::{NamespaceLimits, NamespaceRule};
pub use namespaces::{Held, NamespaceBudget, NamespaceUse};
pub use peers::{CONNECTION_COST, ConnectionCharge, PeerConnection, Peers, SharedPermits, network};
pub use refused::RefusedByLimit;
pub use refused_calls::REFUSED_SERIES_MAX;
pub use tally::{Added, Total};
pub use usage::{LimitUsage, NamespaceUsage};

use tollgate_core::error::Error;

/// The shortest time between two log lines about limits.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Defines the limits, their names in the log, and how many there are.
macro_rules! limits {
    ($($(#[$doc:meta])* $limit:ident => $name:literal),* $(,)?) => {
        /// A limit on what callers can occupy.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ReachedLimit {
            $($(#[$doc])* $limit,)*
        }

        /// The name of each limit, in the order of [`ReachedLimit`].
        const NAMES: &[&str] = &[$($name),*];
    };
}

limits! {
    /// Connections of the server.
    Connections => "connections",
    /// Connections of one peer address.
    PeerConnections => "peer_connections",
    /// Memory of connections.
    ConnectionBytes => "connection_bytes",
    /// Time until a TLS handshake is complete.
    HandshakeTime => "handshake_time",
    /// Time until the HTTP/2 preface of a new connection is complete.
    PrefaceTime => "preface_time",
    /// Open streams of one peer address.
    PeerStreams => "peer_streams",
    /// Streams that a client resets faster than the server can take.
    Resets => "resets",
    /// Bytes of unfinished requests.
    RequestBytes => "request_bytes",
    /// Time until a request's message is complete.
    MessageTime => "message_time",
    /// Bytes of answers that the client has not taken.
    AnswerBytes => "answer_bytes",
    /// Time until a client takes its answer.
    AnswerTime => "answer_time",
    /// Size of one message, compressed or not.
    MessageBytes => "message_bytes",
    /// Repeated elements of one message, counted before it is decoded.
    Elements => "elements",
    /// Calls that cannot be answered within their deadline.
    Overload => "overload",
    /// Calls in flight to Redis.
    CallsInFlight => "calls_in_flight",
    /// Calls that wait in a queue.
    Waiters => "waiters",
    /// Streams of events.
    Watchers => "watchers",
    /// Bytes that wait for the disk.
    UnsyncedBytes => "unsynced_bytes",
    /// Memory of the process.
    Memory => "memory",
    /// A limit of a namespace.
    Namespace => "namespace",
    /// Finished spans that wait for the collector, or that it did not take.
    Spans => "spans",
    /// Redis time of the sweeper.
    SweepTime => "sweep_time",
}

/// One counter per limit, for the whole process.
static COUNTS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];

/// Counts that a limit refused or ended something.
pub fn note(limit: ReachedLimit) {
    note_times(limit, 1);
}

/// Counts `times` things that a limit refused or ended.
pub fn note_times(limit: ReachedLimit, times: u64) {
    COUNTS[limit as usize].fetch_add(times, Ordering::Relaxed);
}

/// Counts a call that this limit rejects, and returns its error.
pub fn overloaded(limit: ReachedLimit) -> Error {
    note(limit);
    Error::Overloaded
}

/// How often this process has reached a limit.
pub fn count(limit: ReachedLimit) -> u64 {
    COUNTS[limit as usize].load(Ordering::Relaxed)
}

/// Each limit by its name, with how often this process has reached it.
pub fn counts() -> impl Iterator<Item = (&'static str, u64)> {
    NAMES.iter().zip(&COUNTS).map(|(name, count)| (*name, count.load(Ordering::Relaxed)))
}

/// Logs the limits that were reached since the last line, and whose limits they were. Never completes.
pub async fn report(namespaces: &NamespaceBudget) {
    let (mut told, mut told_of) = ([0; NAMES.len()], HashMap::new());
    loop {
        sleep(REPORT_EVERY).await;
        if let Some(line) = line(&mut told) {
            let namespaces = namespaces.refused_line(&mut told_of);
            tracing::warn!(reached = line, namespaces, "limits were reached");
        }
    }
}

/// Returns `name=count` for each limit that was reached since `told`, and updates `told`. `None` if
/// no limit was reached.
fn line(told: &mut [u64; NAMES.len()]) -> Option<String> {
    let mut line = Vec::new();
    for ((name, count), told) in NAMES.iter().zip(&COUNTS).zip(told) {
        let count = count.load(Ordering::Relaxed);
        if count > *told {
            line.push(format!("{name}={}", count - *told));
            *told = count;
        }
    }
    (!line.is_empty()).then(|| line.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_limits_that_were_reached_since_the_last_line() {
        let mut told = [0; NAMES.len()];
        line(&mut told);
        let before = count(ReachedLimit::SweepTime);
        note(ReachedLimit::SweepTime);
        note(ReachedLimit::SweepTime);
        assert_eq!(count(ReachedLimit::SweepTime), before + 2);
        let text = line(&mut told).expect("a limit was reached");
        assert!(text.contains("sweep_time=2"), "{text}");
    }
}
