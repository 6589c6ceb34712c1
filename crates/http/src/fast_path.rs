//! The fast path of unary calls whose message is complete in one HTTP/2 frame: nearly all calls.
//!
//! tonic is designed for streams: it boxes the body, the decoder and the answer, and copies
//! messages into a buffer. Without the fast path, a call on the embedded engine costs the server 23
//! to 25 % more instructions (benches/EXPERIMENTS.md). Here a message is decoded in place, and
//! names are slices of the connection's read buffer. A message that is split or followed by more
//! data goes through tonic, together with the bytes that were already read. A message that is
//! compressed with gzip is decompressed first, on both paths.

mod answer;
mod counted;
mod gzip;
mod messages;
mod request_body;
mod retyped;
mod unfinished;

use std::{convert::Infallible, fmt, future::ready, pin::Pin, sync::Arc};

use hyper::{
    HeaderMap, Request, Response,
    body::{Bytes, Incoming},
    header::CONTENT_TYPE,
    http::request::Parts,
};
use tokio::time::timeout;
use tonic::{
    Code, Status,
    body::Body,
    codegen::Service as TonicService,
    metadata::{GRPC_CONTENT_TYPE, MetadataMap},
};

use crate::{
    deadline::{self, DEFAULT},
    permits::{ConnectionBudget, Permits},
    program::{Program, Route},
    protocol::{self, ENCODING, Encoding, Preamble},
    shedding::{self, QueuedCall},
};
pub use answer::AnswerBody;
pub(crate) use answer::code_of;
pub use answer::frame;
pub(crate) use counted::counted;
pub(crate) use request_body::RequestBody;
pub(crate) use retyped::retyped;
use tollgate_telemetry::{limits::ReachedLimit, metrics::CountedCall};

/// Enables the fast path. If it is off, all calls go through tonic, with the same answers.
const IS_ON: bool = true;
/// Maximum frame size that the server accepts, bytes. A longer message arrives in several frames;
/// tonic checks the maximum of its service.
pub(crate) const FRAME_BYTES_MAX: u32 = 16 * 1024;
/// Length of the gRPC prefix of a message, bytes: the compression flag and the message length.
const PREFIX: usize = 5;

/// A service with methods on the fast path.
pub trait FastPath: fmt::Debug + Send + Sync + 'static {
    /// The longest message of a request, compressed or not.
    const MESSAGE_BYTES_MAX: usize;

    /// Decodes a message, calls the handler of a method, and encodes the answer with [`frame`].
    /// `method` is [`Route::fast_path`].
    fn answer(
        &self,
        method: usize,
        request: tonic::Request<Bytes>,
    ) -> impl Future<Output = Result<tonic::Response<Vec<u8>>, Status>> + Send;
}

/// A service, its tonic server, and its program.
#[derive(Debug)]
pub(crate) struct Served<P, T, S> {
    pub(crate) program: Arc<P>,
    pub(crate) handlers: Arc<T>,
    pub(crate) tonic: S,
}

/// A call whose rights are checked.
pub(crate) struct PendingCall<'a, P: Program> {
    pub(crate) connection: &'a P::Connection,
    pub(crate) budget: &'a Arc<ConnectionBudget>,
    pub(crate) route: &'static Route,
    pub(crate) preamble: Preamble,
    pub(crate) caller: P::Caller,
    pub(crate) request: Request<Incoming>,
    pub(crate) counted: CountedCall,
}

/// The future response of a call.
pub(crate) type Answering =
    Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, Infallible>> + Send>>;

/// Serves a call of a service, on the fast path or through tonic.
///
/// Rejects it immediately if its tenant has used up a quota, the server is overloaded, or the
/// connection has too many unread answers. The message must be complete by the deadline of the
/// call.
pub(crate) fn call<P, T, S>(served: Arc<Served<P, T, S>>, call: PendingCall<'_, P>) -> Answering
where
    P: Program,
    T: FastPath,
    S: TonicService<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let PendingCall { connection, budget, route, preamble, caller, request, counted: call } = call;
    let (mut head, body) = request.into_parts();
    let mut body = RequestBody::new(body, budget.clone(), T::MESSAGE_BYTES_MAX);
    let program = &*served.program;
    let in_flight = match program.admit(connection, route, &head.extensions) {
        Ok(in_flight) => in_flight,
        Err(status) => {
            program.log_failure(route, &caller, &status);
            return rejected(head.headers, body, status.into_http(), call);
        }
    };
    let tenant = || program.tenant(&head.extensions);
    let queued = shedding::enqueue(route.frees_capacity, preamble.timeout, tenant);
    if queued.as_ref().is_none_or(QueuedCall::is_timed) {
        if body.is_reset() {
            shedding::mark_first();
            return Box::pin(ready(Ok(Response::new(AnswerBody::default()))));
        }
        if queued.is_none() {
            shedding::mark_first();
            return rejected(head.headers, body, shedding::overloaded(budget.rejections()), call);
        }
    }
    // One box contains the whole call, and no value is stored twice, because the box is allocated per
    // call.
    Box::pin(async move {
        if !queued.is_none_or(QueuedCall::start) {
            let answer = shedding::overloaded(body.budget().rejections());
            return rejected(head.headers, body, answer, call).await;
        }
        if preamble.encoding == Encoding::Gzip {
            // Decompresses the data as it is read.
            body.await_by_deadline(&head.headers, DEFAULT);
        }
        if IS_ON
            && let Some(method) = route.fast_path
            && preamble.encoding != Encoding::Unknown
            && let Some(message) = body.message(&head.headers, DEFAULT).await
        {
            if let Some(start) = body.start() {
                head.extensions.insert(start);
            }
            // Dropped early, because it keeps the read buffer of the connection alive, and an
            // answer can take a minute.
            drop(head.uri);
            let (budget, permits) = body.end();
            if !budget.may_answer() {
                return Ok(counted(call, reject_unread(&budget)));
            }
            let metadata = MetadataMap::from_headers(head.headers);
            let request = tonic::Request::from_parts(metadata, head.extensions, message);
            let answer = served.handlers.answer(method, request).await;
            drop((permits, in_flight));
            call.end(answer.as_ref().map_or_else(|status| status.code() as i32, |_| 0));
            let log = |status: &Status| served.program.log_failure(route, &caller, status);
            return Ok(answered(answer.inspect_err(log), budget));
        }
        let answer = by_tonic(served, route, head, body, caller, call).await;
        drop(in_flight);
        answer
    })
}

/// Serves a call through tonic. Boxed, as [`rejected`] is: the future of the fast path must stay
/// below 1 KiB, because mimalloc takes three times as long for larger allocations.
fn by_tonic<P, T, S>(
    served: Arc<Served<P, T, S>>,
    route: &'static Route,
    mut head: Parts,
    mut body: RequestBody,
    caller: P::Caller,
    call: CountedCall,
) -> Answering
where
    P: Program,
    T: FastPath,
    S: TonicService<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    Box::pin(async move {
        if body.is_reset() {
            // The client has cancelled the call.
            return Ok(Response::new(AnswerBody::default()));
        }
        head.extensions.insert(body.await_by_deadline(&head.headers, DEFAULT));
        let (budget, permits) = (body.budget().clone(), body.permits());
        let listing = if route.is_listing { listing(&budget, &head.headers).await } else { None };
        if !(listing.is_some() || !route.is_listing && budget.may_answer()) {
            return Ok(counted(call, reject_unread(&budget)));
        }
        let path = head.uri.clone();
        let answer = served.tonic.clone().call(Request::from_parts(head, Body::new(body))).await?;
        drop(permits);
        let answer = retyped(&path, answer, budget, listing, None);
        if code_of(answer.headers()).is_some_and(|code| code != Code::Ok)
            && let Some(status) = Status::from_header_map(answer.headers())
        {
            served.program.log_failure(route, &caller, &status);
        }
        Ok(counted(call, answer))
    })
}

/// Rejects a call with this answer. Waits for its message first: an earlier answer would reset the
/// stream, and some clients report that as a failure.
fn rejected(
    headers: HeaderMap,
    mut body: RequestBody,
    answer: Response<AnswerBody>,
    call: CountedCall,
) -> Answering {
    let answer = counted(call, answer);
    Box::pin(async move {
        body.message(&headers, DEFAULT).await;
        Ok(answer)
    })
}

/// Whether the messages of a request may be compressed with gzip.
fn is_gzip(headers: &HeaderMap) -> bool {
    headers.get(ENCODING).is_some_and(|encoding| encoding == protocol::GZIP)
}

/// Waits until the caller has read enough answers to other listings. Returns `None` on timeout.
async fn listing(budget: &ConnectionBudget, headers: &HeaderMap) -> Option<Permits> {
    let patience = deadline::timeout(headers).unwrap_or(DEFAULT).min(budget.answer_timeout());
    timeout(patience, budget.listing()).await.ok().flatten()
}

/// Rejects a call because its connection or the server has too many unread answers.
fn reject_unread(budget: &ConnectionBudget) -> Response<AnswerBody> {
    ReachedLimit::AnswerBytes.record();
    budget.rejections().answers_not_read().into_http()
}

/// Builds the response of a fast-path call.
fn answered(
    answer: Result<tonic::Response<Vec<u8>>, Status>,
    budget: Arc<ConnectionBudget>,
) -> Response<AnswerBody> {
    let (metadata, message, mut extensions) = match answer {
        Ok(answer) => answer.into_parts(),
        Err(status) => return status.into_http(),
    };
    let on_sent = extensions.remove();
    let mut response = Response::new(AnswerBody::message(message, budget, on_sent));
    *response.headers_mut() = metadata.into_headers();
    *response.extensions_mut() = extensions;
    response.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
    response
}
