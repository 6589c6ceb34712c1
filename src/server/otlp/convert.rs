//! Converts spans to the types of OpenTelemetry.

use std::{
    borrow::Cow,
    env,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use opentelemetry::{
    InstrumentationScope, KeyValue, Value,
    trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanEvents, SpanLinks},
};

use tollgate_telemetry::spans::{self, Span, SpanValue};

/// Returns the resource that the spans describe, including `OTEL_SERVICE_NAME` and
/// `OTEL_RESOURCE_ATTRIBUTES`.
pub(super) fn resource() -> Resource {
    let resource = Resource::builder()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    match env::var_os("OTEL_SERVICE_NAME") {
        Some(_) => resource.build(),
        None => resource.with_service_name(env!("CARGO_PKG_NAME")).build(),
    }
}

/// Converts a span.
pub(super) fn span(span: Span) -> SpanData {
    let attribute = |(key, value)| KeyValue::new(key, self::value(value));
    let mut links = SpanLinks::default();
    links.links = span.links.into_iter().map(|link| Link::with_context(context(link))).collect();
    links.dropped_count = span.links_left_out;
    SpanData {
        span_context: context(span.context),
        parent_span_id: span.parent.map_or(SpanId::INVALID, |parent| id(parent.span)),
        parent_span_is_remote: span.parent.is_some_and(|parent| parent.is_remote),
        span_kind: match span.kind {
            spans::SpanKind::Server => SpanKind::Server,
            spans::SpanKind::Client => SpanKind::Client,
        },
        name: span.name,
        start_time: time(span.start),
        end_time: time(span.end),
        attributes: span.attributes.into_iter().map(attribute).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links,
        status: span.failure.map_or(Status::Unset, |description| Status::Error { description }),
        instrumentation_scope: InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}

fn context(context: spans::SpanContext) -> SpanContext {
    let trace = TraceId::from_bytes(context.trace.0.to_be_bytes());
    SpanContext::new(trace, id(context.span), TraceFlags::SAMPLED, false, TraceState::NONE)
}

fn id(span: u64) -> SpanId {
    SpanId::from_bytes(span.to_be_bytes())
}

fn time(micros: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(micros)
}

fn value(value: SpanValue) -> Value {
    match value {
        SpanValue::Text(Cow::Borrowed(text)) => text.into(),
        SpanValue::Text(Cow::Owned(text)) => text.into(),
        SpanValue::Number(number) => number.into(),
    }
}
