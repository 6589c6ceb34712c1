//! The fast path of unary calls whose message is complete in one HTTP/2 frame: nearly all calls.
//!
//! tonic is made for streams: it boxes the body, the decoder and the answer, and copies messages
//! into a buffer. Without the fast path a call on the embedded engine takes 23 to 25 % more
//! instructions of the server (benches/EXPERIMENTS.md). Here a message is decoded in place, and
//! names are slices of the connection's read buffer. A message that is split or followed by more
//! data goes through tonic, together with the bytes that were already read. A message that is
//! compressed with gzip is decompressed first, on both paths.

pub(super) mod answer;
mod counted;
mod gzip;
mod messages;
mod opened;
mod retyped;
mod unfinished;

use std::{convert::Infallible, future::ready, pin::Pin, sync::Arc};

use hyper::{
    HeaderMap, Request, Response,
    body::{Bytes, Incoming},
    header::CONTENT_TYPE,
    http::request::Parts,
};
use tokio::time::timeout;
use tonic::{
    Code, Status,
    codegen::Service,
    metadata::{GRPC_CONTENT_TYPE, MetadataMap},
};

use super::{
    codec,
    deadline::{self, DEFAULT},
    elements, failed,
    held::{ConnectionBudget, Permits},
    load::{self, QueuedCall},
    protocol::{self, ENCODING, Encoding, Preamble},
    quota,
    rpcs::Rpc,
    scope::Origin,
    status::{self, from_error},
};
pub use answer::AnswerBody;
pub(super) use answer::framed;
pub(super) use counted::counted;
pub(super) use opened::Opened;
pub(super) use retyped::retyped;
use tollgate_core::error::Error;
use tollgate_engine::{Engine, Unreceived};
use tollgate_telemetry::{limits::ReachedLimit, metrics::CountedCall};

/// The switch of the fast path. Without it all calls go through tonic, with the same answers.
const IS_ON: bool = true;
/// Maximum frame size that the server accepts, bytes. A longer message comes in several frames;
/// tonic checks the maximum of its service.
pub const FRAME_BYTES_MAX: u32 = 16 * 1024;
/// Length of the gRPC prefix of a message, bytes: the compression flag and the message length.
const PREFIX: usize = 5;

/// A service with methods on the fast path.
pub(super) trait FastPath: Sync {
    /// The longest message of a request, compressed or not.
    const MESSAGE_BYTES_MAX: usize;

    /// The engine of the service.
    fn engine(&self) -> &Engine;

    /// Decodes a message, calls the handler of a method, and encodes the answer. `method` is
    /// [`Rpc::fast_path`].
    fn answer(
        &self,
        method: usize,
        request: tonic::Request<Bytes>,
    ) -> impl Future<Output = Result<tonic::Response<Vec<u8>>, Status>> + Send;
}

/// Implements [`FastPath`] for a service, with its methods and their handlers. The build script
/// generates the calls of this macro.
macro_rules! fast_path {
    ($service:ty, { $($method:literal => $handler:ident),* $(,)? }) => {
        impl super::fast_path::FastPath for $service {
            const MESSAGE_BYTES_MAX: usize = <$service>::MESSAGE_BYTES_MAX;

            fn engine(&self) -> &tollgate_engine::Engine {
                &self.engine
            }

            async fn answer(
                &self,
                method: usize,
                request: tonic::Request<bytes::Bytes>,
            ) -> Result<tonic::Response<Vec<u8>>, tonic::Status> {
                match method {
                    $($method => {
                        let handled =
                            super::fast_path::handled(request, |request| self.$handler(request))?;
                        handled.await.map(super::fast_path::framed)
                    })*
                    // Unreachable: the table of RPCs has only these numbers.
                    _ => Err(tonic::Status::unimplemented("")),
                }
            }
        }
    };
}
pub(super) use fast_path;

/// Decodes the message of a request and passes it to its handler. Not async: the future of a call
/// would store the request twice.
pub(super) fn handled<Q: elements::Request, F>(
    request: tonic::Request<Bytes>,
    handle: impl FnOnce(tonic::Request<Q>) -> F,
) -> Result<F, Status> {
    let (metadata, extensions, message) = request.into_parts();
    let message = codec::decode(message)?;
    Ok(handle(tonic::Request::from_parts(metadata, extensions, message)))
}

/// A service, and its tonic server.
#[derive(Debug)]
pub(super) struct Served<T, S> {
    service: Arc<T>,
    tonic: S,
}

impl<T, S> Served<T, S> {
    pub(super) fn new(service: Arc<T>, tonic: fn(Arc<T>) -> S) -> Arc<Served<T, S>> {
        Arc::new(Served { tonic: tonic(service.clone()), service })
    }

    #[cfg(feature = "console")]
    pub(super) fn service(&self) -> &T {
        &self.service
    }

    /// A clone of the tonic server.
    #[cfg(feature = "console")]
    pub(super) fn tonic(&self) -> S
    where
        S: Clone,
    {
        self.tonic.clone()
    }
}

/// The response of a call that may have waited, with its grant until the response is written.
pub(super) fn granting<T>(message: T, grant: Option<Unreceived>) -> tonic::Response<T> {
    let mut response = tonic::Response::new(message);
    if let Some(grant) = grant {
        response.extensions_mut().insert(grant);
    }
    response
}

/// The future response of a call.
pub(super) type Answering =
    Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, Infallible>> + Send>>;

/// Serves a call of a service, on the fast path or through tonic.
///
/// Refuses it first if its namespace has reached a limit, the server is overloaded, or the
/// connection holds too many unread answers.
/// The message must be complete by the deadline of the call.
pub(super) fn call<T, S>(
    served: Arc<Served<T, S>>,
    rpc: &'static Rpc,
    request: Request<Incoming>,
    preamble: &Preamble,
    holding: &Arc<ConnectionBudget>,
    call: CountedCall,
) -> Answering
where
    T: FastPath + Send + 'static,
    S: Service<Request<Opened>, Response = Response<tonic::body::Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let (mut head, body) = request.into_parts();
    let mut body = Opened::new(body, holding.clone(), T::MESSAGE_BYTES_MAX);
    let held = match quota::enter(served.service.engine(), rpc, &head.extensions, holding) {
        Ok(held) => held,
        Err(error) => return limited(rpc, error, head, body, &preamble.origin.take(), call),
    };
    let ticket = load::enter(rpc.frees_capacity, preamble.timeout, &head.extensions);
    let (encoding, origin) = (preamble.encoding, preamble.origin.take());
    if ticket.as_ref().is_none_or(QueuedCall::is_timed) {
        if body.is_reset() {
            load::go_first();
            return Box::pin(ready(Ok(Response::new(AnswerBody::default()))));
        }
        if ticket.is_none() {
            load::go_first();
            return refused(head.headers, body, load::refusal(), call);
        }
    }
    // One box holds the whole call, and no value is stored twice, because the box is allocated per
    // call.
    Box::pin(async move {
        if !ticket.is_none_or(QueuedCall::start) {
            return refused(head.headers, body, load::refusal(), call).await;
        }
        if encoding == Encoding::Gzip {
            // Decompresses what it reads.
            body.await_by_deadline(&head.headers, DEFAULT);
        }
        if IS_ON
            && let Some(method) = rpc.fast_path
            && encoding != Encoding::Unknown
            && let Some(message) = body.message(&head.headers, DEFAULT).await
        {
            if let Some(begun) = body.begun() {
                head.extensions.insert(begun);
            }
            // Dropped early, because it keeps the read buffer of the connection, and an answer can
            // take a minute.
            drop(head.uri);
            let (holding, holds) = body.end();
            if !holding.may_answer() {
                return Ok(counted(call, refuse_unread()));
            }
            let metadata = MetadataMap::from_headers(head.headers);
            let request = tonic::Request::from_parts(metadata, head.extensions, message);
            let answer = served.service.answer(method, request).await;
            drop((holds, held));
            call.end(answer.as_ref().map_or_else(|status| status.code() as i32, |_| 0));
            let answer = answer.inspect_err(|status| log_failure(rpc, &origin, status));
            return Ok(answered(answer, holding));
        }
        let answer = by_tonic(served, rpc, head, body, origin, call).await;
        drop(held);
        answer
    })
}

/// Serves a call through tonic. Boxed, as [`refused`] is: the future of the fast path must stay
/// below 1 KiB, from where on mimalloc takes three times as long.
fn by_tonic<T, S>(
    served: Arc<Served<T, S>>,
    rpc: &'static Rpc,
    mut head: Parts,
    mut body: Opened,
    origin: Origin,
    call: CountedCall,
) -> Answering
where
    T: FastPath + Send + 'static,
    S: Service<Request<Opened>, Response = Response<tonic::body::Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    Box::pin(async move {
        if body.is_reset() {
            // The client has cancelled the call.
            return Ok(Response::new(AnswerBody::default()));
        }
        head.extensions.insert(body.await_by_deadline(&head.headers, DEFAULT));
        let (holding, holds) = (body.holding().clone(), body.holds());
        let is_listing = rpc.is_listing();
        let listing = if is_listing { listing(&holding, &head.headers).await } else { None };
        if !(listing.is_some() || !is_listing && holding.may_answer()) {
            return Ok(counted(call, refuse_unread()));
        }
        let path = head.uri.clone();
        let answer = served.tonic.clone().call(Request::from_parts(head, body)).await?;
        drop(holds);
        let answer = retyped(&path, answer, holding, listing, None);
        if answer::code_of(answer.headers()).is_some_and(|code| code != Code::Ok)
            && let Some(status) = Status::from_header_map(answer.headers())
        {
            log_failure(rpc, &origin, &status);
        }
        Ok(counted(call, answer))
    })
}

/// Logs a failed call.
fn log_failure(rpc: &Rpc, origin: &Origin, status: &Status) {
    failed::note(rpc.service.full_name(), rpc.name, origin, status);
}

/// Refuses a call because its namespace has reached a limit.
fn limited(
    rpc: &Rpc,
    error: Error,
    head: Parts,
    body: Opened,
    origin: &Origin,
    call: CountedCall,
) -> Answering {
    let status = from_error(error);
    log_failure(rpc, origin, &status);
    refused(head.headers, body, status.into_http(), call)
}

/// Refuses a call with this answer. Waits for its message first: an earlier answer would reset the
/// stream, and some clients report that as a failure.
fn refused(
    headers: HeaderMap,
    mut body: Opened,
    answer: Response<AnswerBody>,
    call: CountedCall,
) -> Answering {
    let answer = counted(call, answer);
    Box::pin(async move {
        body.message(&headers, DEFAULT).await;
        Ok(answer)
    })
}

/// Whether the messages of a request can be compressed with gzip.
fn is_gzip(headers: &HeaderMap) -> bool {
    headers.get(ENCODING).is_some_and(|encoding| encoding == protocol::GZIP)
}

/// Waits until the caller has taken enough answers of other listings; `None` on timeout.
async fn listing(holding: &ConnectionBudget, headers: &HeaderMap) -> Option<Permits> {
    let patience = deadline::timeout(headers).unwrap_or(DEFAULT).min(holding.answer_timeout());
    timeout(patience, holding.listing()).await.ok().flatten()
}

/// Refuses a call because its connection or the server holds too many unread answers.
fn refuse_unread() -> Response<AnswerBody> {
    ReachedLimit::AnswerBytes.record();
    status::answers_not_taken().into_http()
}

/// Builds the response of a fast-path call.
fn answered(
    answer: Result<tonic::Response<Vec<u8>>, Status>,
    holding: Arc<ConnectionBudget>,
) -> Response<AnswerBody> {
    let (metadata, message, mut extensions) = match answer {
        Ok(answer) => answer.into_parts(),
        Err(status) => return status.into_http(),
    };
    let grant = extensions.remove();
    let mut response = Response::new(AnswerBody::message(message, holding, grant));
    *response.headers_mut() = metadata.into_headers();
    *response.extensions_mut() = extensions;
    response.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
    response
}
