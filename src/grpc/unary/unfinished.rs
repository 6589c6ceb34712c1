//! A request that is waited for: until when, and the bytes that are held for it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::{
    HeaderMap,
    body::{Body, Bytes, Frame, Incoming},
};
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep_until};
use tonic::Status;

use super::{
    super::{
        deadline::Begun,
        held::{Hold, Holding},
        status,
    },
    PREFIX,
    opened::Read,
};
use crate::decision::budget::{self, Limit};

/// What a stream takes beside its headers.
const STREAM_BYTES: usize = 512;
/// The longest message that is taken; tonic refuses longer ones by their prefix.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Bytes that a body beyond its first message takes at a time.
const STEP: usize = 4 * 1024;

/// What is held for a request until its call is answered.
pub(in super::super) type Holds = Arc<Mutex<Vec<Hold>>>;

type Waiting = Pin<Box<dyn Future<Output = Option<Hold>> + Send>>;

/// A request that is waited for.
pub(super) struct Unfinished {
    begun: Begun,
    deadline: Pin<Box<Sleep>>,
    holding: Arc<Holding>,
    holds: Holds,
    /// Bytes of data that came.
    came: usize,
    /// Bytes of data that are held.
    held: usize,
    /// The first bytes, which say how long the message is.
    prefix: [u8; PREFIX],
    /// Data that waits until its message may be held.
    waits: Option<(Bytes, Waiting)>,
}

impl Unfinished {
    /// A request that began with these headers, and must be there by the call's deadline, or in
    /// the time that messages have.
    pub(super) fn new(headers: &HeaderMap, default: Duration, holding: Arc<Holding>) -> Unfinished {
        let begun = Begun::now();
        let deadline = begun.deadline(headers, default, holding.message_timeout());
        Unfinished {
            begun,
            deadline: Box::pin(sleep_until(deadline.into())),
            holding,
            holds: Holds::default(),
            came: 0,
            held: 0,
            prefix: [0; PREFIX],
            waits: None,
        }
    }

    pub(super) fn begun(&self) -> Begun {
        self.begun
    }

    pub(super) fn holds(&self) -> Holds {
        self.holds.clone()
    }

    /// Whether data has come that may not be handed on yet.
    pub(super) fn waits(&self) -> bool {
        self.waits.is_some()
    }

    /// Holds the headers and what was read already; false if that has to wait.
    pub(super) fn begin(
        &mut self,
        headers: &HeaderMap,
        read: Option<&Bytes>,
    ) -> Result<bool, Status> {
        let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        self.hold(STREAM_BYTES + fields.sum::<usize>())?;
        match read {
            Some(read) => self.take(read),
            None => Ok(true),
        }
    }

    /// Reads on.
    pub(super) fn poll_frame(
        &mut self,
        rest: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Read>> {
        if self.waits.is_some() {
            return self.poll_waiting(cx);
        }
        match Pin::new(rest).poll_frame(cx) {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(frame))) => {
                let Some(data) = frame.data_ref() else { return Poll::Ready(Some(Ok(frame))) };
                match self.take(&data.clone()) {
                    Ok(true) => return Poll::Ready(Some(Ok(frame))),
                    Ok(false) => return self.poll_waiting(cx),
                    Err(refused) => return Poll::Ready(Some(Err(refused.into()))),
                }
            }
            Poll::Ready(ended) => return Poll::Ready(ended.map(|read| read.map_err(Into::into))),
        }
        ready!(self.deadline.as_mut().poll(cx));
        budget::note(Limit::MessageTime);
        Poll::Ready(Some(Err(status::not_all_said().into())))
    }

    /// Waits for the permits of received data. Without permits at the deadline the call is refused.
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<Option<Read>> {
        let Some((data, waiting)) = &mut self.waits else { return Poll::Pending };
        let hold = match waiting.as_mut().poll(cx) {
            Poll::Ready(hold) => hold,
            Poll::Pending => {
                ready!(self.deadline.as_mut().poll(cx));
                None
            }
        };
        let data = std::mem::take(data);
        self.waits = None;
        Poll::Ready(Some(match hold {
            Some(hold) => {
                self.holds.lock().push(hold);
                Ok(Frame::data(data))
            }
            None => Err(refuse().into()),
        }))
    }

    /// Holds data that came, and the rest of its message; false if that has to wait.
    fn take(&mut self, data: &Bytes) -> Result<bool, Status> {
        let known = self.came.min(PREFIX);
        let more = (PREFIX - known).min(data.len());
        self.prefix[known..known + more].copy_from_slice(&data[..more]);
        self.came += data.len();
        let [_, length @ ..] = self.prefix;
        let message = match self.came < PREFIX {
            true => 0,
            false => (u32::from_be_bytes(length) as usize).min(MESSAGE_BYTES_MAX),
        };
        let needed = self.came.max(PREFIX + message);
        if needed <= self.held {
            return Ok(true);
        }
        let is_first = self.held <= PREFIX;
        let missing = (needed - self.held).max(if is_first { 0 } else { STEP });
        self.held += missing;
        if !is_first {
            return self.hold(missing).map(|()| true);
        }
        let mut waiting: Waiting = Box::pin(self.holding.clone().request(missing));
        // As a rule nothing is waited for.
        match waiting.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(Some(hold)) => self.holds.lock().push(hold),
            Poll::Ready(None) => return Err(refuse()),
            Poll::Pending => {
                self.waits = Some((data.clone(), waiting));
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Status> {
        let hold = self.holding.try_request(bytes).ok_or_else(refuse)?;
        self.holds.lock().push(hold);
        Ok(())
    }
}

fn refuse() -> Status {
    budget::note(Limit::RequestBytes);
    status::too_many_request_bytes()
}
