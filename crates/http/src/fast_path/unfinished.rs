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
    FRAME_BYTES_MAX, PREFIX,
    gzip::{self, Gathered, Next},
    is_gzip,
    messages::Messages,
};
use crate::{
    deadline::CallStart,
    permits::{ConnectionBudget, LARGE_REQUEST, Permits},
    rejections::Rejections,
};
use tollgate_telemetry::limits::ReachedLimit;

/// Memory of a stream without its headers, in bytes.
const STREAM_BYTES: usize = 512;
/// Bytes that are reserved at a time for messages after the first.
const STEP: usize = 4 * 1024;

/// The permits of a request, which are kept until its call is answered.
pub(crate) type RequestPermits = Arc<Mutex<Vec<Permits>>>;

/// The error that ended a request before its call was answered.
pub(crate) type EarlyEnd = Arc<OnceLock<Status>>;

/// A frame that was read from a body, or an error.
pub(super) type Read = Result<Frame<Bytes>, StdError>;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A request whose message is not complete yet.
pub(super) struct Unfinished {
    start: CallStart,
    deadline: Pin<Box<Sleep>>,
    budget: Arc<ConnectionBudget>,
    permits: RequestPermits,
    early_end: EarlyEnd,
    /// Frames that were read before the wait began.
    read: VecDeque<Read>,
    messages: Messages,
    /// The number of received bytes.
    received: usize,
    /// The number of bytes with permits.
    reserved: usize,
    /// Whether the last permits cover the longest message of the service.
    is_longest: bool,
    /// Received data that is not passed on yet.
    data: Data,
    /// The permits or the message that the request is waiting for. Until they arrive, nothing is
    /// passed on or read.
    waits: Option<Awaited>,
}

/// What a request waits for, other than its data.
enum Awaited {
    /// Permits.
    Permits(Boxed<Option<Permits>>),
    /// A compressed message that is being inflated.
    Message(Boxed<Result<Bytes, Status>>),
}

/// Data that is not passed on yet.
enum Data {
    /// A received frame, unchanged.
    Plain(Option<Bytes>),
    /// Messages that may be compressed.
    Gzip(Gathered),
}

impl Unfinished {
    /// Creates the wait for a request with these headers and frames that were read already. The
    /// rest must arrive by the deadline of the call and within the message timeout.
    pub(super) fn new(
        headers: &HeaderMap,
        default: Duration,
        budget: Arc<ConnectionBudget>,
        message_max: usize,
        read: VecDeque<Read>,
    ) -> Unfinished {
        let start = CallStart::now();
        let deadline = start.deadline(headers, default, budget.message_timeout());
        Unfinished {
            start,
            deadline: Box::pin(sleep_until(deadline.into())),
            messages: Messages::new(message_max, budget.rejections()),
            budget,
            permits: RequestPermits::default(),
            early_end: EarlyEnd::default(),
            read,
            received: 0,
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

    pub(super) fn start(&self) -> CallStart {
        self.start
    }

    pub(super) fn permits(&self) -> RequestPermits {
        self.permits.clone()
    }

    pub(super) fn early_end(&self) -> EarlyEnd {
        self.early_end.clone()
    }

    fn rejections(&self) -> &'static Rejections {
        self.budget.rejections()
    }

    /// Whether all received frames have been passed on.
    pub(super) fn is_empty(&self) -> bool {
        let is_empty = match &self.data {
            Data::Plain(data) => data.is_none(),
            Data::Gzip(data) => data.is_empty(),
        };
        is_empty && self.read.is_empty() && self.waits.is_none()
    }

    /// Reserves the bytes of the headers.
    pub(super) fn reserve_headers(&mut self, headers: &HeaderMap) -> Result<(), Status> {
        let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        self.reserve_now(STREAM_BYTES + fields.sum::<usize>())
    }

    /// Reads the next frame. Compressed messages are returned uncompressed, each in its own frame.
    pub(super) fn poll_frame(
        &mut self,
        rest: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Read>> {
        loop {
            match &mut self.waits {
                Some(Awaited::Permits(waiting)) => {
                    let permits = match waiting.as_mut().poll(cx) {
                        Poll::Ready(permits) => permits,
                        Poll::Pending => {
                            ready!(self.deadline.as_mut().poll(cx));
                            None
                        }
                    };
                    self.waits = None;
                    match permits {
                        Some(permits) => self.permits.lock().push(permits),
                        None => return self.reject(no_permits(self.rejections())),
                    }
                }
                Some(Awaited::Message(inflating)) => {
                    let inflated = ready!(inflating.as_mut().poll(cx));
                    self.waits = None;
                    return match inflated {
                        Ok(message) => Poll::Ready(Some(Ok(Frame::data(message)))),
                        Err(rejected) => self.reject(rejected),
                    };
                }
                None => {}
            }
            match self.next() {
                Ok(Some(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                // Poll again, so that the new wait registers the waker.
                Ok(None) if self.waits.is_some() => continue,
                Ok(None) => {}
                Err(rejected) => return self.reject(rejected),
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
                    if let Err(rejected) = self.receive(data) {
                        return self.reject(rejected);
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
            // Between two requests of a stream, or after a request whose stream has not ended yet.
            return Poll::Ready(Some(Err(self.rejections().message_incomplete().into())));
        }
        self.reject(self.rejections().message_incomplete())
    }

    fn reject(&self, status: Status) -> Poll<Option<Read>> {
        let _ = self.early_end.set(status.clone());
        Poll::Ready(Some(Err(status.into())))
    }

    /// Returns the end of the data, after an incomplete last message if there is one.
    fn hand_on(&mut self, end: Option<Read>) -> Poll<Option<Read>> {
        match &mut self.data {
            Data::Gzip(data) if !data.is_empty() => {
                self.read.extend(end);
                Poll::Ready(Some(Ok(Frame::data(data.drain()))))
            }
            _ => Poll::Ready(end),
        }
    }

    /// Stores received data. Reserves permits for it and for the rest of its message.
    fn receive(&mut self, data: Bytes) -> Result<(), Status> {
        self.received += data.len();
        let rest = self.messages.read(&data)?;
        let mut needed = (self.received + rest).max(PREFIX);
        let is_first = self.reserved <= PREFIX;
        match &mut self.data {
            Data::Plain(plain) => *plain = Some(data),
            Data::Gzip(gathered) => {
                gathered.push(&data);
                let length = self.messages.compressed().unwrap_or_default();
                if is_first && length >= LARGE_REQUEST {
                    // Permits for a large message are reserved in one step, because calls that have
                    // only some of theirs could wait for each other.
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
        self.reserve_now(missing)
    }

    /// Returns the next data whose permits are reserved. Returns `None` if more must be read, or
    /// permits or a message awaited.
    fn next(&mut self) -> Result<Option<Bytes>, Status> {
        while self.waits.is_none() {
            let gathered = match &mut self.data {
                Data::Plain(data) => return Ok(data.take()),
                Data::Gzip(gathered) => gathered,
            };
            match gathered.next(self.messages.longest(), self.budget.rejections())? {
                Next::Read => break,
                Next::Message(message) => return Ok(Some(message)),
                Next::Reserve(content) => self.reserve_content(content)?,
                Next::Inflate(member, content) => {
                    let inflating =
                        Box::pin(gzip::inflate(member, content, self.budget.rejections()));
                    self.waits = Some(Awaited::Message(inflating));
                }
            }
        }
        Ok(None)
    }

    /// Reserves permits for the content of a compressed message. Small content needs none, like
    /// small messages that are not compressed.
    fn reserve_content(&mut self, bytes: usize) -> Result<(), Status> {
        if mem::take(&mut self.is_longest) {
            if let Some(longest) = self.permits.lock().last_mut() {
                longest.shrink(PREFIX + bytes);
            }
            self.reserved = self.received;
            return Ok(());
        }
        if bytes > FRAME_BYTES_MAX as usize { self.reserve(bytes) } else { Ok(()) }
    }

    /// Reserves permits; large messages may wait for others of the connection.
    fn reserve(&mut self, bytes: usize) -> Result<(), Status> {
        let mut waiting: Boxed<_> = Box::pin(self.budget.clone().request(bytes));
        // Usually the permits are available immediately.
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permits) => {
                let permits = permits.ok_or_else(|| no_permits(self.rejections()))?;
                self.permits.lock().push(permits);
            }
            Poll::Pending => self.waits = Some(Awaited::Permits(waiting)),
        }
        Ok(())
    }

    /// Reserves permits without waiting. Fails if too few are available.
    fn reserve_now(&self, bytes: usize) -> Result<(), Status> {
        let permits = self.budget.try_request(bytes);
        let permits = permits.ok_or_else(|| no_permits(self.rejections()))?;
        self.permits.lock().push(permits);
        Ok(())
    }
}

/// Returns the error for a request without permits, and counts it.
fn no_permits(rejections: &Rejections) -> Status {
    ReachedLimit::RequestBytes.record();
    rejections.too_many_request_bytes()
}
