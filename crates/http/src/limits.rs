//! Limits on the resources that connections and peers can use.

use std::time::Duration;

/// Usual maximum size of the answer to a listing, in bytes.
const LISTING: usize = 1 << 20;

/// Limits on the resources that connections and peers can use. The defaults suit a container with
/// 256 MiB of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportLimits {
    /// Time within which the message of a call must be complete, whatever the deadline of the call.
    pub message_timeout: Duration,
    /// Time within which the TLS handshake of a connection must be complete.
    pub handshake_timeout: Duration,
    /// Time within which a peer must send the HTTP/2 preface.
    pub preface_timeout: Duration,
    /// Time within which a caller must read a complete answer.
    pub answer_timeout: Duration,
    /// Bytes of unfinished requests (messages of more than one frame) for the whole server.
    pub request_bytes: u32,
    /// Bytes of unfinished requests for one connection.
    pub connection_request_bytes: u32,
    /// Bytes of large answers that callers have not read, for the whole server.
    pub answer_bytes: u32,
    /// Bytes of large answers that callers have not read, for one connection.
    pub connection_answer_bytes: u32,
    /// Memory of all connections of the server, in bytes: see
    /// [`CONNECTION_COST`](crate::CONNECTION_COST).
    pub connection_bytes: usize,
    /// Connections of one peer address. `None` means three quarters of all connections.
    pub peer_connections: Option<usize>,
    /// Open streams of one connection. The limit is low, since under overload a call waits for all
    /// calls that are in flight before it, whereas calls that the client has not sent yet cost the
    /// server nothing.
    pub connection_streams: u32,
    /// Open streams of one peer address. The first few of each connection are not counted.
    pub peer_streams: usize,
    /// Streams that a connection may reset per second, beyond the number of its answered streams.
    /// A burst may be five times as large.
    pub resets_per_second: u32,
}

impl TransportLimits {
    /// The defaults.
    pub const DEFAULT: TransportLimits = TransportLimits {
        message_timeout: Duration::from_secs(10),
        handshake_timeout: Duration::from_secs(10),
        preface_timeout: Duration::from_secs(10),
        answer_timeout: Duration::from_secs(20),
        request_bytes: 64 << 20,
        connection_request_bytes: 8 << 20,
        answer_bytes: 64 << 20,
        connection_answer_bytes: 8 << 20,
        connection_bytes: 180 << 20,
        peer_connections: None,
        connection_streams: 256,
        peer_streams: 16_384,
        resets_per_second: 2_000,
    };

    /// Returns the maximum number of unread listings for this number of bytes of answers: listings
    /// may use half of the bytes.
    pub(crate) fn listings(answer_bytes: u32) -> usize {
        answer_bytes as usize / 2 / LISTING
    }

    /// Returns the limit on bytes of unfinished requests for one peer address: half of the server's
    /// limit, but at least that of one connection.
    pub(crate) fn peer_request_bytes(&self) -> u32 {
        (self.request_bytes / 2).max(self.connection_request_bytes)
    }

    /// Returns the limit on bytes of unread answers for one peer address: half of the server's
    /// limit, but at least that of one connection.
    pub(crate) fn peer_answer_bytes(&self) -> u32 {
        (self.answer_bytes / 2).max(self.connection_answer_bytes)
    }

    /// Returns the limit on the memory of the connections of one peer address: seven eighths of the
    /// server's limit.
    pub(crate) fn peer_connection_bytes(&self) -> usize {
        self.connection_bytes / 8 * 7
    }

    /// Returns the limit on connections of one peer address, given the limit of the server.
    pub(crate) fn peer_connections(&self, connections_max: usize) -> usize {
        self.peer_connections.unwrap_or(connections_max - connections_max / 4)
    }
}

impl Default for TransportLimits {
    fn default() -> TransportLimits {
        TransportLimits::DEFAULT
    }
}
