//! Selects the service of a call by its path.
//!
//! Tollgate's own services are called directly from the HTTP/2 connection. In tonic, a call passes
//! a URL router and seven more layers, and its body is boxed three times: about a tenth of the cost
//! of a call. Health and reflection still use tonic. The handler enforces the deadline of a call;
//! until the message is complete, the body does.

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
use tonic::{Status, body::Body, codegen::Service as _};

use super::{
    AdmissionHandlers, EnvoyHandlers, LockHandlers, MESSAGE_BYTES_MAX, RateHandlers,
    SequenceHandlers, StockHandlers,
    access::{Access, Peer, REFLECTION, Service},
    fast_path::{self, AnswerBody, Answering, FastPath, Opened, Served},
    held::ConnectionBudget,
    identity::CertificateNames,
    load,
    protocol::{self, Preamble},
    rpcs::{self, Rpc},
    rules::CurrentRules,
    scope::Origin,
    status,
    traced::TracedCall,
    traces::{ServerSpan, Tracer},
};
use tollgate_core::names::Name;
use tollgate_engine::{Engine, budget::PeerConnection};
use tollgate_telemetry::metrics::CountedCall;

/// The most bytes of a refused message that are read, and the time for it.
const DENIED_BYTES_MAX: usize = 64 * 1024;
const DENIED_TIME_MAX: Duration = Duration::from_secs(1);

/// A service whose calls are not only tonic's.
trait RoutedService: fmt::Debug + Send + Sync {
    /// Serves a call of a connection.
    fn call(
        self: Arc<Self>,
        rpc: &'static Rpc,
        request: Request<Incoming>,
        preamble: &Preamble,
        holding: &Arc<ConnectionBudget>,
        call: CountedCall,
    ) -> Answering;

    /// Serves a call of the console.
    #[cfg(feature = "console")]
    fn call_in_process(
        self: Arc<Self>,
        rpc: &'static Rpc,
        request: Request<Body>,
        origin: Origin,
    ) -> tollgate_console::Called;
}

impl<T, S> RoutedService for Served<T, S>
where
    T: FastPath + fmt::Debug + Send + 'static,
    S: tonic::codegen::Service<Request<Opened>, Response = Response<Body>, Error = Infallible>,
    S: tonic::codegen::Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + fmt::Debug + Send + Sync + 'static,
    <S as tonic::codegen::Service<Request<Opened>>>::Future: Send,
    <S as tonic::codegen::Service<Request<Body>>>::Future: Send,
{
    fn call(
        self: Arc<Self>,
        rpc: &'static Rpc,
        request: Request<Incoming>,
        preamble: &Preamble,
        holding: &Arc<ConnectionBudget>,
        call: CountedCall,
    ) -> Answering {
        fast_path::call(self, rpc, request, preamble, holding, call)
    }

    #[cfg(feature = "console")]
    fn call_in_process(
        self: Arc<Self>,
        rpc: &'static Rpc,
        request: Request<Body>,
        origin: Origin,
    ) -> tollgate_console::Called {
        super::tonic_call::call(self, rpc, request, origin)
    }
}

/// All services of a server.
#[derive(Debug, Clone)]
pub struct Routes {
    /// The services by their number. `None` for `AdminService`, which is among the others.
    services: Arc<[Option<Arc<dyn RoutedService>>; Service::ALL.len()]>,
    admission: Arc<AdmissionHandlers>,
    /// Health, reflection and `AdminService`, which tonic answers.
    others: tonic::service::Routes,
    access: Arc<Access>,
    /// Samples calls; `None` if no spans are exported.
    tracer: Option<Tracer>,
}

/// The services for one connection.
#[derive(Debug)]
pub struct ConnectionServices {
    routes: Routes,
    /// What the connection holds: bytes of requests and answers, and open streams.
    holding: Arc<ConnectionBudget>,
    /// The names in the client certificate, and the credentials that the connection used last.
    peer: Peer,
}

impl Routes {
    /// Creates the services of an engine. `others` are health, reflection and
    /// `AdminService`.
    pub fn new(
        engine: &Arc<Engine>,
        rules: &Arc<CurrentRules>,
        others: tonic::service::Routes,
        access: Arc<Access>,
    ) -> Routes {
        let admission = Arc::new(AdmissionHandlers::new(engine.clone(), rules.clone()));
        let lock = Arc::new(LockHandlers::new(engine.clone()));
        let rate = Arc::new(RateHandlers::new(engine.clone(), rules.clone()));
        let sequence = Arc::new(SequenceHandlers::new(engine.clone(), rules.clone()));
        let stock = Arc::new(StockHandlers::new(engine.clone()));
        let envoy = Arc::new(EnvoyHandlers::new(engine.clone(), rules.clone()));
        let services = Service::ALL.map(|service| -> Option<Arc<dyn RoutedService>> {
            let service: Arc<dyn RoutedService> = match service {
                Service::Admission => Served::new(admission.clone(), AdmissionHandlers::server),
                Service::Lock => Served::new(lock.clone(), LockHandlers::server),
                Service::Rate => Served::new(rate.clone(), RateHandlers::server),
                Service::Sequence => Served::new(sequence.clone(), SequenceHandlers::server),
                Service::Stock => Served::new(stock.clone(), StockHandlers::server),
                Service::Envoy => Served::new(envoy.clone(), EnvoyHandlers::server),
                Service::Admin => return None,
            };
            Some(service)
        });
        let (services, others) = (Arc::new(services), others.prepare());
        Routes { services, admission, others, access, tracer: None }
    }

    /// The service of an RPC; `None` if tonic answers it.
    fn service(&self, rpc: &Rpc) -> Option<Arc<dyn RoutedService>> {
        self.services[rpc.service as usize].clone()
    }

    /// Calls the service of a request whose rights are checked.
    #[cfg(feature = "console")]
    pub(super) fn call_in_process(
        &self,
        request: Request<Body>,
        origin: Origin,
    ) -> tollgate_console::Called {
        let rpc = rpcs::of(request.uri().path());
        if let Some((rpc, service)) = rpc.and_then(|rpc| Some((rpc, self.service(rpc)?))) {
            return service.call_in_process(rpc, request, origin);
        }
        let mut others = self.others.clone();
        Box::pin(async move { others.call(request).await })
    }

    /// Returns how many AdmitTask calls for a pool this server has answered FULL.
    pub fn refused(&self, pool: &Name) -> u64 {
        self.admission.refused(pool)
    }

    /// Records spans of sampled calls.
    #[must_use]
    pub fn with_tracer(self, tracer: Option<Tracer>) -> Routes {
        Routes { tracer, ..self }
    }

    /// Returns the services for a new connection of a peer. `certificate` has the names in its
    /// verified client certificate, if it has presented one.
    pub fn connection(
        &self,
        peer: PeerConnection,
        certificate: Option<Arc<CertificateNames>>,
    ) -> ConnectionServices {
        ConnectionServices {
            holding: ConnectionBudget::new(peer),
            routes: self.clone(),
            peer: Peer::new(certificate),
        }
    }
}

impl ConnectionServices {
    /// Returns the accounting of the connection: its bytes and streams.
    pub fn holding(&self) -> Arc<ConnectionBudget> {
        self.holding.clone()
    }

    /// Calls health, reflection or `AdminService` through tonic.
    fn other(&self, request: Request<Incoming>, call: CountedCall) -> Answering {
        let (mut others, holding) = (self.routes.others.clone(), self.holding.clone());
        let (head, body) = request.into_parts();
        if self.routes.access.hides_reflection() && head.uri.path().starts_with(REFLECTION) {
            let path = protocol::repeated(head.uri.path().as_bytes());
            return answer(call, status::unknown_rpc(&path).into_http());
        }
        let mut body = Opened::new(body, holding.clone(), MESSAGE_BYTES_MAX);
        body.await_by_deadline(&head.headers, holding.message_timeout());
        // Health and AdminService are answered whatever the length of the queue. Reflection goes
        // the same way, because it is cheap and rare.
        load::go_first();
        let path = head.uri.clone();
        Box::pin(async move {
            let (holds, refusal) = (body.holds(), body.refusal());
            let answer = others.call(Request::from_parts(head, Body::new(body))).await?;
            drop(holds);
            Ok(fast_path::counted(call, fast_path::retyped(&path, answer, holding, None, refusal)))
        })
    }
}

/// Answers a call at once.
fn answer(call: CountedCall, response: Response<AnswerBody>) -> Answering {
    Box::pin(ready(Ok(fast_path::counted(call, response))))
}

/// Answers a call that is refused. Takes the rest of a short message first, because some clients
/// report the reset of an unfinished request in place of its answer.
fn denied(refused: &Status, mut body: Incoming) -> Answering {
    let response = refused.clone().into_http();
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
        // On timeout the client gets its answer all the same.
        let _ = timeout(DENIED_TIME_MAX, rest).await;
        Ok(response)
    })
}

impl hyper::service::Service<Request<Incoming>> for ConnectionServices {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answering;

    /// Always ready: there is no `poll_ready`.
    fn call(&self, request: Request<Incoming>) -> Answering {
        let Some(tracer) = &self.routes.tracer else { return self.answer(request, None) };
        match tracer.start(request.uri().path(), request.headers()) {
            None => self.answer(request, None),
            Some(mut span) => {
                let _entered = span.enter();
                let answering = self.answer(request, Some(&mut span));
                Box::pin(TracedCall::new(span, answering))
            }
        }
    }
}

impl ConnectionServices {
    /// Answers a call; `span` is for a sampled one.
    fn answer(&self, mut request: Request<Incoming>, span: Option<&mut ServerSpan>) -> Answering {
        let known = rpcs::find(request.uri().path());
        let call = CountedCall::start(known.position);
        let preamble = match protocol::read(&request) {
            Ok(preamble) => preamble,
            Err(refusal) => return answer(call, *refusal),
        };
        let ConnectionServices { routes, holding, peer } = self;
        if !holding.may_open() {
            return answer(call, status::too_many_streams().into_http());
        }
        if routes.access.is_open() {
            if let Some(span) = span {
                span.describe(&mut request, &Origin::default());
            }
            return self.dispatch(known.rpc.as_ref(), request, &preamble, call);
        }
        let granted = match routes.access.check(request.uri().path(), request.headers(), peer) {
            Ok(granted) => granted,
            Err(refused) => {
                call.end(refused.code() as i32);
                return denied(&refused, request.into_body());
            }
        };
        if let Some(scope) = granted.scope {
            request.extensions_mut().insert(scope);
        }
        if let Some(watched) = granted.watched {
            request.extensions_mut().insert(watched);
        }
        if let Some(span) = span {
            span.describe(&mut request, &granted.origin);
        }
        preamble.origin.replace(granted.origin);
        let answering = self.dispatch(known.rpc.as_ref(), request, &preamble, call);
        let Some(audited) = granted.audited else { return answering };
        Box::pin(async move {
            let answer = answering.await?;
            audited.end(answer.headers());
            Ok(answer)
        })
    }

    /// Calls the service of an RPC.
    fn dispatch(
        &self,
        rpc: Option<&'static Rpc>,
        request: Request<Incoming>,
        preamble: &Preamble,
        call: CountedCall,
    ) -> Answering {
        let service = rpc.and_then(|rpc| Some((rpc, self.routes.service(rpc)?)));
        match service {
            Some((rpc, service)) => service.call(rpc, request, preamble, &self.holding, call),
            None => self.other(request, call),
        }
    }
}
