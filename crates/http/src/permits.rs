//! Permits for the resources that callers use: bytes of requests that are not answered yet, bytes
//! of answers that are not read yet, and open streams.
//!
//! A message of one frame needs no permits, because the number of streams bounds such messages. A
//! longer message needs permits from its connection, the peer address and the server before more
//! than its first frame is read.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    adjustable::AdjustablePermits,
    limits::TransportLimits,
    peers::{ConnectionCharge, PeerConnection},
    rejections::Rejections,
};

/// Flow-control window of a stream: the number of bytes that a client may send before the server
/// reads them.
pub(crate) const STREAM_WINDOW: u32 = 128 * 1024;
/// Flow-control window of a connection. Requests that wait for permission to be read use at most
/// half of it.
pub(crate) const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// Answers of this size and above need permits.
pub(crate) const LARGE: usize = 4 * 1024;
/// Requests of this size and above are large: they share three quarters of a connection's bytes and
/// wait for each other.
pub(crate) const LARGE_REQUEST: usize = 64 * 1024;
/// A connection with fewer bytes left for answers executes no further call. The largest answer of a
/// call that is not a listing fits into this number of bytes.
const ANSWER_LEFT_MIN: usize = 80 * 1024;
/// Maximum number of large requests of a connection that wait for its other requests. Each may have
/// [`STREAM_WINDOW`] unread bytes; together they may have half of [`CONNECTION_WINDOW`].
const WAITING_MAX: usize = 16;
/// Bytes of small requests of each connection that need no permits from the peer and the server.
/// Ordinary calls therefore continue however much other connections use.
const SMALL_FREE: usize = 16 * 1024;
/// Number of streams of each connection that do not count towards the limit of its peer. A peer
/// with many connections and few calls on each therefore reaches no limit.
const STREAMS_FREE: usize = 8;
/// Further streams count for the peer in blocks of this size, because its connections on several
/// threads share the counter.
const STREAMS_BLOCK: usize = 32;
/// The memory of an open stream, in bytes, without its message.
const STREAM_COST: usize = 4 * 1024;
/// The memory of streams is charged in blocks of this size; the first stream costs nothing.
const CHARGED_BLOCK: usize = 8;

/// The permits of a connection. All its streams run on one thread.
#[derive(Debug)]
pub(crate) struct ConnectionBudget {
    /// Bytes of small requests.
    small: PermitPool,
    /// Bytes of large requests.
    large: PermitPool,
    /// Bytes of answers.
    answers: PermitPool,
    /// Listings that are being executed, or whose answers are not sent yet.
    listings: PermitPool,
    /// The number of large requests that wait for permits.
    waiting: AtomicUsize,
    /// The peer, with the limits of the connection.
    peer: PeerConnection,
    /// The number of open streams.
    streams: AtomicUsize,
    /// The number of streams that count for the peer, in blocks.
    counted: AtomicUsize,
    /// The number of streams whose memory is charged, and the charge.
    charged: AtomicUsize,
    charge: Mutex<ConnectionCharge>,
    /// The errors of calls that the transport rejects.
    rejections: &'static Rejections,
}

impl ConnectionBudget {
    /// Creates the permits of a connection, with the limits that it starts with.
    pub(crate) fn new(
        peer: PeerConnection,
        rejections: &'static Rejections,
    ) -> Arc<ConnectionBudget> {
        let requests = peer.limits().connection_request_bytes as usize;
        let answers = peer.limits().connection_answer_bytes;
        let (shared, server) = (peer.peer_permits(), peer.server_permits());
        let mut small = PermitPool::new(requests / 4, &shared.requests, &server.requests);
        small.free = (requests / 4).saturating_sub(SMALL_FREE);
        let listings = TransportLimits::listings(answers);
        Arc::new(ConnectionBudget {
            small,
            large: PermitPool::new(requests / 4 * 3, &shared.requests, &server.requests),
            answers: PermitPool::new(answers as usize, &shared.answers, &server.answers),
            listings: PermitPool::new(listings, &shared.listings, &server.listings),
            waiting: AtomicUsize::new(0),
            charged: AtomicUsize::new(0),
            charge: Mutex::new(peer.charge()),
            peer,
            streams: AtomicUsize::new(0),
            counted: AtomicUsize::new(0),
            rejections,
        })
    }

    /// Returns the errors of calls that the transport rejects.
    pub(crate) fn rejections(&self) -> &'static Rejections {
        self.rejections
    }

    /// Returns the time within which a message must be complete.
    pub(crate) fn message_timeout(&self) -> Duration {
        self.peer.limits().message_timeout
    }

    /// Returns the time within which a caller must read a chunk of an answer.
    pub(crate) fn answer_timeout(&self) -> Duration {
        self.peer.limits().answer_timeout
    }

    /// Acquires permits for a small request. Returns `None` if too few are available.
    pub(crate) fn try_request(&self, bytes: usize) -> Option<Permits> {
        self.small.try_acquire(bytes)
    }

    /// Acquires permits for a request. A large request waits until others of its connection are
    /// complete. Returns `None` if too many are waiting, or if the peer or the server has too few
    /// permits left.
    pub(crate) async fn request(self: Arc<Self>, bytes: usize) -> Option<Permits> {
        if bytes < LARGE_REQUEST {
            return self.small.try_acquire(bytes);
        }
        if self.waiting.load(Ordering::Relaxed) >= WAITING_MAX {
            return None;
        }
        let _waiting = WaitingRequest::new(&self.waiting);
        let bytes = u32::try_from(bytes).ok()?;
        let connection = self.large.connection.clone();
        let connection = connection.acquire_many_owned(bytes).await.ok()?;
        Some(Permits { connection, shared: Some(self.large.try_shared(bytes)?) })
    }

    /// Whether a call that is not a listing may be executed, because its answer fits. If the peer
    /// or the server has too few permits left, only a connection without unsent answers may execute
    /// calls.
    pub(crate) fn may_answer(&self) -> bool {
        let PermitPool { connection, peer, server, .. } = &self.answers;
        let has_left = |pool: &Semaphore| pool.available_permits() >= ANSWER_LEFT_MIN;
        let most = self.peer.limits().connection_answer_bytes as usize;
        let uses_none = connection.available_permits() >= most;
        has_left(connection) && (uses_none || has_left(peer) && has_left(server))
    }

    /// Acquires the permit of a listing, and waits until one is available.
    pub(crate) async fn listing(&self) -> Option<Permits> {
        let PermitPool { connection, peer, server, .. } = &self.listings;
        let connection = connection.clone().acquire_owned().await.ok()?;
        let peer = peer.clone().acquire_owned().await.ok()?;
        let server = server.clone().acquire_owned().await.ok()?;
        Some(Permits { connection, shared: Some([peer, server]) })
    }

    /// Acquires permits for an answer. Returns `None` if the connection has too few. The call was
    /// executed, so it is answered even if the peer or the server has no permits left.
    pub(crate) fn answer(&self, bytes: usize) -> Option<Permits> {
        let bytes = u32::try_from(bytes).ok()?;
        let connection = self.answers.connection.clone().try_acquire_many_owned(bytes).ok()?;
        Some(Permits { connection, shared: self.answers.try_shared(bytes) })
    }

    /// Whether another stream may open.
    pub(crate) fn may_open(&self) -> bool {
        let counted = self.counted.load(Ordering::Relaxed);
        let streams = self.streams.load(Ordering::Relaxed);
        if streams > self.charged.load(Ordering::Relaxed) && !self.charge(streams + CHARGED_BLOCK) {
            return false;
        }
        if streams < STREAMS_FREE + counted {
            return true;
        }
        let may = self.peer.try_use_streams(STREAMS_BLOCK);
        if may {
            self.counted.store(counted + STREAMS_BLOCK, Ordering::Relaxed);
        }
        may
    }

    /// Charges the memory of this number of streams. Returns false if too little is left.
    fn charge(&self, streams: usize) -> bool {
        let may = self.charge.lock().set(streams * STREAM_COST);
        if may {
            self.charged.store(streams, Ordering::Relaxed);
        }
        may
    }

    /// Counts a stream until the guard is dropped.
    pub(crate) fn open(self: Arc<Self>) -> OpenStream {
        self.streams.store(self.streams.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        OpenStream(self)
    }
}

/// A stream that is counted until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenStream(Arc<ConnectionBudget>);

impl OpenStream {
    /// Returns the time within which a caller must read a chunk of an answer.
    pub(crate) fn answer_timeout(&self) -> Duration {
        self.0.answer_timeout()
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let budget = &self.0;
        let left = budget.streams.load(Ordering::Relaxed) - 1;
        budget.streams.store(left, Ordering::Relaxed);
        if left < STREAMS_FREE {
            budget.release_streams();
        }
        if left == 0 && budget.charged.load(Ordering::Relaxed) > 0 {
            budget.charge(0);
        }
    }
}

impl ConnectionBudget {
    fn release_streams(&self) {
        let counted = self.counted.load(Ordering::Relaxed);
        if counted > 0 {
            self.counted.store(0, Ordering::Relaxed);
            self.peer.release_streams(counted);
        }
    }
}

impl Drop for ConnectionBudget {
    fn drop(&mut self) {
        self.release_streams();
    }
}

/// The permits of one kind from the connection, its peer and the server. They are acquired in this
/// order.
#[derive(Debug)]
struct PermitPool {
    connection: Arc<Semaphore>,
    peer: Arc<Semaphore>,
    server: Arc<Semaphore>,
    /// While the connection has at least this many permits left, no permits are acquired from the
    /// peer and the server. With 0, they are always acquired.
    free: usize,
}

impl PermitPool {
    fn new(connection: usize, peer: &AdjustablePermits, server: &AdjustablePermits) -> PermitPool {
        PermitPool {
            connection: Arc::new(Semaphore::new(connection)),
            peer: peer.semaphore().clone(),
            server: server.semaphore().clone(),
            free: 0,
        }
    }

    fn try_acquire(&self, bytes: usize) -> Option<Permits> {
        let bytes = u32::try_from(bytes).ok()?;
        let connection = self.connection.clone().try_acquire_many_owned(bytes).ok()?;
        if self.free > 0 && self.connection.available_permits() >= self.free {
            return Some(Permits { connection, shared: None });
        }
        Some(Permits { connection, shared: Some(self.try_shared(bytes)?) })
    }

    /// Acquires permits from the peer and the server.
    fn try_shared(&self, permits: u32) -> Option<[OwnedSemaphorePermit; 2]> {
        let peer = self.peer.clone().try_acquire_many_owned(permits).ok()?;
        let server = self.server.clone().try_acquire_many_owned(permits).ok()?;
        Some([peer, server])
    }
}

/// Permits that are returned when dropped.
#[derive(Debug)]
pub(crate) struct Permits {
    connection: OwnedSemaphorePermit,
    /// The permits of the peer and of the server, if any are needed.
    shared: Option<[OwnedSemaphorePermit; 2]>,
}

impl Permits {
    /// Returns all permits except this number.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let shared = self.shared.iter_mut().flatten();
        for permit in shared.chain([&mut self.connection]) {
            drop(permit.split(permit.num_permits().saturating_sub(bytes)));
        }
    }
}

/// Counts a large request while it waits.
struct WaitingRequest<'a>(&'a AtomicUsize);

impl WaitingRequest<'_> {
    fn new(waiting: &AtomicUsize) -> WaitingRequest<'_> {
        waiting.fetch_add(1, Ordering::Relaxed);
        WaitingRequest(waiting)
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
