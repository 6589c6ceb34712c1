//! A call with one message, answered by one, as nearly all are: the message whole in a frame.
//!
//! tonic's way is made for streams: it boxes the body, the decoder and the answer, and
//! gathers messages in a buffer, a tenth of what a call costs. Here a message is decoded as it
//! came: names are slices of what its connection has read. One that is in pieces, compressed,
//! or not alone goes tonic's way, with what was read of it. No frame is as long as a message
//! may be: bounds are tonic's to keep.

use std::{
    convert::Infallible,
    future::poll_fn,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use hyper::{
    HeaderMap, Request, Response,
    body::{Body, Bytes, Frame, Incoming, SizeHint},
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use prost::Message;
use tokio::time::timeout;
use tonic::{
    Status,
    codegen::Service,
    metadata::{GRPC_CONTENT_TYPE, MetadataMap},
};

use super::{codec, deadline};

const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");
/// Before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A service with methods that are answered here.
pub(super) trait Unary: Sync {
    /// Whether this method is.
    fn has(method: &str) -> bool;

    /// Decodes a message, has it answered, and encodes the answer.
    fn answer(
        &self,
        method: &str,
        request: tonic::Request<Bytes>,
    ) -> impl Future<Output = Result<tonic::Response<Bytes>, Status>> + Send;
}

/// The methods of a service that are answered here, and their handlers.
macro_rules! unary {
    ($service:ty { $($method:literal => $handler:ident),* $(,)? }) => {
        impl super::unary::Unary for $service {
            fn has(method: &str) -> bool {
                matches!(method, $($method)|*)
            }

            async fn answer(
                &self,
                method: &str,
                request: tonic::Request<bytes::Bytes>,
            ) -> Result<tonic::Response<bytes::Bytes>, tonic::Status> {
                match method {
                    $($method => {
                        super::unary::with(request, |request| self.$handler(request)).await
                    })*
                    // Nobody asks for what it has not.
                    _ => Err(tonic::Status::unimplemented(method)),
                }
            }
        }
    };
}
pub(super) use unary;

/// Answers what a message says.
pub(super) async fn with<Q, A, F>(
    request: tonic::Request<Bytes>,
    handle: impl FnOnce(tonic::Request<Q>) -> F,
) -> Result<tonic::Response<Bytes>, Status>
where
    Q: Message + Default,
    A: Message,
    F: Future<Output = Result<tonic::Response<A>, Status>>,
{
    let (metadata, extensions, message) = request.into_parts();
    let message = codec::decode(message)?;
    let answer = handle(tonic::Request::from_parts(metadata, extensions, message)).await?;
    Ok(answer.map(|answer| framed(&answer)))
}

/// A service, and the same to tonic.
#[derive(Debug)]
pub(super) struct Served<T, S> {
    service: Arc<T>,
    tonic: S,
}

impl<T, S> Served<T, S> {
    pub(super) fn new(service: T, tonic: fn(Arc<T>) -> S) -> Arc<Served<T, S>> {
        let service = Arc::new(service);
        Arc::new(Served { tonic: tonic(service.clone()), service })
    }
}

/// The answer to a call.
pub(super) type Answering =
    Pin<Box<dyn Future<Output = Result<Response<Reply>, Infallible>> + Send>>;

/// Answers a call of a service: here, or as tonic does.
pub(super) fn call<T, S>(served: &Arc<Served<T, S>>, request: Request<Incoming>) -> Answering
where
    T: Unary + Send + 'static,
    S: Service<Request<Opened>, Response = Response<tonic::body::Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let served = served.clone();
    let (head, body) = request.into_parts();
    let mut body = Opened { whole: None, next: None, rest: body };
    // One box for all of it, and nothing in it twice: what a call takes is moved with it.
    Box::pin(async move {
        let method = head.uri.path().splitn(3, '/').nth(2).unwrap_or_default();
        if T::has(method) && !head.headers.contains_key(ENCODING) {
            match body.message(&head.headers).await {
                Ok(Some(message)) => {
                    let metadata = MetadataMap::from_headers(head.headers);
                    let request = tonic::Request::from_parts(metadata, head.extensions, message);
                    return Ok(reply(served.service.answer(method, request).await));
                }
                Ok(None) => {}
                Err(status) => return Ok(status.into_http()),
            }
        }
        let answer = served.tonic.clone().call(Request::from_parts(head, body));
        Ok(answer.await?.map(Reply::Other))
    })
}

fn reply(answer: Result<tonic::Response<Bytes>, Status>) -> Response<Reply> {
    let (metadata, message, extensions) = match answer {
        Ok(answer) => answer.into_parts(),
        Err(status) => return status.into_http(),
    };
    let mut response = Response::new(Reply::Message(message));
    *response.headers_mut() = metadata.into_headers();
    *response.extensions_mut() = extensions;
    response.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
    response
}

/// A message as it goes over the wire.
fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(PREFIX + length);
    bytes.push(0);
    // No answer is near 4 GiB.
    bytes.extend_from_slice(&(length as u32).to_be_bytes());
    message.encode_raw(&mut bytes);
    bytes.into()
}

/// The body of a call, and what was read of it already.
pub(super) struct Opened {
    /// A frame that is a whole message.
    whole: Option<Bytes>,
    /// What came after it, or in its place.
    next: Option<Result<Frame<Bytes>, hyper::Error>>,
    rest: Incoming,
}

impl Opened {
    /// The call's message, if a frame holds it whole and nothing comes after it; by the
    /// deadline of the call that begins with these headers.
    async fn message(&mut self, headers: &HeaderMap) -> Result<Option<Bytes>, Status> {
        // As a rule it is there already, and no clock is looked at.
        if let Poll::Ready(message) = poll_fn(|cx| Poll::Ready(self.poll_message(cx))).await {
            return Ok(message);
        }
        let message = poll_fn(|cx| self.poll_message(cx));
        let late = |_| Status::deadline_exceeded("no message has come by the call's deadline");
        // Boxed: calls whose message is there must not pay for it.
        Box::pin(timeout(deadline::of_reading(headers), message)).await.map_err(late)
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while self.whole.is_none() || !self.rest.is_end_stream() {
            match ready!(Pin::new(&mut self.rest).poll_frame(cx)) {
                None => break,
                Some(Ok(frame)) => match frame.into_data() {
                    // The end of a stream in a frame of its own, say.
                    Ok(data) if data.is_empty() => {}
                    Ok(data) if self.whole.is_none() && is_whole(&data) => self.whole = Some(data),
                    Ok(data) => return self.leave(Ok(Frame::data(data))),
                    Err(frame) => return self.leave(Ok(frame)),
                },
                Some(Err(error)) => return self.leave(Err(error)),
            }
        }
        Poll::Ready(self.whole.take().map(|mut frame| frame.split_off(PREFIX)))
    }

    /// Leaves a call to tonic, with what was read of it.
    fn leave(&mut self, next: Result<Frame<Bytes>, hyper::Error>) -> Poll<Option<Bytes>> {
        self.next = Some(next);
        Poll::Ready(None)
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
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let read = self.whole.take().map(|data| Ok(Frame::data(data)));
        match read.or_else(|| self.next.take()) {
            Some(frame) => Poll::Ready(Some(frame)),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.whole.is_none() && self.next.is_none() && self.rest.is_end_stream()
    }
}

/// What is sent in answer to a call, after its headers.
#[derive(Debug, Default)]
pub enum Reply {
    /// A message, and that all is well.
    Message(Bytes),
    /// That all is well.
    Status,
    /// Nothing more.
    #[default]
    Done,
    /// What tonic has answered.
    Other(tonic::body::Body),
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Reply::Other(body) = &mut *self {
            return Pin::new(body).poll_frame(cx);
        }
        let frame = match mem::take(&mut *self) {
            Reply::Message(message) => {
                *self = Reply::Status;
                Some(Ok(Frame::data(message)))
            }
            Reply::Status => {
                let mut trailers = HeaderMap::with_capacity(1);
                trailers.insert(STATUS, OK);
                Some(Ok(Frame::trailers(trailers)))
            }
            _ => None,
        };
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Reply::Other(body) => body.is_end_stream(),
            Reply::Done => true,
            _ => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Reply::Other(body) => body.size_hint(),
            _ => SizeHint::default(),
        }
    }
}
