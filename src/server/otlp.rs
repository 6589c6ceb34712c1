//! Exports spans in the background, as OTLP over gRPC.
//!
//! Worker threads add spans to a bounded queue and never wait. One task drains the queue and sends
//! the spans to the collector, one batch at a time. If the collector is slow or unreachable, the
//! queue fills up, and further spans are dropped and counted (`spans` in the log line about reached
//! limits).
//!
//! The SDK's `BatchSpanProcessor` (0.33) batches in the same way, but it does not report how many
//! spans it has dropped, and it would convert spans on the worker threads.

mod convert;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hyper::Uri;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tonic::transport::ClientTlsConfig;

use crate::grpc::Tracer;
use tollgate_telemetry::limits::ReachedLimit;
use tollgate_telemetry::{
    line_pace::LinePace,
    spans::{Recorder, Span},
};

/// Maximum number of finished spans in the queue: about 2 MiB.
const QUEUED_MAX: usize = 2048;
/// Maximum number of spans in one message to the collector.
const BATCH_MAX: usize = 512;
/// Time for which the first span of a batch waits for others.
const COLLECT: Duration = Duration::from_secs(1);
/// Time limit for one message to the collector.
const EXPORT_MAX: Duration = Duration::from_secs(10);
/// Time limit for the last spans at shutdown.
const FLUSH_MAX: Duration = Duration::from_secs(5);
/// The longest `otlp.endpoint`, bytes.
const ENDPOINT_BYTES_MAX: usize = 2048;

/// The collector of spans, and the sampling ratio.
#[derive(Debug, Clone, PartialEq)]
pub struct OtlpOptions {
    /// URL of the collector.
    pub endpoint: String,
    /// The fraction of calls to sample if the caller has made no sampling decision, 0 to 1.
    pub sampling: f64,
}

/// Checks the URL of a collector. The error states what is expected.
pub fn check(endpoint: &str) -> Result<(), String> {
    let is_valid = |url: Uri| {
        let has_user = url.authority().is_some_and(|authority| authority.as_str().contains('@'));
        let is_bare = url.path_and_query().is_none_or(|path| path.as_str() == "/");
        matches!(url.scheme_str(), Some("http" | "https")) && !has_user && is_bare
    };
    if endpoint.len() <= ENDPOINT_BYTES_MAX && endpoint.parse().is_ok_and(is_valid) {
        Ok(())
    } else {
        Err("expected the gRPC endpoint of a collector, such as \
                      \"http://localhost:4317\", without user name and path"
            .to_owned())
    }
}

/// The export of spans. Clones share the same export.
#[derive(Debug, Clone)]
pub struct Otlp {
    sampling: f64,
    queue: Arc<SpanQueue>,
    running: Arc<Mutex<Option<Running>>>,
}

/// The task that exports spans.
#[derive(Debug)]
struct Running {
    /// Dropping it ends the task once it has sent the spans in the queue.
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// The finished spans that wait for the collector.
struct SpanQueue(mpsc::Sender<Span>);

impl fmt::Debug for SpanQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanQueue").field("free", &self.0.capacity()).finish()
    }
}

impl Recorder for SpanQueue {
    fn record(&self, span: Span) {
        if self.0.try_send(span).is_err() {
            ReachedLimit::Spans.record();
        }
    }
}

impl Otlp {
    /// Starts the export on the current runtime. The collector need not be reachable yet. Fails if
    /// the endpoint or an `OTEL_EXPORTER_OTLP_*` variable is invalid.
    pub fn start(options: &OtlpOptions) -> Result<Otlp, String> {
        let mut builder = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(&options.endpoint)
            .with_timeout(EXPORT_MAX);
        if options.endpoint.starts_with("https:") {
            builder = builder.with_tls_config(ClientTlsConfig::new().with_enabled_roots());
        }
        let mut exporter = builder.build().map_err(|error| error.to_string())?;
        exporter.set_resource(&convert::resource());
        let (sender, spans) = mpsc::channel(QUEUED_MAX);
        let (end, ending) = oneshot::channel();
        let task = tokio::spawn(run(exporter, spans, ending));
        Ok(Otlp {
            sampling: options.sampling,
            queue: Arc::new(SpanQueue(sender)),
            running: Arc::new(Mutex::new(Some(Running { end, task }))),
        })
    }

    /// Returns the tracer of a server.
    pub fn tracer(&self) -> Tracer {
        Tracer::new(self.sampling, self.queue.clone())
    }

    /// Sends the queued spans within the time `most` and ends the export. Spans that remain are
    /// dropped, and their number is logged.
    pub async fn finish(&self, most: Duration) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Running { end, mut task }) = running else { return };
        drop(end);
        if timeout(most.min(FLUSH_MAX), &mut task).await.is_err() {
            let waiting = QUEUED_MAX - self.queue.0.capacity();
            task.abort();
            tracing::warn!(
                waiting,
                "the collector did not accept the last spans in time: they are dropped"
            );
        }
    }
}

/// Exports spans until the export ends, and then those that are left in the queue.
async fn run(
    exporter: SpanExporter,
    mut spans: mpsc::Receiver<Span>,
    mut ending: oneshot::Receiver<()>,
) {
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            biased;
            number = spans.recv_many(&mut batch, BATCH_MAX) => {
                if number == 0 {
                    return;
                }
            }
            _ = &mut ending, if !spans.is_closed() => {
                spans.close();
                continue;
            }
        }
        if !spans.is_closed() {
            tokio::select! {
                () = fill(&mut spans, &mut batch) => {}
                () = sleep(COLLECT) => {}
                _ = &mut ending => spans.close(),
            }
        }
        export(&exporter, std::mem::take(&mut batch)).await;
    }
}

/// Completes when the batch is full.
async fn fill(spans: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) {
    while batch.len() < BATCH_MAX {
        if spans.recv_many(batch, BATCH_MAX - batch.len()).await == 0 {
            return;
        }
    }
}

/// Sends one message. If it fails, it is not retried: its spans are dropped and counted.
async fn export(exporter: &SpanExporter, batch: Vec<Span>) {
    static FAILED: LinePace = LinePace::new(1, Duration::from_secs(60));
    let spans = batch.len();
    let batch = batch.into_iter().map(convert::span).collect();
    let error = match timeout(EXPORT_MAX, exporter.export(batch)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {EXPORT_MAX:?}"),
    };
    ReachedLimit::Spans.record_times(spans as u64);
    if let Some(suppressed) = FAILED.due() {
        tracing::warn!(
            %error, spans, suppressed,
            "the collector at otlp.endpoint did not accept spans: they are dropped; calls are not \
             affected"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_urls_without_user_and_path() {
        for good in ["http://localhost:4317", "https://otel.example:4317/", "http://[::1]:4317"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let long = format!("http://{}:4317", "a".repeat(ENDPOINT_BYTES_MAX));
        for bad in [
            "",
            "localhost:4317",
            "otel.example",
            "ftp://localhost:4317",
            "http://user:word@localhost:4317",
            "http://localhost:4318/v1/traces",
            "http://",
            &long,
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
