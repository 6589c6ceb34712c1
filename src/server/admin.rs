//! The admin listener: HTTP/1.1 for operators, probes and Prometheus.
//!
//! It shares the thread that accepts gRPC connections. Connections, header bytes and times are
//! therefore limited. It reads no body, except that of `/json`, and each connection serves one
//! request.

use std::{
    convert::Infallible,
    future::{pending, poll_fn},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Incoming},
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::{
    admin::{
        RunningServer, ServerSources,
        metrics::{CONTENT_TYPE as METRICS, PoolMetrics},
    },
    decision::names::{Name, Namespace},
    grpc::{CurrentRules, JSON_BYTES_MAX, JsonService, Routes, access::Access, rpcs},
};

/// Maximum number of connections; further ones are closed at once.
const CONNECTIONS_MAX: usize = 32;
/// Time limit for the headers of a request.
const HEADER_TIME_MAX: Duration = Duration::from_secs(5);
/// Time limit for a connection, including its answer.
const TIME_MAX: Duration = Duration::from_secs(30);
/// Maximum number of bytes of the headers.
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// The pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(50);
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// The admin listener of a server.
#[derive(Debug, Clone, Default)]
pub struct Admin {
    /// `None` if it is off.
    pub listener: Option<Arc<TcpListener>>,
    /// Whether the server counts as ready while the store is unreachable.
    pub ready_when_degraded: bool,
    /// Whether `/metrics` is served.
    pub has_metrics: bool,
    /// The globs of the pools with series.
    pub pools: Vec<String>,
    /// The namespaces of these pools, besides the default one.
    pub namespaces: Vec<Namespace>,
}

impl Admin {
    /// Returns the values that the pages need, in addition to the engine.
    pub(super) fn sources(&self, connections: (Arc<Semaphore>, usize)) -> ServerSources {
        ServerSources { ready_when_degraded: self.ready_when_degraded, rpcs: rpcs(), connections }
    }

    /// Creates the series of pools. Fails if a glob is invalid.
    pub(super) fn pool_metrics(
        &self,
        routes: &Routes,
        rules: Arc<CurrentRules>,
    ) -> Result<PoolMetrics, globset::Error> {
        let routes = routes.clone();
        let settings = Box::new(move |pool: &Name| rules.load().pools.settings(pool));
        let refused = Box::new(move |pool: &Name| routes.refused(pool));
        PoolMetrics::new(&self.pools, &self.namespaces, settings, refused)
    }

    /// Serves the pages. Never completes.
    pub(super) async fn serve(
        self,
        server: Arc<RunningServer>,
        pools: PoolMetrics,
        access: Arc<Access>,
        json: JsonService,
    ) {
        let Some(listener) = self.listener else { return pending().await };
        let is_loopback = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let access = (!is_loopback).then_some(access);
        let pages = AdminPages { server, pools, access, json, has_metrics: self.has_metrics };
        accept(&listener, Arc::new(pages)).await;
    }
}

/// The pages, and the check of their readers.
#[derive(Debug)]
struct AdminPages {
    server: Arc<RunningServer>,
    pools: PoolMetrics,
    /// Checks tokens; `None` on a loopback address.
    access: Option<Arc<Access>>,
    /// The service of Envoy over HTTP/1.1.
    json: JsonService,
    has_metrics: bool,
}

/// Status, content type and body of an answer.
type AdminPage = (StatusCode, &'static str, String);

/// Accepts connections. Never completes.
async fn accept(listener: &TcpListener, pages: Arc<AdminPages>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let Ok(permit) = permits.clone().try_acquire_owned() else { continue };
        let pages = pages.clone();
        tokio::spawn(async move {
            let _permit = permit;
            // The time limit disconnects slow clients.
            let _ = timeout(TIME_MAX, connection(stream, pages)).await;
        });
    }
}

/// Serves one request.
async fn connection(stream: TcpStream, pages: Arc<AdminPages>) {
    let service = service_fn(move |request| {
        let pages = pages.clone();
        async move { Ok::<_, Infallible>(framed(pages.handle(request).await)) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection of the admin listener has failed");
    }
}

impl AdminPages {
    async fn handle(&self, request: Request<Incoming>) -> AdminPage {
        match (request.method(), request.uri().path()) {
            (&Method::POST, "/json") => self.decide(request).await,
            _ => self.answer(&request).await,
        }
    }

    /// Decides about a request of Envoy in JSON.
    async fn decide(&self, request: Request<Incoming>) -> AdminPage {
        let (head, body) = request.into_parts();
        let Some(body) = read(body).await else {
            let error = format!("a body has at most {JSON_BYTES_MAX} bytes\n");
            return text(StatusCode::PAYLOAD_TOO_LARGE, &error);
        };
        let (status, answer) = self.json.answer(&head.headers, &body).await;
        let is_json = [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS].contains(&status);
        (status, if is_json { JSON } else { TEXT }, answer)
    }

    async fn answer(&self, request: &Request<Incoming>) -> AdminPage {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let served = "only GET and HEAD are served, and POST of /json\n";
            return text(StatusCode::METHOD_NOT_ALLOWED, served);
        }
        let path = request.uri().path();
        match path {
            "/livez" => return text(StatusCode::OK, "ok\n"),
            // The name of the page in envoyproxy/ratelimit.
            "/readyz" | "/healthcheck" => {
                return match self.server.readiness().reason() {
                    None => text(StatusCode::OK, "ok\n"),
                    Some(reason) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{reason}\n")),
                };
            }
            "/metrics" | "/status" | "/rlconfig" => {}
            _ => {
                let known = "no such page; there are /metrics, /livez, /readyz, /status, \
                             /healthcheck, /rlconfig and, for POST, /json\n";
                return text(StatusCode::NOT_FOUND, known);
            }
        }
        if let Some(access) = &self.access
            && let Err((is_known, reason)) = access.check_admin(request.headers())
        {
            let status = if is_known { StatusCode::FORBIDDEN } else { StatusCode::UNAUTHORIZED };
            return text(status, &format!("{reason}\n"));
        }
        match path {
            "/metrics" if !self.has_metrics => {
                text(StatusCode::NOT_FOUND, "the metrics are off: [metrics] enabled = false\n")
            }
            "/metrics" => match self.server.metrics(&self.pools).await {
                Ok(metrics) => (StatusCode::OK, METRICS, metrics),
                Err(error) => failed(&error),
            },
            "/rlconfig" => text(StatusCode::OK, &self.json.dump()),
            _ => match serde_json::to_string_pretty(&self.server.status()) {
                Ok(status) => (StatusCode::OK, JSON, status + "\n"),
                Err(error) => failed(&error),
            },
        }
    }
}

/// Reads a body; `None` if it is too long or breaks off. The time of the connection is limited.
async fn read(mut body: Incoming) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        if let Some(data) = frame.ok()?.data_ref() {
            bytes.extend_from_slice(data);
        }
        if bytes.len() > JSON_BYTES_MAX {
            return None;
        }
    }
    Some(bytes)
}

fn text(status: StatusCode, text: &str) -> AdminPage {
    (status, TEXT, text.to_owned())
}

fn failed(error: &dyn std::error::Error) -> AdminPage {
    text(StatusCode::INTERNAL_SERVER_ERROR, &format!("the page cannot be written: {error}\n"))
}

/// Builds the HTTP response of an answer.
fn framed((status, content_type, body): AdminPage) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
        }
        StatusCode::UNAUTHORIZED => {
            headers.insert(hyper::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        _ => {}
    }
    response
}
