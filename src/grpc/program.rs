//! Tollgate as the program whose calls `tollgate_http` carries.

use std::{sync::Arc, time::Duration};

use hyper::{HeaderMap, Request, body::Incoming, http::Extensions};
use tollgate_http::{
    AnswerObserver, Authorized, CertificateNames, Program, Rejections, Route, SampledCall,
};
use tonic::{Code, Status};

use super::{
    access::{Access, Audited, Peer, REFLECTION},
    failed,
    quota::{self, ConnectionQuota},
    rpcs,
    scope::Origin,
    status::{DOMAIN, from_error},
    traces::{ServerSpan, Tracer},
};
use tollgate_core::waiting::WAIT_MAX;
use tollgate_engine::{Engine, budget::Held, worker};
use tollgate_telemetry::spans::Entered;

/// The errors of calls that the transport rejects.
static REJECTIONS: Rejections = Rejections::new(
    "Tollgate",
    DOMAIN,
    "4 MiB is the maximum of AdmissionService, 1 MiB of RateService and of Envoy's service, 64 KiB of \
     the others",
);

/// The rights, the quotas and the spans of calls.
#[derive(Debug)]
pub(crate) struct Tollgate {
    engine: Arc<Engine>,
    access: Arc<Access>,
    /// Samples calls; `None` if no spans are exported.
    tracer: Option<Tracer>,
}

/// A connection between its calls.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    /// The names in the client certificate, and the credentials that the connection used last.
    peer: Peer,
    quota: ConnectionQuota,
}

impl Tollgate {
    pub(super) fn new(
        engine: Arc<Engine>,
        access: Arc<Access>,
        tracer: Option<Tracer>,
    ) -> Tollgate {
        Tollgate { engine, access, tracer }
    }

    #[cfg(any(feature = "console", test, fuzzing))]
    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl Program for Tollgate {
    type Connection = ConnectionState;
    type Caller = Origin;
    type InFlight = Option<Held>;
    type Span = ServerSpan;

    const CALL_TIME_MAX: Duration = WAIT_MAX.duration();

    fn rejections(&self) -> &'static Rejections {
        &REJECTIONS
    }

    fn enter_thread(&self, number: usize) {
        worker::enter(number);
    }

    fn connect(&self, certificate: Option<Arc<CertificateNames>>) -> ConnectionState {
        ConnectionState { peer: Peer::new(certificate), quota: ConnectionQuota::default() }
    }

    fn route(&self, path: &str) -> &'static Route {
        &rpcs::find(path).route
    }

    fn sample(&self, path: &str, headers: &HeaderMap) -> Option<Box<ServerSpan>> {
        self.tracer.as_ref()?.start(path, headers)
    }

    fn authorize(
        &self,
        connection: &ConnectionState,
        request: &mut Request<Incoming>,
        span: Option<&mut ServerSpan>,
    ) -> Result<Authorized<Origin>, Status> {
        if self.access.is_open() {
            if let Some(span) = span {
                span.describe(request, &Origin::default());
            }
            return Ok(Authorized::default());
        }
        let (path, headers) = (request.uri().path(), request.headers());
        let granted = self.access.check(path, headers, &connection.peer)?;
        if let Some(scope) = granted.scope {
            request.extensions_mut().insert(scope);
        }
        if let Some(watched) = granted.watched {
            request.extensions_mut().insert(watched);
        }
        if let Some(span) = span {
            span.describe(request, &granted.origin);
        }
        let observer = granted.audited.map(|audited| audited as Box<dyn AnswerObserver>);
        Ok(Authorized { caller: granted.origin, observer })
    }

    fn is_hidden(&self, path: &str) -> bool {
        self.access.hides_reflection() && path.starts_with(REFLECTION)
    }

    fn admit(
        &self,
        connection: &ConnectionState,
        route: &Route,
        extensions: &Extensions,
    ) -> Result<Option<Held>, Status> {
        quota::admit(&self.engine, route, extensions, &connection.quota).map_err(from_error)
    }

    fn tenant<'e>(&self, extensions: &'e Extensions) -> &'e [u8] {
        quota::prefix(extensions)
    }

    fn log_failure(&self, route: &Route, caller: &Origin, status: &Status) {
        let labels = rpcs::labels(route);
        failed::log(labels.service, labels.method, caller, status);
    }
}

impl AnswerObserver for Audited {
    fn observe(self: Box<Self>, headers: &HeaderMap) {
        self.end(headers);
    }
}

impl SampledCall for ServerSpan {
    fn enter(&self) -> Entered {
        self.enter()
    }

    fn end(self: Box<Self>, code: Code) {
        ServerSpan::end(*self, code);
    }
}
