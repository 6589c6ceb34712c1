//! The body of a call, and what was read of it before it is known who answers.

use std::{
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
    super::{deadline::Begun, held::Holding},
    PREFIX,
    unfinished::{Holds, Unfinished},
};

pub(super) type Read = Result<Frame<Bytes>, StdError>;

/// The body of a call.
pub(in super::super) struct Opened {
    /// A frame that is a whole message.
    whole: Option<Bytes>,
    /// What came after it, or in its place.
    next: Option<Read>,
    rest: Incoming,
    holding: Arc<Holding>,
    /// Where it is waited for.
    unfinished: Option<Box<Unfinished>>,
}

impl Opened {
    pub(in super::super) fn new(rest: Incoming, holding: Arc<Holding>) -> Opened {
        Opened { whole: None, next: None, rest, holding, unfinished: None }
    }

    /// The call's message, if a frame holds it whole and nothing comes after it. `None` leaves
    /// the call to tonic.
    pub(super) async fn message(
        &mut self,
        headers: &HeaderMap,
        default: Duration,
    ) -> Option<Bytes> {
        // As a rule it is there already, and no clock is looked at.
        if let Poll::Ready(message) = poll_fn(|cx| Poll::Ready(self.poll_message(cx))).await {
            return message;
        }
        self.await_by_deadline(headers, default);
        poll_fn(|cx| self.poll_message(cx)).await
    }

    /// From now on what does not come by the deadline of the call that begins with these
    /// headers is an error, and what comes is counted; since when it is waited for. A call
    /// without a deadline has `default`.
    pub(in super::super) fn await_by_deadline(
        &mut self,
        headers: &HeaderMap,
        default: Duration,
    ) -> Begun {
        if let Some(unfinished) = &self.unfinished {
            return unfinished.begun();
        }
        let mut unfinished = Box::new(Unfinished::new(headers, default, self.holding.clone()));
        let begun = unfinished.begun();
        // What was read already counts, too.
        let read = match (&self.whole, &self.next) {
            (Some(whole), _) => Some(whole.clone()),
            (_, Some(Ok(frame))) => frame.data_ref().cloned(),
            _ => None,
        };
        match unfinished.begin(headers, read.as_ref()) {
            Ok(true) => {}
            // It has to wait before more of it is read.
            Ok(false) => self.next = None,
            Err(refused) => {
                self.whole = None;
                self.next = Some(Err(refused.into()));
            }
        }
        self.unfinished = Some(unfinished);
        begun
    }

    /// Since when it was waited for, if it was.
    pub(super) fn begun(&self) -> Option<Begun> {
        self.unfinished.as_ref().map(|unfinished| unfinished.begun())
    }

    /// The connection, and what is held for a call whose message was taken: to be kept until
    /// it is answered.
    pub(super) fn end(self) -> (Arc<Holding>, Option<Holds>) {
        let holds = self.holds();
        (self.holding, holds)
    }

    pub(super) fn holding(&self) -> &Arc<Holding> {
        &self.holding
    }

    /// What is held for it, if it was waited for: to be kept until the call is answered.
    pub(in super::super) fn holds(&self) -> Option<Holds> {
        self.unfinished.as_ref().map(|unfinished| unfinished.holds())
    }

    /// Whether the client has reset the call, or has gone; looks at what is there of it.
    pub(super) fn is_reset(&mut self) -> bool {
        // Who waits for the rest of it has it polled again.
        if self.unfinished.is_none() && self.next.is_none() {
            let _ = self.poll_whole(&mut Context::from_waker(Waker::noop()));
        }
        self.unfinished.is_none() && matches!(self.next, Some(Err(_)))
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.next.is_none() {
            ready!(self.poll_whole(cx));
        }
        let whole = match self.next {
            None => self.whole.take(),
            // More came than it, or it was refused meanwhile.
            Some(_) => None,
        };
        Poll::Ready(whole.map(|mut frame| frame.split_off(PREFIX)))
    }

    /// Reads until a whole message is there and its end, or what is something else.
    fn poll_whole(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.whole.is_none() || !self.rest.is_end_stream() {
            match ready!(self.poll_rest(cx)) {
                None => break,
                Some(Ok(frame)) => match frame.into_data() {
                    // The end of a stream in a frame of its own, say.
                    Ok(data) if data.is_empty() => {}
                    Ok(data) if self.whole.is_none() && is_whole(&data) => self.whole = Some(data),
                    Ok(data) => return self.leave(Ok(Frame::data(data))),
                    Err(frame) => return self.leave(Ok(frame)),
                },
                Some(Err(error)) => {
                    // Who goes away before all is said is not answered.
                    self.whole = None;
                    return self.leave(Err(error));
                }
            }
        }
        Poll::Ready(())
    }

    /// Leaves a call to tonic, with what was read of it.
    fn leave(&mut self, next: Read) -> Poll<()> {
        self.next = Some(next);
        Poll::Ready(())
    }

    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Option<Read>> {
        let Some(unfinished) = &mut self.unfinished else {
            return Pin::new(&mut self.rest).poll_frame(cx).map_err(Into::into);
        };
        unfinished.poll_frame(&mut self.rest, cx)
    }
}

/// Whether these bytes are a message that is not compressed, and nothing else.
fn is_whole(data: &[u8]) -> bool {
    match data {
        [0, a, b, c, d, message @ ..] => {
            u32::from_be_bytes([*a, *b, *c, *d]) as usize == message.len()
        }
        _ => false,
    }
}

impl Body for Opened {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Read>> {
        let whole = self.whole.take().map(|data| Ok(Frame::data(data)));
        match whole.or_else(|| self.next.take()) {
            Some(frame) => Poll::Ready(Some(frame)),
            None => self.poll_rest(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        let waits = self.unfinished.as_ref().is_some_and(|unfinished| unfinished.waits());
        self.whole.is_none() && self.next.is_none() && !waits && self.rest.is_end_stream()
    }
}
