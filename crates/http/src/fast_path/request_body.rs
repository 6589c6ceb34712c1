//! The body of a call, including the frames that were read before its path was chosen.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use hyper::{
    HeaderMap,
    body::{Body, Bytes, Frame, Incoming},
};
use tonic::codegen::StdError;

use super::{
    PREFIX,
    unfinished::{EarlyEnd, Read, RequestPermits, Unfinished},
};
use crate::{deadline::CallStart, permits::ConnectionBudget};

/// The body of a call.
pub(crate) struct RequestBody {
    /// A frame that contains one complete message.
    whole: Option<Bytes>,
    /// The frame or error after `whole`, or in its place.
    next: Option<Box<Read>>,
    rest: Incoming,
    budget: Arc<ConnectionBudget>,
    /// The longest message of the service.
    message_max: usize,
    /// Timer and accounting, once the body has to wait for data.
    unfinished: Option<Box<Unfinished>>,
}

impl RequestBody {
    pub(crate) fn new(
        rest: Incoming,
        budget: Arc<ConnectionBudget>,
        message_max: usize,
    ) -> RequestBody {
        RequestBody { whole: None, next: None, rest, budget, message_max, unfinished: None }
    }

    /// Returns the message of the call if it is complete in one frame and nothing follows.
    /// Otherwise returns `None`, and tonic serves the call. Waits until the deadline of the call;
    /// `default` is the deadline of calls that specify none.
    pub(super) async fn message(
        &mut self,
        headers: &HeaderMap,
        default: Duration,
    ) -> Option<Bytes> {
        // Usually the message is already complete, and no timer is needed.
        if let Poll::Ready(message) = poll_fn(|cx| Poll::Ready(self.poll_message(cx))).await {
            return message;
        }
        self.await_by_deadline(headers, default);
        poll_fn(|cx| self.poll_message(cx)).await
    }

    /// Starts the timer and the accounting: data after the deadline of the call is an error.
    /// `default` is the deadline of calls that specify none. Returns the start of the wait.
    pub(crate) fn await_by_deadline(
        &mut self,
        headers: &HeaderMap,
        default: Duration,
    ) -> CallStart {
        if let Some(unfinished) = &self.unfinished {
            return unfinished.start();
        }
        // The frames that were already read count too.
        let whole = self.whole.take().map(|data| Ok(Frame::data(data)));
        let read = whole.into_iter().chain(self.next.take().map(|next| *next)).collect();
        let budget = self.budget.clone();
        let mut unfinished =
            Box::new(Unfinished::new(headers, default, budget, self.message_max, read));
        let start = unfinished.start();
        if let Err(rejected) = unfinished.reserve_headers(headers) {
            self.next = Some(Box::new(Err(rejected.into())));
        }
        self.unfinished = Some(unfinished);
        start
    }

    /// Returns the start of the wait, if the body had to wait.
    pub(super) fn start(&self) -> Option<CallStart> {
        self.unfinished.as_ref().map(|unfinished| unfinished.start())
    }

    /// Consumes the body. Returns the accounting of the connection and the permits of the request,
    /// which must be kept until the call is answered.
    pub(super) fn end(self) -> (Arc<ConnectionBudget>, Option<RequestPermits>) {
        let permits = self.permits();
        (self.budget, permits)
    }

    pub(super) fn budget(&self) -> &Arc<ConnectionBudget> {
        &self.budget
    }

    /// Returns the permits of the request, if the body had to wait. They must be kept until the
    /// call is answered.
    pub(crate) fn permits(&self) -> Option<RequestPermits> {
        self.unfinished.as_ref().map(|unfinished| unfinished.permits())
    }

    /// Returns the slot for the error that ends the request early, if the body had to wait.
    pub(crate) fn early_end(&self) -> Option<EarlyEnd> {
        self.unfinished.as_ref().map(|unfinished| unfinished.early_end())
    }

    /// Whether the client has reset the call or disconnected. Reads only data that is already
    /// available.
    pub(super) fn is_reset(&mut self) -> bool {
        // A later wait polls the body again and registers its waker.
        if self.unfinished.is_none() && self.next.is_none() {
            let _ = self.poll_whole(&mut Context::from_waker(Waker::noop()));
        }
        self.unfinished.is_none() && self.next.as_ref().is_some_and(|next| next.is_err())
    }

    /// Ready with the message, or with `None` if the fast path cannot take the call.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.next.is_none() {
            ready!(self.poll_whole(cx));
        }
        let whole = match self.next {
            None => self.whole.take(),
            // More data follows the message, or the body ended with an error.
            Some(_) => None,
        };
        Poll::Ready(whole.map(|mut frame| frame.split_off(PREFIX)))
    }

    /// Reads until the message and its end are complete, or until other data arrives.
    fn poll_whole(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.whole.is_none() || !self.is_read() {
            match ready!(self.poll_rest(cx)) {
                None => break,
                Some(Ok(frame)) => match frame.into_data() {
                    // For example the end of the stream in an empty frame.
                    Ok(data) if data.is_empty() => {}
                    Ok(data) if self.whole.is_none() && is_whole(&data) => self.whole = Some(data),
                    Ok(data) => return self.leave(Ok(Frame::data(data))),
                    Err(frame) => return self.leave(Ok(frame)),
                },
                Some(Err(error)) => {
                    // A client that resets the call before its end gets no answer.
                    self.whole = None;
                    return self.leave(Err(error));
                }
            }
        }
        Poll::Ready(())
    }

    /// Whether all frames of the request are read.
    fn is_read(&self) -> bool {
        self.unfinished.as_ref().is_none_or(|unfinished| unfinished.is_empty())
            && self.rest.is_end_stream()
    }

    /// Stops the fast path and keeps the last frame for tonic.
    fn leave(&mut self, next: Read) -> Poll<()> {
        self.next = Some(Box::new(next));
        Poll::Ready(())
    }

    /// Reads the next frame, through `unfinished` once the body had to wait.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Option<Read>> {
        let Some(unfinished) = &mut self.unfinished else {
            return Pin::new(&mut self.rest).poll_frame(cx).map_err(Into::into);
        };
        unfinished.poll_frame(&mut self.rest, cx)
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").field("rest", &self.rest).finish_non_exhaustive()
    }
}

/// Whether the bytes are exactly one uncompressed message with its prefix.
fn is_whole(data: &[u8]) -> bool {
    match data {
        [0, a, b, c, d, message @ ..] => {
            u32::from_be_bytes([*a, *b, *c, *d]) as usize == message.len()
        }
        _ => false,
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Read>> {
        let whole = self.whole.take().map(|data| Ok(Frame::data(data)));
        match whole.or_else(|| self.next.take().map(|next| *next)) {
            Some(frame) => Poll::Ready(Some(frame)),
            None => self.poll_rest(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.whole.is_none() && self.next.is_none() && self.is_read()
    }
}
