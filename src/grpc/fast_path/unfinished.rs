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
        held::{Hold, Holding, LARGE_REQUEST},
        status,
    },
    FRAME_BYTES_MAX, PREFIX,
    gzip::{self, Gathered, Next},
    is_gzip,
    messages::Messages,
};
use crate::decision::budget::{self, Limit};

/// Bytes of a stream without its headers.
const STREAM_BYTES: usize = 512;
/// Bytes that are reserved at a time for messages after the first.
const STEP: usize = 4 * 1024;

/// The permits of a request, until its call is answered.
pub(in super::super) type Holds = Arc<Mutex<Vec<Hold>>>;

/// The error that ended a request before its call was answered.
pub(in super::super) type Refusal = Arc<OnceLock<Status>>;

/// A frame of a body that was read.
pub(super) type Read = Result<Frame<Bytes>, StdError>;

type Waiting<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A request that is waited for.
pub(super) struct Unfinished {
    begun: Begun,
    deadline: Pin<Box<Sleep>>,
    holding: Arc<Holding>,
    holds: Holds,
    refusal: Refusal,
    /// Frames that were read before the wait began.
    read: VecDeque<Read>,
    messages: Messages,
    /// Bytes of data that came.
    came: usize,
    /// Bytes of data that are reserved.
    reserved: usize,
    /// Whether the last permits are for the longest message of the service.
    is_longest: bool,
    /// Data that came and is not handed on yet.
    data: Data,
    /// What is waited for. Until then nothing is handed on, and nothing more is read.
    waits: Option<Waits>,
}

/// What a request waits for, other than its data.
enum Waits {
    /// Permits.
    Permits(Waiting<Option<Hold>>),
    /// A compressed message that is being inflated.
    Message(Waiting<Result<Bytes, Status>>),
}

/// Data that is not handed on yet.
enum Data {
    /// A frame as it came.
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
        holding: Arc<Holding>,
        message_max: usize,
        read: VecDeque<Read>,
    ) -> Unfinished {
        let begun = Begun::now();
        let deadline = begun.deadline(headers, default, holding.message_timeout());
        Unfinished {
            begun,
            deadline: Box::pin(sleep_until(deadline.into())),
            holding,
            holds: Holds::default(),
            refusal: Refusal::default(),
            read,
            messages: Messages::new(message_max),
            came: 0,
            reserved: 0,
            is_longest: false,
            data: match is_gzip(headers) {
                true => Data::Gzip(Gathered::default()),
                false => Data::Plain(None),
            },
            waits: None,
        }
    }

    pub(super) fn begun(&self) -> Begun {
        self.begun
    }

    pub(super) fn holds(&self) -> Holds {
        self.holds.clone()
    }

    pub(super) fn refusal(&self) -> Refusal {
        self.refusal.clone()
    }

    /// Whether all frames that came are handed on.
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
                Some(Waits::Permits(waiting)) => {
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
                Some(Waits::Message(inflating)) => {
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

    /// Ends a request of which nothing came by its deadline.
    fn end(&self) -> Poll<Option<Read>> {
        budget::note(Limit::MessageTime);
        if self.messages.is_between() {
            // A stream of requests that has no more for now, or the lack of the stream's end.
            return Poll::Ready(Some(Err(status::not_all_said().into())));
        }
        self.refuse(status::not_all_said())
    }

    fn refuse(&self, status: Status) -> Poll<Option<Read>> {
        let _ = self.refusal.set(status.clone());
        Poll::Ready(Some(Err(status.into())))
    }

    /// Hands on the end of the data, after the piece of a message that came last.
    fn hand_on(&mut self, end: Option<Read>) -> Poll<Option<Read>> {
        match &mut self.data {
            Data::Gzip(data) if !data.is_empty() => {
                self.read.extend(end);
                Poll::Ready(Some(Ok(Frame::data(data.take()))))
            }
            _ => Poll::Ready(end),
        }
    }

    /// Takes data that came. Reserves permits for it and for the rest of its message.
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

    /// Returns the next data whose permits are there; none if it must be read or waited for.
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
                    self.waits = Some(Waits::Message(inflating));
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
        match bytes > FRAME_BYTES_MAX as usize {
            true => self.reserve(bytes),
            false => Ok(()),
        }
    }

    /// Reserves permits; large messages may wait for others of the connection.
    fn reserve(&mut self, bytes: usize) -> Result<(), Status> {
        let mut waiting: Waiting<_> = Box::pin(self.holding.clone().request(bytes));
        // Usually nothing is waited for.
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(hold) => self.holds.lock().push(hold.ok_or_else(no_permits)?),
            Poll::Pending => self.waits = Some(Waits::Permits(waiting)),
        }
        Ok(())
    }

    /// Takes permits that are there.
    fn hold(&self, bytes: usize) -> Result<(), Status> {
        let hold = self.holding.try_request(bytes).ok_or_else(no_permits)?;
        self.holds.lock().push(hold);
        Ok(())
    }
}

fn no_permits() -> Status {
    budget::note(Limit::RequestBytes);
    status::too_many_request_bytes()
}
