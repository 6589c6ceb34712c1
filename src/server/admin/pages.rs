//! The pages of the admin listener by path, and the check of who may read them.

use std::sync::Arc;

use http_body_util::{BodyExt, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ALLOW, HeaderValue, WWW_AUTHENTICATE},
};

use super::console::Console;
use crate::grpc::{JSON_BYTES_MAX, JsonService, access::Access};
use tollgate_status::{
    RunningServer, guard,
    metrics::{CONTENT_TYPE as METRICS, PoolMetrics},
    page::{self, PageBody},
};

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
/// The pages for programs. All other paths belong to the console.
const PATHS: [&str; 7] =
    ["/livez", "/readyz", "/healthcheck", "/metrics", "/status", "/rlconfig", "/json"];

const HOST_REFUSED: &str = "Host must be an address, a name without a dot, or a name in .localhost, \
                            .local or .internal; a proxy can send `Host: localhost`";

const ORIGIN_REFUSED: &str = "this page accepts no requests from other web sites";

/// Status, content type and body of an answer.
type AdminPage = (StatusCode, &'static str, String);

/// The pages, and the check of who may read them.
#[derive(Debug)]
pub(super) struct AdminPages {
    pub(super) server: Arc<RunningServer>,
    pub(super) pools: Arc<PoolMetrics>,
    /// Checks tokens. `None` on a loopback address, where `Host` is checked instead.
    pub(super) access: Option<Arc<Access>>,
    /// Envoy's rate limit service over HTTP/1.1.
    pub(super) json: JsonService,
    pub(super) has_metrics: bool,
    /// The console; `None` if it is off.
    pub(super) console: Option<Arc<Console>>,
}

impl AdminPages {
    /// Answers a request.
    pub(super) async fn handle(&self, request: Request<Incoming>) -> Response<PageBody> {
        match (request.method(), request.uri().path(), &self.console) {
            (&Method::POST, "/json", _) => framed(self.decide(request).await),
            (_, path, Some(console)) if !PATHS.contains(&path) => console.answer(request).await,
            _ => framed(self.answer(&request).await),
        }
    }

    /// Answers a request for Envoy's rate limit service in JSON.
    async fn decide(&self, request: Request<Incoming>) -> AdminPage {
        let (head, body) = request.into_parts();
        // Otherwise web sites could use up the limits of services on this machine.
        let is_foreign = guard::is_foreign(&head.headers);
        if self.access.is_none() && (is_foreign || !guard::is_private_host(&head.headers)) {
            let reason = if is_foreign { ORIGIN_REFUSED } else { HOST_REFUSED };
            return text(StatusCode::FORBIDDEN, &format!("{reason}\n"));
        }
        let scope = match self.json.scope(&head.headers) {
            Ok(scope) => scope,
            Err((status, reason)) => return (status, TEXT, reason),
        };
        let Ok(body) = Limited::new(body, JSON_BYTES_MAX).collect().await else {
            let error = format!("the body exceeds {JSON_BYTES_MAX} bytes\n");
            return text(StatusCode::PAYLOAD_TOO_LARGE, &error);
        };
        let (status, answer) = self.json.answer(scope, &body.to_bytes()).await;
        let is_json = [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS].contains(&status);
        (status, if is_json { JSON } else { TEXT }, answer)
    }

    async fn answer(&self, request: &Request<Incoming>) -> AdminPage {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let served = "only GET and HEAD are supported, and POST for /json\n";
            return text(StatusCode::METHOD_NOT_ALLOWED, served);
        }
        let path = request.uri().path();
        match path {
            "/livez" => return text(StatusCode::OK, "ok\n"),
            // The path that envoyproxy/ratelimit uses.
            "/readyz" | "/healthcheck" => {
                return match self.server.readiness().reason() {
                    None => text(StatusCode::OK, "ok\n"),
                    Some(reason) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{reason}\n")),
                };
            }
            "/metrics" | "/status" | "/rlconfig" => {}
            _ => {
                let known = "no such page; try /metrics, /livez, /readyz, /status, \
                             /healthcheck, /rlconfig or, for POST, /json\n";
                return text(StatusCode::NOT_FOUND, known);
            }
        }
        let refused = match &self.access {
            Some(access) => access.check_admin(request.headers()).err(),
            // DNS rebinding: another site can resolve its own name to this address.
            None if !guard::is_private_host(request.headers()) => {
                Some((true, HOST_REFUSED.to_owned()))
            }
            None => None,
        };
        if let Some((is_known, reason)) = refused {
            let status = if is_known { StatusCode::FORBIDDEN } else { StatusCode::UNAUTHORIZED };
            return text(status, &format!("{reason}\n"));
        }
        match path {
            "/metrics" if !self.has_metrics => {
                text(StatusCode::NOT_FOUND, "metrics are disabled by [metrics] enabled = false\n")
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

fn text(status: StatusCode, text: &str) -> AdminPage {
    (status, TEXT, text.to_owned())
}

fn failed(error: &dyn std::error::Error) -> AdminPage {
    text(StatusCode::INTERNAL_SERVER_ERROR, &format!("the page cannot be written: {error}\n"))
}

/// Builds the HTTP response of an answer.
fn framed((status, content_type, body): AdminPage) -> Response<PageBody> {
    let mut response = page::full(status, HeaderValue::from_static(content_type), body);
    let headers = response.headers_mut();
    match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
        }
        StatusCode::UNAUTHORIZED => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        _ => {}
    }
    page::secured(response)
}
