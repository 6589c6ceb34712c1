//! The wait for a request: its deadline, and the permits for its bytes.

use std::{
    collections::VecDeque,
    mem,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use hyper::{
    HeaderMap,
    body::{Body, Bytes, Frame, Incoming},
};
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep_until};
use tonic::{Status, codegen::StdError};

use super::{
    super::{
        deadline::Begun,
        held::{ConnectionBudget, LARGE_REQUEST, Permits},
        status,
    },
    FRAME_BYTES_MAX, PREFIX,
    gzip::{self, Gathered, Next},
    is_gzip,
    messages::Messages,
};
use tollgate_telemetry::limits::ReachedLimit;

/// Bytes of a stream without its headers.
const STREAM_BYTES: usize = 512;
/// Bytes that are reserved at a time for messages after the first.
const STEP: usize = 4 * 1024;

/// The permits of a request, until its call is answered.
pub(in super::super) type RequestPermits = Arc<Mutex<Vec<Permits>>>;

/// The error that ended a request before its call was answered.
pub(in super::super) type Refusal = Arc<OnceLock<Status>>;

/// A frame of a body that was read.
pub(super) type Read = Result<Frame<Bytes>, StdError>;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A request whose message is not complete yet.
pub(super) struct Unfinished {
    begun: Begun,
    deadline: Pin<Box<Sleep>>,
    holding: Arc<ConnectionBudget>,
    holds: RequestPermits,
    refusal: Refusal,
    /// Frames that were read before the wait began.
    read: VecDeque<Read>,
    messages: Messages,
    /// The number of received bytes.
    came: usize,
    /// The number of bytes with permits.
    reserved: usize,
    /// Whether the last permits are for the longest message of the service.
    is_longest: bool,
    /// Received data that is not handed on yet.
    data: Data,
    /// The permits or the message that the request waits for. Meanwhile nothing is handed on or read.
    waits: Option<Awaited>,
}

/// What a request waits for, other than its data.
enum Awaited {
    /// Permits.
    Permits(Boxed<Option<Permits>>),
    /// A compressed message that is being inflated.
    Message(Boxed<Result<Bytes, Status>>),
}

/// Data that is not handed on yet.
enum Data {
    /// A received frame, unchanged.
    Plain(Option<Bytes>),
    /// Messages that may be compressed.
    Gzip(Gathered),
}

impl Unfinished {
    /// Creates the wait for a request with these headers and frames that were read already. The
    /// rest must come by the deadline of the call, and within the time that messages have.
    pub(super) fn new(
        headers: &HeaderMap,
        default: Duration,
        holding: Arc<ConnectionBudget>,
        message_max: usize,
        read: VecDeque<Read>,
    ) -> Unfinished {
        let begun = Begun::now();
        let deadline = begun.deadline(headers, default, holding.message_timeout());
        Unfinished {
            begun,
            deadline: Box::pin(sleep_until(deadline.into())),
            holding,
            holds: RequestPermits::default(),
            refusal: Refusal::default(),
            read,
            messages: Messages::new(message_max),
            came: 0,
            reserved: 0,
            is_longest: false,
            data: if is_gzip(headers) {
                Data::Gzip(Gathered::default())
            } else {
                Data::Plain(None)
            },
            waits: None,
        }
    }

    pub(super) fn begun(&self) -> Begun {
        self.begun
    }

    pub(super) fn holds(&self) -> RequestPermits {
        self.holds.clone()
    }

    pub(super) fn refusal(&self) -> Refusal {
        self.refusal.clone()
    }

    /// Whether all received frames are handed on.
    pub(super) fn is_empty(&self) -> bool {
        let is_empty = match &self.data {
            Data::Plain(data) => data.is_none(),
            Data::Gzip(data) => data.is_empty(),
        };
        is_empty && self.read.is_empty() && self.waits.is_none()
    }

    /// Reserves the bytes of the headers.
    pub(super) fn begin(&mut self, headers: &HeaderMap) -> Result<(), Status> {
        let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        self.hold(STREAM_BYTES + fields.sum::<usize>())
    }

    /// Reads the next frame. Compressed messages come uncompressed, each in a frame.
    pub(super) fn poll_frame(
        &mut self,
        rest: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Read>> {
        loop {
            match &mut self.waits {
                Some(Awaited::Permits(waiting)) => {
                    let hold = match waiting.as_mut().poll(cx) {
                        Poll::Ready(hold) => hold,
                        Poll::Pending => {
                            ready!(self.deadline.as_mut().poll(cx));
                            None
                        }
                    };
                    self.waits = None;
                    match hold {
                        Some(hold) => self.holds.lock().push(hold),
                        None => return self.refuse(no_permits()),
                    }
                }
                Some(Awaited::Message(inflating)) => {
                    let inflated = ready!(inflating.as_mut().poll(cx));
                    self.waits = None;
                    return match inflated {
                        Ok(message) => Poll::Ready(Some(Ok(Frame::data(message)))),
                        Err(refused) => self.refuse(refused),
                    };
                }
                None => {}
            }
            match self.next() {
                Ok(Some(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                // Registers its waker.
                Ok(None) if self.waits.is_some() => continue,
                Ok(None) => {}
                Err(refused) => return self.refuse(refused),
            }
            let read = match self.read.pop_front() {
                Some(read) => Some(read),
                None => match Pin::new(&mut *rest).poll_frame(cx) {
                    Poll::Ready(read) => read.map(|read| read.map_err(Into::into)),
                    Poll::Pending => {
                        ready!(self.deadline.as_mut().poll(cx));
                        return self.end();
                    }
                },
            };
            match read.map(|read| read.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => {
                    if let Err(refused) = self.take(data) {
                        return self.refuse(refused);
                    }
                }
                Some(Ok(Err(trailers))) => return self.hand_on(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return self.hand_on(None),
            }
        }
    }

    /// Ends a request that is incomplete at its deadline.
    fn end(&self) -> Poll<Option<Read>> {
        ReachedLimit::MessageTime.record();
        if self.messages.is_between() {
            // A stream without a further request for now, or a request without the end of its stream.
            return Poll::Ready(Some(Err(status::not_all_said().into())));
        }
        self.refuse(status::not_all_said())
    }

    fn refuse(&self, status: Status) -> Poll<Option<Read>> {
        let _ = self.refusal.set(status.clone());
        Poll::Ready(Some(Err(status.into())))
    }

    /// Hands on the end of the data, after an incomplete last message.
    fn hand_on(&mut self, end: Option<Read>) -> Poll<Option<Read>> {
        match &mut self.data {
            Data::Gzip(data) if !data.is_empty() => {
                self.read.extend(end);
                Poll::Ready(Some(Ok(Frame::data(data.take()))))
            }
            _ => Poll::Ready(end),
        }
    }

    /// Takes received data. Reserves permits for it and for the rest of its message.
    fn take(&mut self, data: Bytes) -> Result<(), Status> {
        self.came += data.len();
        let rest = self.messages.read(&data)?;
        let mut needed = (self.came + rest).max(PREFIX);
        let is_first = self.reserved <= PREFIX;
        match &mut self.data {
            Data::Plain(plain) => *plain = Some(data),
            Data::Gzip(gathered) => {
                gathered.push(&data);
                let length = self.messages.compressed().unwrap_or_default();
                if is_first && length >= LARGE_REQUEST {
                    // Large permits are reserved once: calls that have some could wait for
                    // each other.
                    needed = PREFIX + self.messages.longest();
                    self.is_longest = true;
                }
            }
        }
        if needed <= self.reserved {
            return Ok(());
        }
        let missing = (needed - self.reserved).max(if is_first { 0 } else { STEP });
        self.reserved += missing;
        if is_first {
            return self.reserve(missing);
        }
        self.hold(missing)
    }

    /// Returns the next data that has its permits. `None` if more must be read or waited for.
    fn next(&mut self) -> Result<Option<Bytes>, Status> {
        while self.waits.is_none() {
            let gathered = match &mut self.data {
                Data::Plain(data) => return Ok(data.take()),
                Data::Gzip(gathered) => gathered,
            };
            match gathered.next(self.messages.longest())? {
                Next::Read => break,
                Next::Message(message) => return Ok(Some(message)),
                Next::Reserve(content) => self.reserve_content(content)?,
                Next::Inflate(member, content) => {
                    let inflating = Box::pin(gzip::inflate_in_turn(member, content));
                    self.waits = Some(Awaited::Message(inflating));
                }
            }
        }
        Ok(None)
    }

    /// Reserves permits for the content of a compressed message. Small contents need none, as
    /// small messages that are not compressed.
    fn reserve_content(&mut self, bytes: usize) -> Result<(), Status> {
        if mem::take(&mut self.is_longest) {
            if let Some(longest) = self.holds.lock().last_mut() {
                longest.shrink(PREFIX + bytes);
            }
            self.reserved = self.came;
            return Ok(());
        }
        if bytes > FRAME_BYTES_MAX as usize { self.reserve(bytes) } else { Ok(()) }
    }

    /// Reserves permits; large messages may wait for others of the connection.
    fn reserve(&mut self, bytes: usize) -> Result<(), Status> {
        let mut waiting: Boxed<_> = Box::pin(self.holding.clone().request(bytes));
        // Usually nothing is waited for.
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(hold) => self.holds.lock().push(hold.ok_or_else(no_permits)?),
            Poll::Pending => self.waits = Some(Awaited::Permits(waiting)),
        }
        Ok(())
    }

    /// Takes permits without waiting. Fails if too few are available.
    fn hold(&self, bytes: usize) -> Result<(), Status> {
        let hold = self.holding.try_request(bytes).ok_or_else(no_permits)?;
        self.holds.lock().push(hold);
        Ok(())
    }
}

fn no_permits() -> Status {
    ReachedLimit::RequestBytes.record();
    status::too_many_request_bytes()
}
