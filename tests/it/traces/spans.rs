//! The spans of calls, from the caller to the store.

use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use tollgate_client::pb;
use tonic::{Code, Request};

use super::Traced;
use crate::support::{
    access::calls,
    collector::{CallerSpan, attribute},
    sequences,
    world::{admit, patient},
};

fn is_server(span: &Span) -> bool {
    span.kind == SpanKind::Server as i32
}

/// The time of a span contains the time of another one.
fn contains(outer: &Span, inner: &Span) -> bool {
    outer.start_time_unix_nano <= inner.start_time_unix_nano
        && inner.end_time_unix_nano <= outer.end_time_unix_nano
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_goes_from_the_caller_to_the_batch_of_the_store() {
    let traced = Traced::start(true, 0.0).await;
    let (world, collector) = (&traced.world, &traced.collector);
    let caller = CallerSpan::new();
    let request = caller.sampled(patient(admit("ar:1", "device", "task")));
    world.client.clone().admit_task(request).await.unwrap();
    collector.export(&caller).await;

    let spans = collector.trace(&caller, 3).await;
    let server = spans.iter().find(|span| is_server(span)).unwrap();
    assert!(caller.is_parent(server), "{server:?}");
    assert_eq!(server.name, "tollgate.v1.AdmissionService/AdmitTask");
    for (key, value) in [
        ("rpc.system.name", "grpc"),
        ("rpc.method", "tollgate.v1.AdmissionService/AdmitTask"),
        ("rpc.response.status_code", "OK"),
        ("tollgate.pool", "ar:1"),
        ("tollgate.namespace", ""),
        ("error.type", ""),
    ] {
        assert_eq!(attribute(server, key), value, "{key}");
    }
    let batches: Vec<_> =
        spans.iter().filter(|span| span.parent_span_id == server.span_id).collect();
    assert!(!batches.is_empty(), "{spans:?}");
    for batch in batches {
        assert_eq!(batch.kind, SpanKind::Client as i32);
        assert_eq!(attribute(batch, "db.system.name"), "redis");
        assert!(attribute(batch, "db.operation.batch.size").parse::<u32>().unwrap() >= 1);
        assert!(contains(server, batch), "{server:?} {batch:?}");
    }
    assert!(collector.services().contains(&"tollgate".to_owned()));
    let text = format!("{spans:?}");
    assert!(!text.contains("device") && !text.contains("\"task\""), "no content: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_combined_with_others_has_the_batch_in_its_trace() {
    let traced = Traced::start(true, 0.0).await;
    let callers: Vec<CallerSpan> = (0..20).map(|_| CallerSpan::new()).collect();
    let calls = callers.iter().map(|caller| {
        let mut client = traced.world.sequences.clone();
        let request = caller.sampled(patient(sequences::next("order")));
        async move { client.next_sequence(request).await.unwrap() }
    });
    futures_util::future::join_all(calls).await;
    for caller in &callers {
        let spans = traced.collector.trace(caller, 2).await;
        let server = spans.iter().find(|span| is_server(span)).unwrap();
        assert_eq!(attribute(server, "tollgate.pool"), "", "the name is not a pool");
        let batch = spans.iter().find(|span| span.parent_span_id == server.span_id).unwrap();
        assert!(batch.links.iter().all(|link| link.trace_id != batch.trace_id), "{batch:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_of_the_embedded_engine_goes_from_the_caller_to_the_server() {
    let traced = Traced::start(false, 0.0).await;
    let caller = CallerSpan::new();
    let request = caller.sampled(patient(admit("ar:1", "device", "task")));
    traced.world.client.clone().admit_task(request).await.unwrap();
    traced.collector.export(&caller).await;
    let spans = traced.collector.trace(&caller, 2).await;
    let server = spans.iter().find(|span| is_server(span)).unwrap();
    assert!(spans.len() == 2 && caller.is_parent(server), "{spans:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rpc_has_a_span_with_its_method_and_status() {
    let traced = Traced::start(false, 0.0).await;
    let channel = tonic::transport::Endpoint::from_shared(traced.world.address.clone()).unwrap();
    let channel = channel.connect().await.unwrap();
    let mut called = Vec::new();
    for call in calls("p") {
        let caller = CallerSpan::new();
        let parent = caller.parent("01");
        let code = match call.make(&channel, &[("traceparent", &parent)]).await {
            Err(status) => status.code(),
            // The call drops the stream.
            Ok(_) if call.method.starts_with("Watch") => Code::Cancelled,
            Ok(_) => Code::Ok,
        };
        called.push((call, caller, code));
    }
    // Spans are exported once a second.
    for (call, caller, code) in called {
        let spans = traced.collector.trace(&caller, 1).await;
        assert_eq!(format!("/{}", spans[0].name), call.path());
        let (status, error) = (attribute(&spans[0], "rpc.response.status_code"), code != Code::Ok);
        assert_eq!(status.replace('_', "").to_lowercase(), format!("{code:?}").to_lowercase());
        assert_eq!(attribute(&spans[0], "error.type").is_empty(), !error);
        // An error of the caller is not a fault of the server.
        let failed = spans[0].status.as_ref().is_some_and(|it| it.code() == StatusCode::Error);
        assert!(!failed, "{spans:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_rpc_is_named_other() {
    let traced = Traced::start(false, 0.0).await;
    let channel = tonic::transport::Endpoint::from_shared(traced.world.address.clone()).unwrap();
    let mut client = tonic::client::Grpc::new(channel.connect().await.unwrap());
    client.ready().await.unwrap();
    let caller = CallerSpan::new();
    let request = caller.sampled(Request::new(pb::GetPoolRequest::default()));
    let codec = tonic_prost::ProstCodec::<pb::GetPoolRequest, pb::GetPoolResponse>::default();
    let path = "/tollgate.v1.AdmissionService/0123456789".parse().unwrap();
    client.unary(request, path, codec).await.unwrap_err();
    let spans = traced.collector.trace(&caller, 1).await;
    assert_eq!((&*spans[0].name, &*attribute(&spans[0], "rpc.method")), ("grpc", "_OTHER"));
    assert_eq!(attribute(&spans[0], "rpc.response.status_code"), "UNIMPLEMENTED");
}
