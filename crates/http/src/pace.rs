//! Bounds how fast a connection is read: bytes per time slice, and resets of streams per second.
//! Also counts the memory that its frames and headers use.
//!
//! HTTP/2 frees a stream when the client resets it, so the limit on open streams does not bound a
//! client that resets each stream immediately. hyper has a limit on streams that are reset before
//! they are accepted. At that limit it closes the connection with all its calls, and an ordinary
//! burst of cancelled calls reaches it. Here, no connection is closed. A time slice has a
//! [`ReadBudget`] of [`SLICE_BYTES`], so that its streams are accepted, run or dropped before more
//! bytes are read. A client that resets more streams than were answered is read more slowly.
//! Parsing the headers of frames for that, and for the memory that a connection uses, costs 0.5 %
//! of a call (benches/EXPERIMENTS.md).

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use tokio::time::{Sleep, sleep};

use crate::{header_table::HeaderTable, shedding};
use tollgate_telemetry::{limits::ReachedLimit, monotonic};

/// Bytes that are read from a connection before its streams are served. A stream that is opened and
/// reset takes at least 22 bytes, so a slice contains fewer streams than [`RESET_STREAMS_MAX`].
const SLICE_BYTES: usize = 64 * 1024;
/// The same limit while several tenants share a long queue. A call waits for one slice of each
/// connection, twice: until it is read, and until its answer is written. A slice then contains
/// about 20 calls; shorter slices would cost more system calls.
const SHARED_SLICE_BYTES: usize = 2 * 1024;
/// The value for hyper's limit on streams that are reset before they are accepted: more than fit
/// into a slice and the read that ends it.
pub(super) const RESET_STREAMS_MAX: usize = 16 * 1024;
/// Burst of resets, in seconds of the allowed rate.
const BURST_SECONDS: i64 = 5;
/// Pause in reading from a connection that has exceeded its rate of resets.
const PAUSE: Duration = Duration::from_millis(50);

/// Length of the preface, `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`.
pub(super) const PREFACE_BYTES: usize = 24;
/// Length of a frame header: payload length, type, flags and stream.
const HEAD_BYTES: usize = 9;
// Frame types.
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
// Flags of HEADERS and CONTINUATION.
const END_HEADERS: u8 = 0x04;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;
/// Length of the priority fields in HEADERS.
const PRIORITY_BYTES: usize = 5;

/// Number of bytes that may still be read in the current time slice of a connection.
#[derive(Debug, Clone)]
pub(super) struct ReadBudget(Arc<AtomicUsize>);

impl ReadBudget {
    /// Renews the budget for the next time slice.
    pub(super) fn renew(&self) {
        let bytes = if shedding::is_shared() { SHARED_SLICE_BYTES } else { SLICE_BYTES };
        self.0.store(bytes, Ordering::Relaxed);
    }

    fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn spend(&self, bytes: usize) {
        // Only one task accesses the counter, so load and store need not be one atomic operation.
        let left = self.left().saturating_sub(bytes);
        self.0.store(left, Ordering::Relaxed);
    }
}

/// The bounds on reading from a connection.
#[derive(Debug)]
pub(super) struct Pace {
    budget: ReadBudget,
    frames: Frames,
    /// Number of streams that may be reset now. Each opened stream adds one, and each reset
    /// subtracts two.
    credit: i64,
    per_second: i64,
    counted: Instant,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    /// Creates the bounds of a connection. It may reset `resets_per_second` streams per second,
    /// beyond the number of its answered streams.
    pub(super) fn new(resets_per_second: u32) -> Pace {
        let per_second = i64::from(resets_per_second);
        Pace {
            budget: ReadBudget(Arc::new(AtomicUsize::new(SLICE_BYTES))),
            frames: Frames::default(),
            credit: per_second * BURST_SECONDS,
            per_second,
            counted: monotonic(),
            pause: None,
        }
    }

    /// Returns the handle that renews the budget.
    pub(super) fn read_budget(&self) -> ReadBudget {
        self.budget.clone()
    }

    /// Ready with the number of bytes that may be read. Pending while the budget is
    /// used up, and during a pause.
    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if self.budget.left() == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
            self.refill();
        }
        Poll::Ready(self.budget.left())
    }

    /// Counts the bytes, and the streams that they open and reset.
    pub(super) fn count(&mut self, bytes: &[u8]) {
        self.budget.spend(bytes.len());
        let seen = self.frames.read(bytes);
        let most = self.per_second * BURST_SECONDS;
        self.credit = (self.credit + seen.opened).min(most) - 2 * seen.reset;
        if self.credit < 0 {
            self.refill();
        }
    }

    /// Returns the memory that the unfinished frame, the unfinished header block and the header
    /// table of the connection use, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.frames.memory()
    }

    /// Adds the credit of the elapsed time. Starts a pause if the credit is still negative.
    fn refill(&mut self) {
        let now = monotonic();
        let passed = now.duration_since(self.counted).min(Duration::from_secs(60));
        self.counted = now;
        let refilled = i64::try_from(passed.as_micros()).unwrap_or_default() * self.per_second;
        let most = self.per_second * BURST_SECONDS;
        self.credit = (self.credit + refilled / 1_000_000).min(most);
        if self.credit < 0 {
            ReachedLimit::Resets.record();
            self.pause = Some(Box::pin(sleep(PAUSE)));
        }
    }
}

/// Streams opened and reset by the bytes of one read.
#[derive(Debug, Default, PartialEq, Eq)]
struct StreamCounts {
    opened: i64,
    reset: i64,
}

/// Parser of frame headers; bytes arrive in pieces of any size.
#[derive(Debug)]
struct Frames {
    /// Bytes to skip until the next frame header.
    skip: usize,
    head: [u8; HEAD_BYTES],
    /// Number of header bytes read so far.
    have: usize,
    /// The highest stream id that was opened.
    last: u32,
    /// Length of the current frame: h2 buffers all of it.
    frame: usize,
    /// Length of the current header block; 0 between two blocks.
    block: usize,
    /// Set if the payload of the current frame contains part of a header block: the number of other
    /// bytes before it.
    fields: Option<usize>,
    table: HeaderTable,
}

impl Default for Frames {
    fn default() -> Frames {
        Frames {
            skip: PREFACE_BYTES,
            head: [0; HEAD_BYTES],
            have: 0,
            last: 0,
            frame: PREFACE_BYTES,
            block: 0,
            fields: None,
            table: HeaderTable::default(),
        }
    }
}

impl Frames {
    /// Parses bytes and counts the streams that they open and reset.
    fn read(&mut self, mut bytes: &[u8]) -> StreamCounts {
        let mut seen = StreamCounts::default();
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            if let Some(other) = &mut self.fields {
                let before = skipped.min(*other);
                *other -= before;
                self.table.read(&bytes[before..skipped]);
            }
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return seen;
            }
            let head = match bytes.split_first_chunk() {
                Some((head, rest)) if self.have == 0 => {
                    bytes = rest;
                    *head
                }
                _ => {
                    let more = (HEAD_BYTES - self.have).min(bytes.len());
                    self.head[self.have..self.have + more].copy_from_slice(&bytes[..more]);
                    self.have += more;
                    bytes = &bytes[more..];
                    if self.have < HEAD_BYTES {
                        return seen;
                    }
                    self.have = 0;
                    self.head
                }
            };
            self.begin(head, &mut seen);
        }
    }

    /// Begins a frame.
    fn begin(&mut self, head: [u8; HEAD_BYTES], seen: &mut StreamCounts) {
        let [a, b, c, kind, flags, stream @ ..]: [u8; HEAD_BYTES] = head;
        self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
        self.frame = self.skip;
        self.fields = None;
        let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
        match kind {
            HEADERS => {
                // HEADERS of an open stream are trailers.
                if stream > self.last {
                    self.last = stream;
                    seen.opened += 1;
                }
                self.block = 0;
                self.table.begin();
                self.continue_block(flags);
            }
            CONTINUATION => self.continue_block(flags & !(PADDED | PRIORITY)),
            RST_STREAM => seen.reset += 1,
            _ => {}
        }
    }

    /// Adds the current frame to the header block.
    fn continue_block(&mut self, flags: u8) {
        self.block = match flags & END_HEADERS {
            0 => self.block + self.skip,
            _ => 0,
        };
        match flags & PADDED {
            0 => self.fields = Some(usize::from(flags & PRIORITY != 0) * PRIORITY_BYTES),
            // No gRPC client sends padding.
            _ => self.table.fill(),
        }
    }

    /// Returns the memory of the unfinished frame and block, and of the header table. For an
    /// unfinished block, h2 stores both the bytes and the decoded fields.
    fn memory(&self) -> usize {
        let frame = if self.skip > 0 { self.frame } else { 0 };
        frame + 2 * self.block + self.table.cost()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u32, payload: usize) -> Vec<u8> {
        let length = (payload as u32).to_be_bytes();
        [&length[1..], &[kind, 0], &stream.to_be_bytes(), &vec![HEADERS; payload]].concat()
    }

    #[test]
    fn streams_are_counted_in_pieces_of_any_size() {
        let mut bytes = vec![b'P'; PREFACE_BYTES];
        for part in [
            frame(4, 0, 0),
            frame(HEADERS, 1, 40),
            frame(0, 1, 300),
            // Trailers.
            frame(HEADERS, 1, 5),
            frame(HEADERS, 3, 0),
            frame(RST_STREAM, 3, 4),
            frame(HEADERS, 5, 1),
        ] {
            bytes.extend(part);
        }
        for piece in [1, 2, 3, 8, 9, 10, 64, bytes.len()] {
            let (mut frames, mut sum) = (Frames::default(), StreamCounts::default());
            for part in bytes.chunks(piece) {
                let seen = frames.read(part);
                sum.opened += seen.opened;
                sum.reset += seen.reset;
            }
            assert_eq!(sum, StreamCounts { opened: 3, reset: 1 }, "in pieces of {piece}");
        }
    }

    #[test]
    fn j15_unfinished_frames_blocks_and_header_tables_have_a_cost() {
        let mut frames = Frames::default();
        frames.read(&[b'P'; PREFACE_BYTES]);
        let mut block = frame(HEADERS, 1, 0);
        // Two fields that are added to the table, after the priority.
        block.extend([[0; 5].as_slice(), &[0x44, 1, b'/', 0x41, 1, b'x']].concat());
        (block[2], block[4]) = (11, PRIORITY);
        frames.read(&block[..15]);
        assert_eq!(frames.memory(), 11 + 2 * 11);
        frames.read(&block[15..]);
        let table = frames.memory() - 2 * 11;
        assert!(table > 0, "the block is unfinished");
        let mut rest = frame(CONTINUATION, 1, 300);
        frames.read(&rest);
        assert_eq!(frames.memory(), table + 2 * 311);
        rest[4] = END_HEADERS;
        frames.read(&rest);
        assert_eq!(frames.memory(), table);
        frames.read(&frame(0, 1, 16_384)[..10]);
        assert_eq!(frames.memory(), table + 16_384);
    }

    #[tokio::test]
    async fn a_client_that_resets_most_of_its_streams_is_read_more_slowly() {
        let mut pace = Pace::new(100);
        pace.count(&[b'P'; PREFACE_BYTES]);
        let mut stream = 1;
        let mut resets = |pace: &mut Pace, calls: u32, of: u32| {
            for number in 0..calls {
                pace.count(&frame(HEADERS, stream, 0));
                if number % of == 0 {
                    pace.count(&frame(RST_STREAM, stream, 4));
                }
                stream += 2;
            }
        };
        resets(&mut pace, 10_000, 2);
        assert!(pace.pause.is_none(), "half of the calls are answered");
        resets(&mut pace, 400, 1);
        assert!(pace.pause.is_none(), "a burst");
        resets(&mut pace, 200, 1);
        assert!(pace.pause.is_some(), "more than a burst");
    }

    #[tokio::test]
    async fn reading_stops_when_the_budget_is_used_up() {
        let mut pace = Pace::new(100);
        let budget = pace.read_budget();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        pace.count(&[0; SLICE_BYTES - 1]);
        assert!(pace.poll_ready(&mut cx).is_ready());
        pace.count(&[0; 1]);
        assert!(pace.poll_ready(&mut cx).is_pending());
        budget.renew();
        assert!(pace.poll_ready(&mut cx).is_ready());
    }
}
