//! The rate limit of a server: a tower layer for axum, hyper and tonic.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tonic::{
    Code, Status,
    codegen::http::{HeaderName, HeaderValue, Request, Response, StatusCode},
};
use tonic_types::{ErrorDetails, StatusExt};
use tower_layer::Layer;
use tower_service::Service;

use crate::{Error, Limiter, Rate};

/// Creates the answer to a refused request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http,
    Grpc,
}

/// A tower layer that checks each request against a limiter.
///
/// Over HTTP a refusal is answered with 429, and a check that fails with 503. Over gRPC the codes
/// are RESOURCE_EXHAUSTED with RetryInfo, and UNAVAILABLE. Every answer has the headers `RateLimit`
/// and `RateLimit-Policy`; a refusal over HTTP also has `Retry-After`.
///
/// ```no_run
/// # use tollgate_client::{Connection, Error, RateLayer};
/// # async fn run(connection: Connection) -> Result<(), Error> {
/// let limiter = connection.limiter("api").fail_open();
/// let layer = RateLayer::http(limiter, |request| {
///     let key = request.headers.get("x-api-key")?.to_str().ok()?;
///     Some(format!("key:{key}"))
/// });
/// // axum: Router::new().route(…).layer(layer)
/// # let _ = layer;
/// # Ok(())
/// # }
/// ```
pub struct RateLayer<K> {
    limiter: Limiter,
    key: Arc<K>,
    protocol: Protocol,
}

/// The parts of a request by which its key is chosen.
#[derive(Debug)]
pub struct RequestParts<'a> {
    /// The method; POST over gRPC.
    pub method: &'a tonic::codegen::http::Method,
    /// The URI; its path is the full name of the method over gRPC.
    pub uri: &'a tonic::codegen::http::Uri,
    /// The headers, or the metadata over gRPC.
    pub headers: &'a tonic::codegen::http::HeaderMap,
    /// What other layers have added, for example the address of the peer.
    pub extensions: &'a tonic::codegen::http::Extensions,
}

/// A service behind a [`RateLayer`].
pub struct RateService<S, K> {
    inner: S,
    layer: RateLayer<K>,
}

impl<K: Fn(&RequestParts<'_>) -> Option<String>> RateLayer<K> {
    /// Limits an HTTP server. `key` returns the key of a request; a request without one passes.
    pub fn http(limiter: Limiter, key: K) -> RateLayer<K> {
        RateLayer { limiter, key: Arc::new(key), protocol: Protocol::Http }
    }

    /// Limits a gRPC server. `key` returns the key of a request; a request without one passes.
    pub fn grpc(limiter: Limiter, key: K) -> RateLayer<K> {
        RateLayer { limiter, key: Arc::new(key), protocol: Protocol::Grpc }
    }
}

impl<K> Clone for RateLayer<K> {
    fn clone(&self) -> RateLayer<K> {
        RateLayer { limiter: self.limiter.clone(), key: self.key.clone(), protocol: self.protocol }
    }
}

impl<K> fmt::Debug for RateLayer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RateLayer").field(&self.limiter).field(&self.protocol).finish()
    }
}

impl<S: Clone, K> Clone for RateService<S, K> {
    fn clone(&self) -> RateService<S, K> {
        RateService { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, K> fmt::Debug for RateService<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RateService").field(&self.layer).finish()
    }
}

impl<S: tonic::server::NamedService, K> tonic::server::NamedService for RateService<S, K> {
    const NAME: &'static str = S::NAME;
}

impl<S, K> Layer<S> for RateLayer<K> {
    type Service = RateService<S, K>;

    fn layer(&self, inner: S) -> RateService<S, K> {
        RateService { inner, layer: self.clone() }
    }
}

impl<S, K, B, R> Service<Request<B>> for RateService<S, K>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    K: Fn(&RequestParts<'_>) -> Option<String> + Send + Sync + 'static,
    B: Send + 'static,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The ready service takes the request; the clone is polled for the next one.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let layer = self.layer.clone();
        let key = (layer.key)(&RequestParts {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        });
        Box::pin(async move {
            let Some(key) = key else { return inner.call(request).await };
            match layer.limiter.check(&key).await {
                Ok(rate) if rate.allowed => {
                    let mut response = inner.call(request).await?;
                    add_headers(&mut response, &rate);
                    Ok(response)
                }
                Ok(rate) => Ok(layer.refused(&rate)),
                Err(error) => {
                    layer.limiter.log("the request gets 503 or UNAVAILABLE", &error);
                    Ok(layer.failed(&error))
                }
            }
        })
    }
}

impl<K> RateLayer<K> {
    fn refused<R: Default>(&self, rate: &Rate) -> Response<R> {
        let mut response = match self.protocol {
            Protocol::Http => empty(StatusCode::TOO_MANY_REQUESTS),
            Protocol::Grpc => {
                let details = ErrorDetails::with_retry_info(rate.retry_after);
                let message = "the rate limit is exceeded";
                Status::with_error_details(Code::ResourceExhausted, message, details).into_http()
            }
        };
        add_headers(&mut response, rate);
        response
    }

    /// The limits could not be checked.
    fn failed<R: Default>(&self, error: &Error) -> Response<R> {
        match self.protocol {
            Protocol::Http => {
                let mut response = empty(StatusCode::SERVICE_UNAVAILABLE);
                let rate = Rate::undecided(false, error.retry_after);
                add_headers(&mut response, &rate);
                response
            }
            Protocol::Grpc => {
                let details = ErrorDetails::with_retry_info(error.retry_after);
                let message = "the rate limit cannot be checked";
                Status::with_error_details(Code::Unavailable, message, details).into_http()
            }
        }
    }
}

fn empty<R: Default>(status: StatusCode) -> Response<R> {
    let mut response = Response::new(R::default());
    *response.status_mut() = status;
    response
}

fn add_headers<R>(response: &mut Response<R>, rate: &Rate) {
    for (name, value) in rate.headers() {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
}
