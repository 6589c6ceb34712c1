//! The body of an answer.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use hyper::{
    HeaderMap,
    body::{Body, Bytes, Frame},
    header::{HeaderName, HeaderValue},
};
use tokio::sync::oneshot;
use tonic::Status;

use super::{
    super::{
        held::{Hold, Holding, LARGE},
        status,
    },
    unfinished::Refusal,
};
use crate::decision::budget::{self, Limit};

pub(super) const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");

/// The body of an answer: message, trailers, and accounting of unread bytes.
#[derive(Debug, Default)]
pub struct AnswerBody {
    rest: Rest,
    /// The accounting of the connection; `None` for a text or an empty answer.
    holding: Option<Arc<Holding>>,
    /// The permit of a listing, until its answer is sent.
    _listing: Option<Hold>,
    /// Completes when the last large part is sent.
    sending: Option<oneshot::Receiver<()>>,
}

/// The part of an answer that is still to be sent.
#[derive(Debug, Default)]
enum Rest {
    /// A message, then the status OK.
    Message(Bytes),
    /// The status OK.
    Status,
    /// A text for a client that does not speak gRPC.
    Text(Bytes),
    /// Nothing.
    #[default]
    Done,
    /// A body of tonic, and the error that ends its request early.
    Other(tonic::body::Body, Option<Refusal>),
}

/// Returns the end of an answer with an error.
fn error(status: &Status) -> Frame<Bytes> {
    let mut trailers = HeaderMap::new();
    // The message is ASCII, so it fits into a header.
    let _ = status.add_header(&mut trailers);
    Frame::trailers(trailers)
}

impl AnswerBody {
    /// Creates a body with a framed message and the status OK.
    pub(super) fn message(message: Bytes, holding: Arc<Holding>) -> AnswerBody {
        AnswerBody { rest: Rest::Message(message), holding: Some(holding), ..AnswerBody::default() }
    }

    /// Creates a body with a text for a client that does not speak gRPC.
    pub(in super::super) fn text(text: String) -> AnswerBody {
        AnswerBody { rest: Rest::Text(text.into()), ..AnswerBody::default() }
    }

    /// Wraps a body of tonic; `listing` is the permit if it answers a listing. A `refusal` of the
    /// request replaces the status, because services of streams end a refused one with OK.
    pub(in super::super) fn other(
        body: tonic::body::Body,
        holding: Arc<Holding>,
        listing: Option<Hold>,
        refusal: Option<Refusal>,
    ) -> AnswerBody {
        AnswerBody {
            rest: Rest::Other(body, refusal),
            holding: Some(holding),
            _listing: listing,
            sending: None,
        }
    }

    /// Returns a part as a frame and accounts for it. A large part without space ends the answer
    /// with DEADLINE_EXCEEDED, because the call was executed.
    fn give(&mut self, data: Bytes) -> Frame<Bytes> {
        let Some(holding) = &self.holding else { return Frame::data(data) };
        if data.len() < LARGE {
            holding.give();
            return Frame::data(data);
        }
        let Some(hold) = holding.answer(data.len()) else {
            budget::note(Limit::AnswerBytes);
            self.rest = Rest::Done;
            return error(&status::answer_dropped(data.len()));
        };
        holding.give();
        let (sent, sending) = oneshot::channel();
        self.sending = Some(sending);
        Frame::data(Bytes::from_owner(Unsent { data, _hold: hold, _sent: sent }))
    }
}

/// A large part of an answer. Its bytes count until it is sent or its stream is reset.
struct Unsent {
    data: Bytes,
    _hold: Hold,
    /// Dropped with the data, which completes `sending`.
    _sent: oneshot::Sender<()>,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(sending) = &mut self.sending {
            // The stream must stay open until then. Its task resets it after the answer timeout.
            let _ = ready!(Pin::new(sending).poll(cx));
            self.sending = None;
        }
        if let Rest::Other(body, refusal) = &mut self.rest {
            let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else {
                if let Some(holding) = &self.holding {
                    holding.sent();
                }
                return Poll::Pending;
            };
            return Poll::Ready(match frame {
                Some(Ok(frame)) => Some(Ok(match frame.into_data() {
                    Ok(data) => self.give(data),
                    Err(end) => match refusal.as_ref().and_then(|refusal| refusal.get()) {
                        Some(refusal) => error(refusal),
                        None => end,
                    },
                })),
                ended => ended,
            });
        }
        let frame = match mem::take(&mut self.rest) {
            Rest::Message(message) => {
                self.rest = Rest::Status;
                Some(Ok(self.give(message)))
            }
            Rest::Status => {
                let mut trailers = HeaderMap::with_capacity(1);
                trailers.insert(STATUS, OK);
                Some(Ok(Frame::trailers(trailers)))
            }
            Rest::Text(text) => Some(Ok(Frame::data(text))),
            _ => None,
        };
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.rest {
            Rest::Other(body, _) => self.sending.is_none() && body.is_end_stream(),
            Rest::Done => self.sending.is_none(),
            _ => false,
        }
    }
}
