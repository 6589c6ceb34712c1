//! Counters of the limits on what callers can make a server hold.
//!
//! The code that enforces a limit records each time the limit rejects or ends something. A report
//! ([`ReachedLimits`]) and the metrics read the counters. `docs/limits.md` lists every limit with its
//! default, its configuration key and its error.

use std::sync::atomic::{AtomicU64, Ordering};

/// Defines the limits, their names in the log, and how many there are.
macro_rules! limits {
    ($($(#[$doc:meta])* $limit:ident => $name:literal),* $(,)?) => {
        /// A limit on what callers can make the server hold.
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
    /// Bytes of answers that the client has not read.
    AnswerBytes => "answer_bytes",
    /// Time until a client reads its answer.
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

impl ReachedLimit {
    /// Counts that the limit has rejected or ended something.
    pub fn record(self) {
        self.record_times(1);
    }

    /// Counts that the limit has rejected or ended this number of things.
    pub fn record_times(self, times: u64) {
        COUNTS[self as usize].fetch_add(times, Ordering::Relaxed);
    }

    /// Returns how often this process has reached the limit.
    pub fn times(self) -> u64 {
        COUNTS[self as usize].load(Ordering::Relaxed)
    }
}

/// Returns the name of each limit, and how often this process has reached it.
pub fn counts() -> impl Iterator<Item = (&'static str, u64)> {
    NAMES.iter().zip(&COUNTS).map(|(name, count)| (*name, count.load(Ordering::Relaxed)))
}

/// The counts that a report has shown already.
#[derive(Debug, Default)]
pub struct ReachedLimits([u64; NAMES.len()]);

impl ReachedLimits {
    /// Returns `name=count` for each limit that was reached since the last call. `None` if no limit
    /// was reached.
    pub fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        for ((name, count), shown) in counts().zip(&mut self.0) {
            if count > *shown {
                line.push(format!("{name}={}", count - *shown));
                *shown = count;
            }
        }
        (!line.is_empty()).then(|| line.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_limits_that_were_reached_since_the_last_line() {
        let mut reported = ReachedLimits::default();
        reported.line();
        let before = ReachedLimit::SweepTime.times();
        ReachedLimit::SweepTime.record();
        ReachedLimit::SweepTime.record();
        assert_eq!(ReachedLimit::SweepTime.times(), before + 2);
        let text = reported.line().expect("a limit was reached");
        assert!(text.contains("sweep_time=2"), "{text}");
        assert_eq!(reported.line(), None);
    }
}
