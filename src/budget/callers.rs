//! How much callers can make the server hold: the values of `[limits]`.

use std::time::Duration;

/// Limits on what connections and peers can make the server hold. The defaults suit a
/// container of 256 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallerLimits {
    /// The time in which a call's message must be complete, whatever the call's deadline.
    pub message_timeout: Duration,
    /// The time in which a caller must take an answer.
    pub answer_timeout: Duration,
    /// Bytes of requests in more than one frame, in the whole server.
    pub request_bytes: u32,
    /// The same of one connection.
    pub connection_request_bytes: u32,
    /// Bytes of large answers that callers have not taken, in the whole server.
    pub answer_bytes: u32,
    /// The same of one connection.
    pub connection_answer_bytes: u32,
    /// Connections of one peer address; `None` stands for three quarters of all connections.
    pub peer_connections: Option<usize>,
    /// Open streams of one peer address. The first few of each connection are not counted.
    pub peer_streams: usize,
    /// Streams that a connection may open and reset in a second, beside as many as it lets be
    /// answered; five seconds of them may come at once.
    pub resets_per_second: u32,
}

impl CallerLimits {
    /// The limits where nothing is configured.
    pub const DEFAULT: CallerLimits = CallerLimits {
        message_timeout: Duration::from_secs(10),
        answer_timeout: Duration::from_secs(20),
        request_bytes: 64 << 20,
        connection_request_bytes: 8 << 20,
        answer_bytes: 64 << 20,
        connection_answer_bytes: 8 << 20,
        peer_connections: None,
        peer_streams: 16_384,
        resets_per_second: 2_000,
    };

    /// Connections of one peer address, of so many of the server.
    pub fn peer_connections(&self, connections_max: usize) -> usize {
        self.peer_connections.unwrap_or(connections_max - connections_max / 4)
    }
}

impl Default for CallerLimits {
    fn default() -> CallerLimits {
        CallerLimits::DEFAULT
    }
}
