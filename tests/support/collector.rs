//! A collector of spans: the OTLP service, which stores what it receives.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_client::TraceServiceClient,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::any_value::Value,
    trace::v1::{ResourceSpans, ScopeSpans, Span, span::SpanKind},
};
use tokio::{net::TcpListener, task::AbortHandle, time::sleep};
use tonic::{Request, Response, Status, transport::server::TcpIncoming};

/// How long a test waits for spans.
const PATIENCE: Duration = Duration::from_secs(30);

/// A collector on a free port.
pub struct Collector {
    pub address: String,
    kept: Kept,
    server: AbortHandle,
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<ResourceSpans>>>);

#[tonic::async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().extend(request.into_inner().resource_spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Collector {
    pub async fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let kept = Kept::default();
        let service = TraceServiceServer::new(kept.clone());
        let serve = tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpIncoming::from(listener));
        Collector { address, kept, server: tokio::spawn(serve).abort_handle() }
    }

    /// Returns the spans received so far.
    pub fn spans(&self) -> Vec<Span> {
        let kept = self.kept.0.lock().unwrap();
        let scopes = kept.iter().flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// Returns the names of the services whose spans were received.
    pub fn services(&self) -> Vec<String> {
        let kept = self.kept.0.lock().unwrap();
        let resources = kept.iter().filter_map(|spans| spans.resource.as_ref());
        let attributes = resources.flat_map(|resource| &resource.attributes);
        let names = attributes.filter(|attribute| attribute.key == "service.name");
        names.filter_map(|name| text(name.value.as_ref()?.value.as_ref()?)).collect()
    }

    /// Waits until a trace has this many spans. Returns them by start.
    pub async fn trace(&self, caller: &CallerSpan, number: usize) -> Vec<Span> {
        let found = async {
            loop {
                let mut spans = self.spans();
                spans.retain(|span| span.trace_id == caller.trace);
                if spans.len() >= number {
                    spans.sort_by_key(|span| span.start_time_unix_nano);
                    return spans;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, found).await;
        found.unwrap_or_else(|_| panic!("{number} spans of {caller:?}: {:?}", self.spans()))
    }

    /// Exports the span of a caller, as the caller's tracing library would.
    pub async fn export(&self, caller: &CallerSpan) {
        let span = Span {
            trace_id: caller.trace.clone(),
            span_id: caller.span.clone(),
            name: "client".to_owned(),
            kind: SpanKind::Client as i32,
            start_time_unix_nano: 1,
            end_time_unix_nano: u64::MAX,
            ..Span::default()
        };
        let scope_spans = vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }];
        let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
        let mut client = TraceServiceClient::connect(self.address.clone()).await.unwrap();
        client.export(ExportTraceServiceRequest { resource_spans }).await.unwrap();
    }
}

/// The span of a caller.
#[derive(Debug, Clone)]
pub struct CallerSpan {
    trace: Vec<u8>,
    span: Vec<u8>,
}

impl CallerSpan {
    /// Creates a span of a new trace.
    pub fn new() -> CallerSpan {
        let [trace, span] = [rand::random::<u128>() | 1, u128::from(rand::random::<u64>() | 1)];
        CallerSpan { trace: trace.to_be_bytes().into(), span: span.to_be_bytes()[8..].into() }
    }

    /// Returns the digits of the trace.
    pub fn trace_id(&self) -> String {
        hex(&self.trace)
    }

    /// Returns the value of `traceparent`, with these flags.
    pub fn parent(&self, flags: &str) -> String {
        format!("00-{}-{}-{flags}", hex(&self.trace), hex(&self.span))
    }

    /// Returns a request of this span, which is sampled.
    pub fn sampled<T>(&self, mut request: Request<T>) -> Request<T> {
        request.metadata_mut().insert("traceparent", self.parent("01").parse().unwrap());
        request
    }

    /// Whether this is the parent of a span.
    pub fn is_parent(&self, span: &Span) -> bool {
        span.parent_span_id == self.span
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns an attribute of a span as text; empty if it is missing.
pub fn attribute(span: &Span, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key == key);
    let value = found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref());
    value.and_then(text).unwrap_or_default()
}
