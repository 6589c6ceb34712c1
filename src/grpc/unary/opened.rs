//! The body of a call, and what was read of it before it is known who answers.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::{
    HeaderMap,
    body::{Body, Bytes, Frame, Incoming},
};
use tokio::time::{Sleep, sleep_until};
use tonic::codegen::StdError;

use super::{
    super::{deadline::Begun, status},
    PREFIX,
};

type Read = Result<Frame<Bytes>, StdError>;

/// The body of a call.
pub(in super::super) struct Opened {
    /// A frame that is a whole message.
    whole: Option<Bytes>,
    /// What came after it, or in its place.
    next: Option<Read>,
    rest: Incoming,
    /// Where it is waited for: since when, and until when.
    deadline: Option<(Begun, Pin<Box<Sleep>>)>,
}

impl Opened {
    pub(super) fn new(rest: Incoming) -> Opened {
        Opened { whole: None, next: None, rest, deadline: None }
    }

    /// The call's message, if a frame holds it whole and nothing comes after it. `None` leaves
    /// the call to tonic.
    pub(super) async fn message(&mut self, headers: &HeaderMap) -> Option<Bytes> {
        // As a rule it is there already, and no clock is looked at.
        if let Poll::Ready(message) = poll_fn(|cx| Poll::Ready(self.poll_message(cx))).await {
            return message;
        }
        self.await_by_deadline(headers);
        poll_fn(|cx| self.poll_message(cx)).await
    }

    /// From now on what does not come by the deadline of the call that begins with these
    /// headers is an error; since when it is waited for.
    pub(super) fn await_by_deadline(&mut self, headers: &HeaderMap) -> Begun {
        let start = || {
            let begun = Begun::now();
            (begun, Box::pin(sleep_until(begun.deadline(headers).into())))
        };
        self.deadline.get_or_insert_with(start).0
    }

    /// Since when it was waited for, if it was.
    pub(super) fn begun(&self) -> Option<Begun> {
        self.deadline.as_ref().map(|(begun, _)| *begun)
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
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
        Poll::Ready(self.whole.take().map(|mut frame| frame.split_off(PREFIX)))
    }

    /// Leaves a call to tonic, with what was read of it.
    fn leave(&mut self, next: Read) -> Poll<Option<Bytes>> {
        self.next = Some(next);
        Poll::Ready(None)
    }

    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Option<Read>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.rest).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some((_, deadline)) = &mut self.deadline else { return Poll::Pending };
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Some(Err(status::not_all_said().into())))
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
        self.whole.is_none() && self.next.is_none() && self.rest.is_end_stream()
    }
}
