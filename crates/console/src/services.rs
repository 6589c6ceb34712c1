//! The services of the server, called within the process.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hyper::{HeaderMap, Request, Response, header::HeaderValue};
use tollgate_core::names::Namespace;
use tonic::{body::Body, codegen::Service};

/// The future response to a call.
pub type Called = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// A caller that has signed in to the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleCaller {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it may choose its namespace.
    pub chooses_namespace: bool,
}

/// What the console needs from its server: its services, and the rights of a caller. Credentials
/// are passed as the headers of a call.
pub trait Services: fmt::Debug + Send + Sync + 'static {
    /// Whether the server has no callers, so that anyone may do anything.
    fn is_open(&self) -> bool;

    /// Returns a number that changes whenever a reload changes the callers.
    fn generation(&self) -> u64;

    /// Builds the headers of each call: a token, and a namespace other than the caller's own.
    fn headers(&self, token: Option<HeaderValue>, namespace: Option<HeaderValue>) -> HeaderMap;

    /// Finds the caller. The error is the reason for the rejection, which is also logged as an
    /// audit line.
    fn caller(&self, headers: &HeaderMap) -> Result<ConsoleCaller, String>;

    /// Whether the credentials are still valid.
    fn knows(&self, headers: &HeaderMap) -> bool;

    /// Returns the namespace in which the caller may call an RPC, such as
    /// `/tollgate.v1.AdmissionService/EvictTask`, for at least some names; `None` if it may not.
    fn permitted(&self, path: &str, headers: &HeaderMap) -> Option<Namespace>;

    /// Whether the caller may read data about all namespaces, such as the metrics.
    fn permits_server(&self, headers: &HeaderMap) -> bool;

    /// Calls a service. The call takes the same steps as one over HTTP/2: credentials, rights,
    /// limits of the namespace, audit line.
    fn call(&self, request: Request<Body>) -> Called;
}

/// The services of a server for one caller, as a transport for the generated clients.
///
/// Its credentials are checked on each call, so a caller that a reload removes loses access.
#[derive(Debug, Clone)]
pub(crate) struct InProcess {
    services: Arc<dyn Services>,
    /// The credentials, the namespace and the deadline.
    headers: Arc<HeaderMap>,
}

impl InProcess {
    /// Creates the services for a caller; without a token for a server without callers.
    pub(crate) fn new(
        services: &Arc<dyn Services>,
        token: Option<HeaderValue>,
        namespace: Option<HeaderValue>,
    ) -> InProcess {
        let headers = Arc::new(services.headers(token, namespace));
        InProcess { services: services.clone(), headers }
    }

    /// Finds the caller; `None` on a server without callers. The error is the reason for the
    /// rejection, which is also logged as an audit line.
    pub(crate) fn caller(&self) -> Result<Option<ConsoleCaller>, String> {
        if self.services.is_open() {
            return Ok(None);
        }
        self.services.caller(&self.headers).map(Some)
    }

    /// Whether the credentials are still valid.
    pub(crate) fn is_known(&self) -> bool {
        self.services.knows(&self.headers)
    }

    /// Returns the namespace in which the caller may call an RPC; `None` if it may not.
    pub(crate) fn permitted(&self, path: &str) -> Option<Namespace> {
        self.services.permitted(path, &self.headers)
    }

    /// Whether the caller may read data about all namespaces, such as the metrics.
    pub(crate) fn permits_server(&self) -> bool {
        self.services.permits_server(&self.headers)
    }
}

impl Service<Request<Body>> for InProcess {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Called;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Called {
        for (name, value) in self.headers.iter() {
            request.headers_mut().insert(name, value.clone());
        }
        self.services.call(request)
    }
}
