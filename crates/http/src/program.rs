//! What the transport requires from the program whose calls it carries.

use std::{fmt, sync::Arc, time::Duration};

use hyper::{HeaderMap, Request, body::Incoming, http::Extensions};
use tonic::{Code, Status};

use crate::{identity::CertificateNames, rejections::Rejections};
use tollgate_telemetry::spans::Entered;

/// What the transport knows about an RPC before it reads the message of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The position of the RPC's counters. Unknown RPCs also have one.
    pub position: usize,
    /// The index of its service in [`Router`](crate::Router). `None` for the services of the tonic
    /// router, and for unknown RPCs.
    pub service: Option<usize>,
    /// Its number on the fast path of its service; `None` if tonic serves it.
    pub fast_path: Option<usize>,
    /// Whether it frees capacity or keeps a resource that its caller already uses. Answering such
    /// calls first makes room for others.
    pub frees_capacity: bool,
    /// Whether it answers with a page of a listing, which may be large.
    pub is_listing: bool,
}

/// A program: its RPCs, and the rights, quotas and spans of its calls.
///
/// The transport calls these methods on the path of every call, so they must not block. The types
/// are part of the future of a call, whose size determines the cost of its allocation.
pub trait Program: fmt::Debug + Send + Sync + 'static {
    /// The state of a connection between its calls, such as the credentials that it used last.
    type Connection: fmt::Debug + Send + 'static;
    /// The caller of a call, for log lines.
    type Caller: Send + 'static;
    /// Guard that counts a call towards a quota until it is dropped.
    type InFlight: Send + 'static;
    /// The span of a sampled call.
    type Span: SampledCall + 'static;

    /// The longest time that a call may take. A connection that has reached its maximum age is
    /// closed after this time, even if calls are still running.
    const CALL_TIME_MAX: Duration;

    /// Returns the errors of calls that the transport rejects.
    fn rejections(&self) -> &'static Rejections;

    /// Initializes a serving thread; numbers start at 1. Runs on that thread before it serves
    /// calls.
    fn enter_thread(&self, number: usize);

    /// Creates the state of a connection. `certificate` contains the names in the verified client
    /// certificate, if the client has presented one.
    fn connect(&self, certificate: Option<Arc<CertificateNames>>) -> Self::Connection;

    /// Looks up the RPC of a URL path.
    fn route(&self, path: &str) -> &'static Route;

    /// Starts the span of a call, if it is sampled.
    fn sample(&self, path: &str, headers: &HeaderMap) -> Option<Box<Self::Span>>;

    /// Authenticates a call and checks its rights before its message is read. May add to its
    /// extensions and describe the call in its span.
    fn authorize(
        &self,
        connection: &Self::Connection,
        request: &mut Request<Incoming>,
        span: Option<&mut Self::Span>,
    ) -> Result<Authorized<Self::Caller>, Status>;

    /// Whether a path of the tonic router must be answered as if it did not exist.
    fn is_hidden(&self, path: &str) -> bool;

    /// Counts a call to a service towards the quotas of its tenant. Fails if a quota is used up.
    fn admit(
        &self,
        connection: &Self::Connection,
        route: &Route,
        extensions: &Extensions,
    ) -> Result<Self::InFlight, Status>;

    /// Returns the tenant of a call. Under overload, the calls of tenants that use little of a
    /// thread overtake those of others.
    fn tenant<'e>(&self, extensions: &'e Extensions) -> &'e [u8];

    /// Logs a failed call to a service.
    fn log_failure(&self, route: &Route, caller: &Self::Caller, status: &Status);
}

/// A call that its caller is allowed to make.
#[derive(Debug, Default)]
pub struct Authorized<C> {
    /// The caller.
    pub caller: C,
    /// Observes the answer.
    pub observer: Option<Box<dyn AnswerObserver>>,
}

/// Observes the answer to a call, for instance to log it. Dropped without a call of
/// [`AnswerObserver::observe`] if the client cancels the call.
pub trait AnswerObserver: fmt::Debug + Send {
    /// Receives the headers of the answer, which contain the status unless a message follows.
    fn observe(self: Box<Self>, headers: &HeaderMap);
}

/// The span of a sampled call. Dropped without [`SampledCall::end`] if the client cancels the call.
pub trait SampledCall: fmt::Debug + Send {
    /// Makes the call current until the result is dropped.
    fn enter(&self) -> Entered;

    /// Ends the span with the status of the call.
    fn end(self: Box<Self>, code: Code);
}
