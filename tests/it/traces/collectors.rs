//! Collectors that are slow, hang or are unreachable, and the end of a server.

use std::{net::TcpListener, time::Duration};

use tollgate::server::{
    Rules,
    otlp::{Otlp, OtlpOptions},
};
use tollgate_core::time::monotonic;
use tollgate_telemetry::limits::ReachedLimit;

use crate::support::{
    access::Token,
    certificates::{Authority, Files, TlsServer},
    collector::{CallerSpan, Collector},
    process::free_port,
    world::{World, admit, patient},
};

/// More spans than the queue and a batch can contain.
const CALLS: usize = 4_000;

/// Makes sampled calls, 50 at a time; each must be answered.
async fn flood(world: &World) {
    let calls = (0..50).map(|_| {
        let mut client = world.client.clone();
        async move {
            for _ in 0..CALLS / 50 {
                client.admit_task(patient(admit("ar:1", "device", "task"))).await.unwrap();
            }
        }
    });
    futures_util::future::join_all(calls).await;
}

async fn spans_are_dropped(endpoint: String) {
    let otlp = Otlp::start(&OtlpOptions { endpoint, sampling: 1.0 }).unwrap();
    let rules = Rules { otlp: Some(otlp), ..Rules::default() };
    let world = World::with_rules(false, rules).await;
    let before = ReachedLimit::Spans.times();
    flood(&world).await;
    assert!(ReachedLimit::Spans.times() > before, "the queue is bounded");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_collector_disturbs_no_call() {
    spans_are_dropped(format!("http://127.0.0.1:{}", free_port())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_collector_disturbs_no_call() {
    // Its backlog accepts connections that nobody reads.
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    spans_are_dropped(format!("http://{}", hanging.local_addr().unwrap())).await;
}

/// Returns a server process with `[otlp]` of this endpoint.
async fn serve(endpoint: &str, more: &str) -> TlsServer {
    let files = Files::new(&Authority::new("unused").server());
    let config = format!("{more}\n[otlp]\nendpoint = \"{endpoint}\"\n");
    files.write("tollgate.toml", &config);
    let path = files.text("tollgate.toml");
    files.serve(&["--config", &path]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_spans_are_sent_on_sigterm() {
    let collector = Collector::start().await;
    let mut server = serve(&collector.address, "").await;
    let mut client = server.server.client().await;
    let callers: Vec<CallerSpan> = (0..100).map(|_| CallerSpan::new()).collect();
    for caller in &callers {
        let request = caller.sampled(patient(admit("ar:1", "device", "task")));
        client.admit_task(request).await.unwrap();
    }
    server.server.process.signal("-TERM");
    let code = server.server.process.end(Duration::from_secs(60)).await;
    assert_eq!(code, Some(0), "{}", server.files.log());
    for caller in &callers {
        assert_eq!(collector.trace(caller, 1).await.len(), 1);
    }
    assert_eq!(collector.spans().len(), callers.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_collector_delays_shutdown_by_at_most_the_drain_timeout() {
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", hanging.local_addr().unwrap());
    let mut server = serve(&endpoint, "drain_timeout = \"1s\"").await;
    let mut client = server.server.client().await;
    let request = CallerSpan::new().sampled(patient(admit("ar:1", "device", "task")));
    client.admit_task(request).await.unwrap();
    drop(client);
    let start = monotonic();
    server.server.process.signal("-TERM");
    let code = server.server.process.end(Duration::from_secs(60)).await;
    assert_eq!(code, Some(0), "{}", server.files.log());
    // A message to the collector may take 10 s.
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    assert!(server.files.log().contains("did not accept the last spans"), "{}", server.files.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_calls_have_lines_with_trace_caller_and_reason() {
    let collector = Collector::start().await;
    let token = Token::new();
    let digest = &token.digest;
    let caller = format!(
        "log_format = \"json\"\nlog_level = \"debug\"\n[[caller]]\nname = \"backend\"\n\
         token_sha256 = [\"{digest}\"]\nallow = [\"use\"]\nnamespace = \"acme\"\n"
    );
    let server = serve(&collector.address, &caller).await;
    let mut client = server.server.client().await;
    let span = CallerSpan::new();
    for number in 0..200 {
        // An invalid request: the pool has no name.
        let mut request = patient(admit("", "device", "task"));
        request.metadata_mut().insert("authorization", token.bearer().parse().unwrap());
        let request = if number == 0 { span.sampled(request) } else { request };
        client.admit_task(request).await.unwrap_err();
    }
    let log = server.files.log();
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let lines: Vec<_> = lines.filter(|line| line["message"] == "a call has failed").collect();
    // A few lines in 10 s.
    assert!((1..100).contains(&lines.len()), "{log}");
    for (key, value) in [
        ("trace_id", &*span.trace_id()),
        ("method", "tollgate.v1.AdmissionService/AdmitTask"),
        ("code", "INVALID_ARGUMENT"),
        ("caller", "backend"),
        ("namespace", "acme"),
    ] {
        assert_eq!(lines[0][key], value, "{}", lines[0]);
    }
    assert!(lines[1..].iter().all(|line| line["trace_id"].is_null()), "{log}");
    assert!(!log.contains(&token.text));
    let spans = collector.trace(&span, 1).await;
    let text = format!("{spans:?}");
    assert!(text.contains("acme") && text.contains("backend"), "{text}");
}
