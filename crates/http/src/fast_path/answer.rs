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
use prost::Message;
use tokio::sync::oneshot;
use tonic::{Code, Status};

use super::{PREFIX, unfinished::EarlyEnd};
use crate::{
    on_sent::OnSent,
    permits::{ConnectionBudget, LARGE, Permits},
    program::SampledCall,
    unsent,
};
use tollgate_telemetry::{limits::ReachedLimit, metrics::CountedCall};

pub(super) const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");

/// Encodes an answer with its gRPC prefix.
pub fn frame<A: Message>(answer: tonic::Response<A>) -> tonic::Response<Vec<u8>> {
    answer.map(|message| encoded(&message))
}

fn encoded(message: &impl Message) -> Vec<u8> {
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(PREFIX + length);
    bytes.push(0);
    // No answer is near 4 GiB.
    bytes.extend_from_slice(&(length as u32).to_be_bytes());
    message.encode_raw(&mut bytes);
    bytes
}

/// The body of an answer: its message and trailers, and the accounting of unread bytes.
#[derive(Debug, Default)]
pub struct AnswerBody(Rest);

/// The part of an answer that is still to be sent. It is small because it is part of the task of a
/// stream, which mimalloc allocates on a fast path up to 256 bytes.
#[derive(Debug, Default)]
enum Rest {
    /// A short message with its prefix, then the status OK.
    Message(Vec<u8>),
    /// The status OK.
    Status,
    /// A text for a client that does not speak gRPC.
    Text(String),
    /// Nothing.
    #[default]
    Done,
    /// Chunks that may be large, with their accounting.
    Counted(Box<Counted>),
}

/// An answer whose large chunks count until they are sent.
#[derive(Debug)]
struct Counted {
    source: NextChunk,
    /// The accounting of the connection.
    budget: Arc<ConnectionBudget>,
    /// The permit of a listing, which is kept until its answer is sent.
    _listing: Option<Permits>,
    /// The action to run when the message is sent.
    on_sent: Option<OnSent>,
    /// Completes when the last large chunk, or the message with the action, is sent.
    sending: Option<oneshot::Receiver<()>>,
    /// The call, until its status is known.
    call: Option<CountedCall>,
    /// The span of a sampled call, until its status is known.
    span: Option<Box<dyn SampledCall>>,
}

/// The next chunk of a [`Counted`] answer.
#[derive(Debug)]
enum NextChunk {
    /// A message with its prefix, then the status OK.
    Message(Bytes),
    /// The status OK.
    Status,
    /// Nothing.
    Done,
    /// A body from tonic, and the error that ends its request early.
    Tonic(tonic::body::Body, Option<EarlyEnd>),
}

/// Returns the trailers of an answer that ends with an error.
fn error(status: &Status) -> Frame<Bytes> {
    let mut trailers = HeaderMap::new();
    // The message is ASCII, so it fits into a header.
    let _ = status.add_header(&mut trailers);
    Frame::trailers(trailers)
}

/// Returns the status code in headers or trailers without copying the status; `None` if it follows
/// later.
pub(crate) fn code_of(headers: &HeaderMap) -> Option<Code> {
    headers.get(STATUS).map(|status| Code::from_bytes(status.as_bytes()))
}

/// Returns the status code of trailers.
fn code(end: &Frame<Bytes>) -> Code {
    end.trailers_ref().and_then(code_of).unwrap_or(Code::Unknown)
}

/// Returns the trailers of an answer with the status OK.
fn ok() -> Frame<Bytes> {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(STATUS, OK);
    Frame::trailers(trailers)
}

impl AnswerBody {
    /// Creates a body with a framed message and the status OK.
    pub(super) fn message(
        message: Vec<u8>,
        budget: Arc<ConnectionBudget>,
        on_sent: Option<OnSent>,
    ) -> AnswerBody {
        if message.len() < LARGE && on_sent.is_none() {
            return AnswerBody(Rest::Message(message));
        }
        AnswerBody::counted(NextChunk::Message(message.into()), budget, None, on_sent)
    }

    /// Creates a body with a text for a client that does not speak gRPC.
    pub(crate) fn text(text: String) -> AnswerBody {
        AnswerBody(Rest::Text(text))
    }

    /// Wraps a body from tonic; `listing` is the permit if it answers a listing. An `early_end` of
    /// the request replaces the status, because streaming services end a rejected stream with OK.
    pub(crate) fn other(
        body: tonic::body::Body,
        budget: Arc<ConnectionBudget>,
        listing: Option<Permits>,
        early_end: Option<EarlyEnd>,
        on_sent: Option<OnSent>,
    ) -> AnswerBody {
        AnswerBody::counted(NextChunk::Tonic(body, early_end), budget, listing, on_sent)
    }

    /// Counts the end of a call when its status is passed to hyper.
    pub(crate) fn count(&mut self, call: CountedCall) {
        match &mut self.0 {
            Rest::Counted(counted) if matches!(counted.source, NextChunk::Tonic(..)) => {
                counted.call = Some(call);
            }
            // The client has cancelled the call.
            Rest::Done => drop(call),
            _ => call.end(0),
        }
    }

    /// Ends the span of a call when its status is passed to hyper.
    pub(crate) fn end_with(&mut self, span: Box<dyn SampledCall>) {
        match &mut self.0 {
            Rest::Counted(counted) if matches!(counted.source, NextChunk::Tonic(..)) => {
                counted.span = Some(span);
            }
            // The client has cancelled the call.
            Rest::Done => drop(span),
            _ => span.end(Code::Ok),
        }
    }

    fn counted(
        source: NextChunk,
        budget: Arc<ConnectionBudget>,
        listing: Option<Permits>,
        on_sent: Option<OnSent>,
    ) -> AnswerBody {
        AnswerBody(Rest::Counted(Box::new(Counted {
            source,
            budget,
            _listing: listing,
            on_sent,
            sending: None,
            call: None,
            span: None,
        })))
    }
}

impl Counted {
    /// Counts the end of the call, and ends its span.
    fn end(&mut self, code: Code) {
        if let Some(call) = self.call.take() {
            call.end(code as i32);
        }
        if let Some(span) = self.span.take() {
            span.end(code);
        }
    }

    /// Returns a chunk as a frame and accounts for it. If there are no permits for a large chunk,
    /// the answer ends with DEADLINE_EXCEEDED, because the call was already executed.
    fn frame(&mut self, data: Bytes) -> Frame<Bytes> {
        let is_large = data.len() >= LARGE;
        if !is_large && self.on_sent.is_none() {
            unsent::record_chunk();
            return Frame::data(data);
        }
        let permits = if is_large { self.budget.answer(data.len()) } else { None };
        if is_large && permits.is_none() {
            ReachedLimit::AnswerBytes.record();
            self.source = NextChunk::Done;
            let dropped = self.budget.rejections().answer_dropped(data.len());
            self.end(dropped.code());
            return error(&dropped);
        }
        unsent::record_chunk();
        let (sent, sending) = oneshot::channel();
        self.sending = Some(sending);
        Frame::data(Bytes::from_owner(UnsentChunk { data, _permits: permits, _sent: sent }))
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(sending) = &mut self.sending {
            // The stream must stay open until then. Its task resets it after the answer timeout.
            let _ = ready!(Pin::new(sending).poll(cx));
            self.sending = None;
            if let Some(action) = self.on_sent.take() {
                action.run();
            }
        }
        if let NextChunk::Tonic(body, early_end) = &mut self.source {
            let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else {
                unsent::record_all_sent();
                return Poll::Pending;
            };
            return Poll::Ready(match frame {
                Some(Ok(frame)) => Some(Ok(match frame.into_data() {
                    Ok(data) => self.frame(data),
                    Err(end) => {
                        let end = match early_end.as_ref().and_then(|end| end.get()) {
                            Some(early) => error(early),
                            None => end,
                        };
                        self.end(code(&end));
                        end
                    }
                })),
                ended => ended,
            });
        }
        Poll::Ready(match mem::replace(&mut self.source, NextChunk::Done) {
            NextChunk::Message(message) => {
                self.source = NextChunk::Status;
                Some(Ok(self.frame(message)))
            }
            NextChunk::Status => Some(Ok(ok())),
            _ => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        let is_over = match &self.source {
            NextChunk::Tonic(body, _) => body.is_end_stream(),
            NextChunk::Done => true,
            _ => false,
        };
        is_over && self.sending.is_none()
    }
}

/// A large chunk of an answer, or a message with an action. The bytes of a large chunk count until it is
/// sent or its stream is reset.
struct UnsentChunk {
    data: Bytes,
    _permits: Option<Permits>,
    /// Dropped together with the data, which completes `sending`.
    _sent: oneshot::Sender<()>,
}

impl AsRef<[u8]> for UnsentChunk {
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
        if let Rest::Counted(counted) = &mut self.0 {
            return counted.poll_frame(cx);
        }
        let frame = match mem::take(&mut self.0) {
            Rest::Message(message) => {
                self.0 = Rest::Status;
                unsent::record_chunk();
                Some(Ok(Frame::data(message.into())))
            }
            Rest::Status => Some(Ok(ok())),
            Rest::Text(text) => Some(Ok(Frame::data(text.into()))),
            _ => None,
        };
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Rest::Counted(counted) => counted.is_end_stream(),
            Rest::Done => true,
            _ => false,
        }
    }
}
