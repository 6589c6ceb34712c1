//! Which calls are sampled.

use std::time::Duration;

use tonic::Request;

use super::Traced;
use crate::support::{
    collector::CallerSpan,
    world::{admit, patient},
};

/// Long enough for every export.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes a call with these values of `traceparent`.
async fn call(traced: &Traced, parents: &[&str]) {
    let mut request = patient(admit("ar:1", "device", "task"));
    for parent in parents {
        request.metadata_mut().append("traceparent", parent.parse().unwrap());
    }
    // Neither is read or passed on.
    for (key, value) in [("tracestate", "a=".to_owned()), ("baggage", "b=".to_owned())] {
        request.metadata_mut().insert(key, (value + &"c".repeat(2_000)).parse().unwrap());
    }
    traced.world.client.clone().admit_task(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_not_sampled_export_nothing() {
    let traced = Traced::start(false, 0.0).await;
    let caller = CallerSpan::new();
    let (valid, long) =
        (caller.parent("01"), format!("{}{}", caller.parent("01"), "0".repeat(5_000)));
    let (unsampled, upper) = (caller.parent("00"), valid.to_uppercase());
    let unknown = valid.replacen("00-", "ff-", 1);
    call(&traced, &[]).await;
    call(&traced, &[&valid, &valid]).await;
    for parent in [&*unsampled, &long, "00-1", &upper, &unknown] {
        call(&traced, &[parent]).await;
    }
    let sampled = CallerSpan::new();
    call(&traced, &[&sampled.parent("01")]).await;
    traced.otlp.finish(PATIENCE).await;
    let spans = traced.collector.trace(&sampled, 1).await;
    assert_eq!(traced.collector.spans().len(), 1, "only the sampled call");
    assert!(spans[0].trace_state.is_empty() && !format!("{spans:?}").contains("cccc"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_decision_of_the_caller_wins_over_the_ratio() {
    let traced = Traced::start(false, 1.0).await;
    let unsampled = CallerSpan::new();
    call(&traced, &[&unsampled.parent("00")]).await;
    traced.otlp.finish(PATIENCE).await;
    assert!(traced.collector.spans().is_empty(), "{:?}", traced.collector.spans());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_a_valid_parent_begins_a_trace() {
    let traced = Traced::start(false, 1.0).await;
    let caller = CallerSpan::new();
    call(&traced, &[]).await;
    call(&traced, &[&caller.parent("01").to_uppercase()]).await;
    traced.world.client.clone().admit_task(Request::new(admit("", "", ""))).await.unwrap_err();
    traced.otlp.finish(PATIENCE).await;
    let spans = traced.collector.spans();
    assert_eq!(spans.len(), 3);
    for (index, span) in spans.iter().enumerate() {
        assert!(span.parent_span_id.is_empty() && span.trace_id.len() == 16, "{span:?}");
        assert!(spans[..index].iter().all(|other| other.trace_id != span.trace_id));
    }
}
