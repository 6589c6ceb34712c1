//! What the callers of a server make it hold: bytes of requests that are not answered yet,
//! bytes of answers that are not taken yet, and open streams.
//!
//! Small messages are held for free: the number of streams bounds them. Those of more than a
//! frame take permits of their connection, of its peer and of the server before more of them is read.
//! Flow control bounds what is read before.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::decision::budget::{CallerLimits, PeerConnection};

/// Answers from here on count.
pub(super) const LARGE: usize = 4 * 1024;
/// Requests from here on are large: they share three quarters of a connection's bytes, and
/// wait for each other.
pub(super) const LARGE_REQUEST: usize = 64 * 1024;
/// A connection with less than this left for answers executes no more calls: the largest
/// answer of a call that is not a listing fits in.
const ANSWER_LEFT_MIN: usize = 80 * 1024;
/// Requests of a connection that may wait until others of it are complete. Each may have
/// [`super::STREAM_WINDOW`] bytes that are not read, of [`super::CONNECTION_WINDOW`].
const WAITING_MAX: usize = 16;
/// Bytes of small requests of a connection that the server's bound does not count, so that
/// ordinary calls go on whatever other connections hold.
const SMALL_FREE: usize = 16 * 1024;
/// Streams of a connection that its peer's bound does not count, so that a peer with many
/// connections of few calls counts nothing.
const STREAMS_FREE: usize = 8;
/// Streams that are counted at a time: connections of a peer on several threads share the
/// counter.
const STREAMS_BLOCK: usize = 32;

/// What all connections of a server may make it hold.
#[derive(Debug)]
pub(super) struct Held {
    limits: CallerLimits,
    requests: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    listings: Arc<Semaphore>,
}

impl Held {
    pub(super) fn new(limits: CallerLimits) -> Held {
        Held {
            limits,
            requests: semaphore(limits.request_bytes as usize),
            answers: semaphore(limits.answer_bytes as usize),
            listings: semaphore(CallerLimits::listings(limits.answer_bytes)),
        }
    }

    /// The share of a connection.
    pub(super) fn connection(&self, peer: PeerConnection) -> Arc<Holding> {
        let requests = self.limits.connection_request_bytes as usize;
        let answers = self.limits.connection_answer_bytes;
        let pool = |connection: usize, peer: &Arc<Semaphore>, server: &Arc<Semaphore>| Pool {
            connection: semaphore(connection),
            peer: peer.clone(),
            server: server.clone(),
            free: 0,
        };
        let share = peer.share();
        let mut small = pool(requests / 4, &share.requests, &self.requests);
        small.free = (requests / 4).saturating_sub(SMALL_FREE);
        Arc::new(Holding {
            limits: self.limits,
            small,
            large: pool(requests / 4 * 3, &share.requests, &self.requests),
            answers: pool(answers as usize, &share.answers, &self.answers),
            listings: pool(CallerLimits::listings(answers), &share.listings, &self.listings),
            waiting: AtomicUsize::new(0),
            peer,
            streams: AtomicUsize::new(0),
            counted: AtomicUsize::new(0),
        })
    }
}

/// What a connection makes the server hold. All of its streams are on one thread.
#[derive(Debug)]
pub struct Holding {
    limits: CallerLimits,
    /// Bytes of small requests.
    small: Pool,
    /// Bytes of large ones.
    large: Pool,
    answers: Pool,
    /// Listings, executed or waiting to be sent.
    listings: Pool,
    waiting: AtomicUsize,
    peer: PeerConnection,
    /// Open streams.
    streams: AtomicUsize,
    /// Those of them that its peer's bound counts, in blocks.
    counted: AtomicUsize,
}

impl Holding {
    pub(super) fn message_timeout(&self) -> Duration {
        self.limits.message_timeout
    }

    /// The time in which a caller must take a part of an answer.
    pub fn answer_timeout(&self) -> Duration {
        self.limits.answer_timeout
    }

    /// Takes so many bytes of a request, if they are there.
    pub(super) fn try_request(&self, bytes: usize) -> Option<Hold> {
        self.small.try_hold(bytes)
    }

    /// Takes the bytes of a request; a large one waits until others of its connection are
    /// complete. None if too many wait, or if all connections of the peer or of the server
    /// together hold what they may.
    pub(super) async fn request(self: Arc<Self>, bytes: usize) -> Option<Hold> {
        if bytes < LARGE_REQUEST {
            return self.small.try_hold(bytes);
        }
        if self.waiting.load(Ordering::Relaxed) >= WAITING_MAX {
            return None;
        }
        let _waiting = Waiting::new(&self.waiting);
        let bytes = u32::try_from(bytes).ok()?;
        let connection = self.large.connection.clone();
        let connection = connection.acquire_many_owned(bytes).await.ok()?;
        Some(Hold { connection, shared: Some(self.large.try_shared(bytes)?) })
    }

    /// Whether the connection may have an answer to a call that is not a listing. Where all
    /// connections of the peer or of the server together hold what they may, only one that holds
    /// nothing may.
    pub(super) fn may_answer(&self) -> bool {
        let Pool { connection, peer, server, .. } = &self.answers;
        let has_left = |pool: &Semaphore| pool.available_permits() >= ANSWER_LEFT_MIN;
        let holds_none =
            connection.available_permits() >= self.limits.connection_answer_bytes as usize;
        has_left(connection) && (holds_none || has_left(peer) && has_left(server))
    }

    /// Begins a listing, once enough others were taken.
    pub(super) async fn listing(&self) -> Option<Hold> {
        let Pool { connection, peer, server, .. } = &self.listings;
        let connection = connection.clone().acquire_owned().await.ok()?;
        let peer = peer.clone().acquire_owned().await.ok()?;
        let server = server.clone().acquire_owned().await.ok()?;
        Some(Hold { connection, shared: Some([peer, server]) })
    }

    /// Takes what an answer takes that is there. What was executed is answered though other
    /// connections hold all that the server has.
    pub(super) fn answer(&self, bytes: usize) -> Option<Hold> {
        let bytes = u32::try_from(bytes).ok()?;
        let connection = self.answers.connection.clone().try_acquire_many_owned(bytes).ok()?;
        Some(Hold { connection, shared: self.answers.try_shared(bytes) })
    }

    /// Whether a further stream may open.
    pub(super) fn may_open(&self) -> bool {
        let counted = self.counted.load(Ordering::Relaxed);
        if self.streams.load(Ordering::Relaxed) < STREAMS_FREE + counted {
            return true;
        }
        let may = self.peer.take_streams(STREAMS_BLOCK);
        if may {
            self.counted.store(counted + STREAMS_BLOCK, Ordering::Relaxed);
        }
        may
    }

    /// Counts a stream until the guard is dropped.
    pub fn open(self: Arc<Self>) -> OpenStream {
        self.streams.store(self.streams.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        OpenStream(self)
    }
}

thread_local! {
    /// The part of an answer that the running stream has given and that is not sent yet; 0 for
    /// none.
    static UNSENT: Cell<u64> = const { Cell::new(0) };
    /// The number of the last given part.
    static GIVEN: Cell<u64> = const { Cell::new(0) };
}

/// Notes that the running stream gives a part of an answer.
pub(super) fn give() {
    let given = GIVEN.get() + 1;
    GIVEN.set(given);
    UNSENT.set(given);
}

/// Notes that all given parts of the running stream are sent.
pub(super) fn sent() {
    UNSENT.set(0);
}

/// Polls a stream. `unsent` is the number of its given part that was not sent before. Returns that
/// of now; 0 for none.
pub fn poll_stream<T>(unsent: u64, poll: impl FnOnce() -> T) -> (T, u64) {
    UNSENT.set(unsent);
    let polled = poll();
    (polled, UNSENT.get())
}

/// A stream that counts until it is dropped.
#[derive(Debug)]
pub struct OpenStream(Arc<Holding>);

impl OpenStream {
    /// The time in which a caller must take a part of an answer.
    pub fn answer_timeout(&self) -> Duration {
        self.0.answer_timeout()
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let holding = &self.0;
        let left = holding.streams.load(Ordering::Relaxed) - 1;
        holding.streams.store(left, Ordering::Relaxed);
        if left < STREAMS_FREE {
            holding.give_back();
        }
    }
}

impl Holding {
    fn give_back(&self) {
        let counted = self.counted.load(Ordering::Relaxed);
        if counted > 0 {
            self.counted.store(0, Ordering::Relaxed);
            self.peer.give_streams(counted);
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// What is left of something: for the connection, its peer, and the server. Permits are taken in
/// this order.
#[derive(Debug)]
struct Pool {
    connection: Arc<Semaphore>,
    peer: Arc<Semaphore>,
    server: Arc<Semaphore>,
    /// While so much is left for the connection nothing is taken of the others; 0 for never.
    free: usize,
}

impl Pool {
    fn try_hold(&self, bytes: usize) -> Option<Hold> {
        let bytes = u32::try_from(bytes).ok()?;
        let connection = self.connection.clone().try_acquire_many_owned(bytes).ok()?;
        if self.free > 0 && self.connection.available_permits() >= self.free {
            return Some(Hold { connection, shared: None });
        }
        Some(Hold { connection, shared: Some(self.try_shared(bytes)?) })
    }

    /// Takes permits of the peer and of the server.
    fn try_shared(&self, permits: u32) -> Option<[OwnedSemaphorePermit; 2]> {
        let peer = self.peer.clone().try_acquire_many_owned(permits).ok()?;
        let server = self.server.clone().try_acquire_many_owned(permits).ok()?;
        Some([peer, server])
    }
}

/// What is taken until it is dropped.
#[derive(Debug)]
pub(super) struct Hold {
    connection: OwnedSemaphorePermit,
    /// Of the peer and of the server.
    shared: Option<[OwnedSemaphorePermit; 2]>,
}

impl Hold {
    /// Gives all but so many bytes back.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let shared = self.shared.iter_mut().flatten();
        for permit in shared.chain([&mut self.connection]) {
            drop(permit.split(permit.num_permits().saturating_sub(bytes)));
        }
    }
}

fn semaphore(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits))
}

/// Counts one that waits.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn new(waiting: &AtomicUsize) -> Waiting<'_> {
        waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
