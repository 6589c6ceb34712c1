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

use super::{
    super::{
        held::{self, ConnectionBudget, LARGE, Permits},
        status,
        traces::ServerSpan,
    },
    PREFIX,
    unfinished::Refusal,
};
use tollgate_engine::Unreceived;
use tollgate_telemetry::{limits::ReachedLimit, metrics::CountedCall};

pub(super) const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");

/// Encodes an answer with its gRPC prefix.
pub(in crate::grpc) fn framed<A: Message>(answer: tonic::Response<A>) -> tonic::Response<Vec<u8>> {
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

/// The body of an answer: message, trailers, and accounting of unread bytes.
#[derive(Debug, Default)]
pub struct AnswerBody(Rest);

/// The part of an answer that is still to be sent. Small, because the task of a stream contains it,
/// and takes a fast path of mimalloc up to 256 bytes.
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
    /// Parts that may be large.
    Counted(Box<Counted>),
}

/// An answer whose large parts count until they are sent.
#[derive(Debug)]
struct Counted {
    source: NextPart,
    /// The accounting of the connection.
    holding: Arc<ConnectionBudget>,
    /// The permit of a listing, until its answer is sent.
    _listing: Option<Permits>,
    /// The grant of a call that has waited, until its message is sent.
    grant: Option<Unreceived>,
    /// Completes when the last large part, or the message with the grant, is sent.
    sending: Option<oneshot::Receiver<()>>,
    /// The call, until its status is known.
    call: Option<CountedCall>,
    /// The span of a sampled call, until its status is known.
    span: Option<Box<ServerSpan>>,
}

/// The next part of a [`Counted`] answer.
#[derive(Debug)]
enum NextPart {
    /// A message with its prefix, then the status OK.
    Message(Bytes),
    /// The status OK.
    Status,
    /// Nothing.
    Done,
    /// A body of tonic, and the error that ends its request early.
    Tonic(tonic::body::Body, Option<Refusal>),
}

/// Returns the end of an answer with an error.
fn error(status: &Status) -> Frame<Bytes> {
    let mut trailers = HeaderMap::new();
    // The message is ASCII, so it fits into a header.
    let _ = status.add_header(&mut trailers);
    Frame::trailers(trailers)
}

/// The status code in headers or trailers, without a copy of the status; `None` if it follows
/// later.
pub(in super::super) fn code_of(headers: &HeaderMap) -> Option<Code> {
    headers.get(STATUS).map(|status| Code::from_bytes(status.as_bytes()))
}

/// The status code of trailers.
fn code(end: &Frame<Bytes>) -> Code {
    end.trailers_ref().and_then(code_of).unwrap_or(Code::Unknown)
}

/// Returns the end of an answer with the status OK.
fn ok() -> Frame<Bytes> {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(STATUS, OK);
    Frame::trailers(trailers)
}

impl AnswerBody {
    /// Creates a body with a framed message and the status OK.
    pub(super) fn message(
        message: Vec<u8>,
        holding: Arc<ConnectionBudget>,
        grant: Option<Unreceived>,
    ) -> AnswerBody {
        if message.len() < LARGE && grant.is_none() {
            return AnswerBody(Rest::Message(message));
        }
        AnswerBody::counted(NextPart::Message(message.into()), holding, None, grant)
    }

    /// Creates a body with a text for a client that does not speak gRPC.
    pub(in super::super) fn text(text: String) -> AnswerBody {
        AnswerBody(Rest::Text(text))
    }

    /// Wraps a body of tonic; `listing` is the permit if it answers a listing. A `refusal` of the
    /// request replaces the status, because services of streams end a refused one with OK.
    pub(in super::super) fn other(
        body: tonic::body::Body,
        holding: Arc<ConnectionBudget>,
        listing: Option<Permits>,
        refusal: Option<Refusal>,
        grant: Option<Unreceived>,
    ) -> AnswerBody {
        AnswerBody::counted(NextPart::Tonic(body, refusal), holding, listing, grant)
    }

    /// Counts the end of a call when its status is handed on.
    pub(in super::super) fn count(&mut self, call: CountedCall) {
        match &mut self.0 {
            Rest::Counted(counted) if matches!(counted.source, NextPart::Tonic(..)) => {
                counted.call = Some(call);
            }
            // The client has cancelled the call.
            Rest::Done => drop(call),
            _ => call.end(0),
        }
    }

    /// Ends the span of a call when its status is handed on.
    pub(in super::super) fn end_with(&mut self, span: Box<ServerSpan>) {
        match &mut self.0 {
            Rest::Counted(counted) if matches!(counted.source, NextPart::Tonic(..)) => {
                counted.span = Some(span);
            }
            // The client has cancelled the call.
            Rest::Done => drop(span),
            _ => span.end(Code::Ok),
        }
    }

    fn counted(
        source: NextPart,
        holding: Arc<ConnectionBudget>,
        listing: Option<Permits>,
        grant: Option<Unreceived>,
    ) -> AnswerBody {
        AnswerBody(Rest::Counted(Box::new(Counted {
            source,
            holding,
            _listing: listing,
            grant,
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

    /// Returns a part as a frame and accounts for it. A large part without space ends the answer
    /// with DEADLINE_EXCEEDED, because the call was executed.
    fn give(&mut self, data: Bytes) -> Frame<Bytes> {
        let is_large = data.len() >= LARGE;
        if !is_large && self.grant.is_none() {
            held::give();
            return Frame::data(data);
        }
        let hold = if is_large { self.holding.answer(data.len()) } else { None };
        if is_large && hold.is_none() {
            ReachedLimit::AnswerBytes.record();
            self.source = NextPart::Done;
            let dropped = status::answer_dropped(data.len());
            self.end(dropped.code());
            return error(&dropped);
        }
        held::give();
        let (sent, sending) = oneshot::channel();
        self.sending = Some(sending);
        Frame::data(Bytes::from_owner(UnsentPart { data, _hold: hold, _sent: sent }))
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(sending) = &mut self.sending {
            // The stream must stay open until then. Its task resets it after the answer timeout.
            let _ = ready!(Pin::new(sending).poll(cx));
            self.sending = None;
            if let Some(grant) = self.grant.take() {
                grant.receive();
            }
        }
        if let NextPart::Tonic(body, refusal) = &mut self.source {
            let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else {
                held::sent();
                return Poll::Pending;
            };
            return Poll::Ready(match frame {
                Some(Ok(frame)) => Some(Ok(match frame.into_data() {
                    Ok(data) => self.give(data),
                    Err(end) => {
                        let end = match refusal.as_ref().and_then(|refusal| refusal.get()) {
                            Some(refusal) => error(refusal),
                            None => end,
                        };
                        self.end(code(&end));
                        end
                    }
                })),
                ended => ended,
            });
        }
        Poll::Ready(match mem::replace(&mut self.source, NextPart::Done) {
            NextPart::Message(message) => {
                self.source = NextPart::Status;
                Some(Ok(self.give(message)))
            }
            NextPart::Status => Some(Ok(ok())),
            _ => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        let is_over = match &self.source {
            NextPart::Tonic(body, _) => body.is_end_stream(),
            NextPart::Done => true,
            _ => false,
        };
        is_over && self.sending.is_none()
    }
}

/// A large part of an answer, or a message with a grant. The bytes of a large part count until it is
/// sent or its stream is reset.
struct UnsentPart {
    data: Bytes,
    _hold: Option<Permits>,
    /// Dropped with the data, which completes `sending`.
    _sent: oneshot::Sender<()>,
}

impl AsRef<[u8]> for UnsentPart {
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
                held::give();
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
