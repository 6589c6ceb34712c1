//! Selects the service of a call by its path.
//!
//! The services of a program are called directly from the HTTP/2 connection. In tonic, a call
//! passes through a URL router and seven more layers, and its body is boxed three times, which is
//! about a tenth of the cost of a call. Health and reflection still use tonic. The body enforces
//! the deadline of a call until the message is complete, and the handler enforces it afterwards.

use std::{
    convert::Infallible,
    fmt,
    future::{poll_fn, ready},
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

use hyper::{
    Request, Response,
    body::{Body as _, Incoming},
};
use tokio::time::timeout;
use tonic::{Status, body::Body, codegen::Service as TonicService};

use crate::{
    fast_path::{self, AnswerBody, Answering, FastPath, PendingCall, RequestBody, Served},
    identity::CertificateNames,
    peers::PeerConnection,
    permits::ConnectionBudget,
    program::{Authorized, Program, Route, SampledCall},
    protocol, shedding,
    traced::TracedCall,
};
use tollgate_telemetry::metrics::CountedCall;

/// Maximum message size of the services of the tonic router, bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of bytes of a denied call's message that are read, and the time for that.
const DENIED_BYTES_MAX: usize = 64 * 1024;
const DENIED_TIME_MAX: Duration = Duration::from_secs(1);

/// The future answer to an in-process call.
pub type InProcessAnswer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// A service whose calls bypass the tonic router.
trait RoutedService<P: Program>: fmt::Debug + Send + Sync {
    /// Serves a call of a connection.
    fn call(self: Arc<Self>, call: PendingCall<'_, P>) -> Answering;

    /// Serves an in-process call.
    fn call_in_process(&self, request: Request<Body>) -> InProcessAnswer;
}

impl<P, T, S> RoutedService<P> for Served<P, T, S>
where
    P: Program,
    T: FastPath,
    S: TonicService<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + fmt::Debug + Send + Sync + 'static,
    S::Future: Send,
{
    fn call(self: Arc<Self>, call: PendingCall<'_, P>) -> Answering {
        fast_path::call(self, call)
    }

    fn call_in_process(&self, request: Request<Body>) -> InProcessAnswer {
        let mut tonic = self.tonic.clone();
        Box::pin(async move { tonic.call(request).await })
    }
}

/// A service of a [`Router`].
#[derive(Debug)]
pub struct Service<P>(Arc<dyn RoutedService<P>>);

impl<P: Program> Service<P> {
    /// Creates a service from its handlers, which `tonic` wraps for calls that do not take the fast
    /// path.
    pub fn new<T, S>(program: &Arc<P>, handlers: Arc<T>, tonic: fn(Arc<T>) -> S) -> Service<P>
    where
        T: FastPath,
        S: TonicService<Request<Body>, Response = Response<Body>, Error = Infallible>,
        S: Clone + fmt::Debug + Send + Sync + 'static,
        S::Future: Send,
    {
        let tonic = tonic(handlers.clone());
        Service(Arc::new(Served { program: program.clone(), handlers, tonic }))
    }
}

/// All services of a server. Clones share them.
#[derive(Debug)]
pub struct Router<P>(Arc<RouterState<P>>);

#[derive(Debug)]
struct RouterState<P> {
    program: Arc<P>,
    /// The services by index. `None` for a service that is among the others.
    services: Vec<Option<Service<P>>>,
    /// Health, reflection and other services that tonic answers.
    others: tonic::service::Routes,
}

impl<P> Clone for Router<P> {
    fn clone(&self) -> Router<P> {
        Router(self.0.clone())
    }
}

impl<P: Program> Router<P> {
    /// Creates a router. [`Route::service`] is the index in `services`, which contains `None` for a
    /// service that is among the others. tonic serves the calls to `others`.
    pub fn new(
        program: Arc<P>,
        services: Vec<Option<Service<P>>>,
        others: tonic::service::Routes,
    ) -> Router<P> {
        Router(Arc::new(RouterState { program, services, others: others.prepare() }))
    }

    /// Returns the program.
    pub fn program(&self) -> &Arc<P> {
        &self.0.program
    }

    /// Returns the service of an RPC; `None` if tonic serves it.
    fn service(&self, route: &Route) -> Option<&Arc<dyn RoutedService<P>>> {
        self.0.services.get(route.service?)?.as_ref().map(|service| &service.0)
    }

    /// Whether an RPC belongs to a service outside the tonic router.
    pub fn has_service(&self, route: &Route) -> bool {
        self.service(route).is_some()
    }

    /// Calls an RPC within the process, through tonic. The caller must already have checked the
    /// rights and the quota of the call.
    pub fn call_in_process(&self, route: &Route, request: Request<Body>) -> InProcessAnswer {
        if let Some(service) = self.service(route) {
            return service.call_in_process(request);
        }
        let mut others = self.0.others.clone();
        Box::pin(async move { others.call(request).await })
    }

    /// Returns the services for a new connection of a peer. `certificate` contains the names in its
    /// verified client certificate, if it has presented one.
    pub(crate) fn connection(
        &self,
        peer: PeerConnection,
        certificate: Option<Arc<CertificateNames>>,
    ) -> ConnectionServices<P> {
        let program = self.program();
        ConnectionServices {
            budget: ConnectionBudget::new(peer, program.rejections()),
            connection: program.connect(certificate),
            router: self.clone(),
        }
    }
}

/// The services for one connection.
#[derive(Debug)]
pub(crate) struct ConnectionServices<P: Program> {
    router: Router<P>,
    /// The permits of the connection: bytes of requests and answers, and open streams.
    budget: Arc<ConnectionBudget>,
    /// The program's state for the connection.
    connection: P::Connection,
}

impl<P: Program> ConnectionServices<P> {
    /// Returns the permits of the connection.
    pub(crate) fn budget(&self) -> &Arc<ConnectionBudget> {
        &self.budget
    }

    /// Returns the program.
    pub(crate) fn program(&self) -> &P {
        self.router.program()
    }

    /// Calls a service of the tonic router.
    fn call_other(&self, request: Request<Incoming>, call: CountedCall) -> Answering {
        let budget = self.budget.clone();
        let (head, body) = request.into_parts();
        if self.program().is_hidden(head.uri.path()) {
            let path = protocol::quoted(head.uri.path().as_bytes());
            return answer(call, budget.rejections().unknown_rpc(&path).into_http());
        }
        let mut body = RequestBody::new(body, budget.clone(), MESSAGE_BYTES_MAX);
        body.await_by_deadline(&head.headers, budget.message_timeout());
        // Health and services for operators are answered however long the queue is. Reflection is
        // treated the same, because it is cheap and rare.
        shedding::mark_first();
        let mut others = self.router.0.others.clone();
        let path = head.uri.clone();
        Box::pin(async move {
            let (permits, early_end) = (body.permits(), body.early_end());
            let answer = others.call(Request::from_parts(head, Body::new(body))).await?;
            drop(permits);
            let answer = fast_path::retyped(&path, answer, budget, None, early_end);
            Ok(fast_path::counted(call, answer))
        })
    }
}

/// Answers a call immediately.
fn answer(call: CountedCall, response: Response<AnswerBody>) -> Answering {
    Box::pin(ready(Ok(fast_path::counted(call, response))))
}

/// Answers a call that its caller is not allowed to make. Reads the rest of a short message first,
/// because some clients report the reset of an unfinished request in place of its answer.
fn denied(status: &Status, mut body: Incoming) -> Answering {
    let response = status.clone().into_http();
    if body.is_end_stream() {
        return Box::pin(ready(Ok(response)));
    }
    Box::pin(async move {
        let mut left = DENIED_BYTES_MAX;
        let rest = poll_fn(|cx| {
            while let Some(Ok(frame)) = task::ready!(Pin::new(&mut body).poll_frame(cx)) {
                let bytes = frame.data_ref().map_or(0, |data| data.len());
                let Some(rest) = left.checked_sub(bytes) else { break };
                left = rest;
            }
            Poll::Ready(())
        });
        // On timeout, the client is answered anyway.
        let _ = timeout(DENIED_TIME_MAX, rest).await;
        Ok(response)
    })
}

impl<P: Program> hyper::service::Service<Request<Incoming>> for ConnectionServices<P> {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answering;

    /// Always ready: there is no `poll_ready`.
    fn call(&self, request: Request<Incoming>) -> Answering {
        match self.program().sample(request.uri().path(), request.headers()) {
            None => self.answer(request, None),
            Some(mut span) => {
                let _entered = span.enter();
                let answering = self.answer(request, Some(&mut span));
                Box::pin(TracedCall::new(span, answering))
            }
        }
    }
}

impl<P: Program> ConnectionServices<P> {
    /// Answers a call; `span` is set if it is sampled.
    fn answer(&self, mut request: Request<Incoming>, span: Option<&mut P::Span>) -> Answering {
        let (program, budget) = (self.program(), &self.budget);
        let route = program.route(request.uri().path());
        let call = CountedCall::start(route.position);
        let preamble = match protocol::parse_headers(&request, budget.rejections()) {
            Ok(preamble) => preamble,
            Err(rejection) => return answer(call, *rejection),
        };
        if !budget.may_open() {
            return answer(call, budget.rejections().too_many_streams().into_http());
        }
        let authorized = program.authorize(&self.connection, &mut request, span);
        let Authorized { caller, observer } = match authorized {
            Ok(authorized) => authorized,
            Err(status) => {
                call.end(status.code() as i32);
                return denied(&status, request.into_body());
            }
        };
        let answering = match self.router.service(route) {
            None => self.call_other(request, call),
            Some(service) => service.clone().call(PendingCall {
                connection: &self.connection,
                budget,
                route,
                preamble,
                caller,
                request,
                counted: call,
            }),
        };
        let Some(observer) = observer else { return answering };
        Box::pin(async move {
            let answer = answering.await?;
            observer.observe(answer.headers());
            Ok(answer)
        })
    }
}
