//! Traces: the server span of a sampled call.
//!
//! The flag in a valid `traceparent` decides whether a call is sampled; other calls are sampled at
//! the configured ratio. `tracestate` and `baggage` are ignored. A call that is not sampled costs
//! one header lookup, or nothing if the server exports no spans.

mod traceparent;

use std::{borrow::Cow, sync::Arc};

use hyper::{HeaderMap, Request};
use tonic::Code;

use super::{
    rpcs::{self, KnownRpc, Service},
    scope::{Origin, RecordedNames, Scope},
    status::code_name,
};
use tollgate_telemetry::{
    metrics::Exemplar,
    spans::{
        self, Attribute, CallSpan, Calls, Entered, Parent, Recorder, Span, SpanKind, SpanStart,
        SpanValue,
    },
};
use traceparent::TraceParent;

/// The method name for a call of an unknown RPC.
const OTHER: &str = "_OTHER";

/// Decides which calls are sampled, and starts their spans.
#[derive(Debug, Clone)]
pub struct Tracer {
    /// The fraction of calls to sample if the caller has made no sampling decision, 0 to 1.
    ratio: f64,
    recorder: Arc<dyn Recorder>,
}

impl Tracer {
    /// Creates a tracer that passes its spans to `recorder`.
    pub fn new(ratio: f64, recorder: Arc<dyn Recorder>) -> Tracer {
        Tracer { ratio, recorder }
    }

    /// Starts the span of a call, if it is sampled.
    pub(super) fn start(&self, path: &str, headers: &HeaderMap) -> Option<Box<ServerSpan>> {
        let parent = traceparent::read(headers);
        let is_sampled = match &parent {
            Some(parent) => parent.is_sampled,
            None => spans::is_drawn(self.ratio),
        };
        is_sampled.then(|| Box::new(ServerSpan::new(path, parent, self.recorder.clone())))
    }
}

/// The span of a sampled call. Dropping it before it has ended means that the client has cancelled
/// the call.
#[derive(Debug)]
pub(crate) struct ServerSpan {
    calls: Calls,
    parent: Option<Parent>,
    start: SpanStart,
    method: &'static str,
    /// The position of its RPC in the table.
    position: usize,
    /// Whether the names in the request are pools.
    has_pools: bool,
    origin: Origin,
    /// The pools in the request.
    pools: Option<RecordedNames>,
    is_ended: bool,
}

impl ServerSpan {
    fn new(path: &str, parent: Option<TraceParent>, recorder: Arc<dyn Recorder>) -> ServerSpan {
        let call = CallSpan::new(parent.map(|parent| parent.trace), recorder);
        let known = rpcs::find(path);
        ServerSpan {
            calls: Arc::new([call]),
            parent: parent.map(|parent| Parent { span: parent.span, is_remote: true }),
            start: SpanStart::now(),
            method: method(known),
            position: known.route.position,
            has_pools: known.rpc.as_ref().is_some_and(|rpc| rpc.service == Service::Admission),
            origin: Origin::default(),
            pools: None,
            is_ended: false,
        }
    }

    /// Makes the call current until the result is dropped.
    pub(super) fn enter(&self) -> Entered {
        spans::enter(Some(self.calls.clone()))
    }

    /// Adds the caller, and the pools in the request once they are parsed. Other names may identify
    /// users or devices, which do not belong in a trace.
    pub(super) fn describe<B>(&mut self, request: &mut Request<B>, origin: &Origin) {
        self.origin = origin.clone();
        if self.has_pools {
            let extensions = request.extensions_mut();
            let mut scope = Scope::take(extensions);
            self.pools = Some(scope.record_names());
            extensions.insert(scope);
        }
    }

    /// Ends the span of a call with this status.
    pub(super) fn end(mut self, code: Code) {
        self.record(code);
    }

    fn record(&mut self, code: Code) {
        self.is_ended = true;
        let Some(call) = self.calls.first() else { return };
        let (start, end) = self.start.until_now();
        Exemplar::record(self.position, call.context.trace, start, end);
        let code_name = code_name(code);
        let text = |text: Cow<'static, str>| SpanValue::Text(text);
        let mut attributes: Vec<Attribute> = vec![
            ("rpc.system.name", text("grpc".into())),
            ("rpc.method", text(self.method.into())),
            ("rpc.response.status_code", text(code_name.clone().into())),
        ];
        if code != Code::Ok {
            attributes.push(("error.type", text(code_name.clone().into())));
        }
        let pools = self.pools.as_ref().map(RecordedNames::text);
        for (key, value) in [
            ("tollgate.caller", self.origin.caller()),
            ("tollgate.namespace", self.origin.namespace().as_str()),
            ("tollgate.pool", pools.as_deref().unwrap_or_default()),
        ] {
            if !value.is_empty() {
                attributes.push((key, text(value.to_owned().into())));
            }
        }
        call.record(Span {
            context: call.context,
            parent: self.parent,
            kind: SpanKind::Server,
            name: match self.method {
                OTHER => "grpc".into(),
                _ => self.method.into(),
            },
            start,
            end,
            attributes,
            links: Vec::new(),
            links_left_out: 0,
            failure: is_fault(code).then(|| code_name.into()),
        });
    }
}

impl Drop for ServerSpan {
    fn drop(&mut self) {
        if !self.is_ended {
            self.record(Code::Cancelled);
        }
    }
}

/// Returns the name of an RPC as `service/method`.
fn method(known: &KnownRpc) -> &'static str {
    known.labels.path.strip_prefix('/').unwrap_or(OTHER)
}

/// Whether a code means that the server is at fault, not the caller.
pub(super) fn is_fault(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    )
}
