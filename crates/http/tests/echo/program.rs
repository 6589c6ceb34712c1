//! A program with one service, which answers each message with its payload.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::{HeaderMap, Request, Response, body::Incoming, http::Extensions};
use prost::Message;
use tokio::time::sleep;
use tollgate_http::{
    AnswerObserver, Authorized, CertificateNames, FastPath, OnSent, Program, Rejections, Route,
    SampledCall, frame,
};
use tollgate_telemetry::spans::{self, Entered};
use tonic::{
    Code, Status,
    body::Body,
    codec::CompressionEncoding,
    codegen::{Body as HttpBody, Service, StdError},
    server::{Grpc, UnaryService},
};
use tonic_prost::ProstCodec;

pub const SAY: &str = "/echo.Echo/Say";
pub const LIST: &str = "/echo.Echo/ListWords";
/// Maximum message length, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

static REJECTIONS: Rejections =
    Rejections::new("Echo", "echo.example", "1 MiB is the maximum of Echo");

static ROUTES: [Route; 3] = {
    let other = Route {
        position: 0,
        service: None,
        fast_path: None,
        frees_capacity: false,
        is_listing: false,
    };
    let say = Route { position: 1, service: Some(0), fast_path: Some(0), ..other };
    let list = Route { position: 2, service: Some(0), is_listing: true, ..other };
    [other, say, list]
};

/// Request and response.
#[derive(Clone, PartialEq, Message)]
pub struct Words {
    #[prost(bytes = "bytes", tag = "1")]
    pub payload: Bytes,
    /// Time until the answer.
    #[prost(uint64, tag = "2")]
    pub delay_millis: u64,
}

/// Marks a request whose quota is used up.
#[derive(Clone)]
struct UsedUp;

/// The program, with records of what it has observed.
#[derive(Debug, Default)]
pub struct Echo {
    pub connections: AtomicUsize,
    pub fast: AtomicUsize,
    pub by_tonic: AtomicUsize,
    pub sent: AtomicUsize,
    /// Answers whose action was dropped, sent or not.
    pub ended: AtomicUsize,
    pub in_flight: Arc<()>,
    pub failures: Mutex<Vec<Code>>,
    /// The status of each answer in its headers; `None` if it follows a message.
    pub observed: Arc<Mutex<Vec<Option<String>>>>,
    pub sampled: Arc<Mutex<Vec<Code>>>,
}

impl Echo {
    /// Returns a header, for instance the one that names the caller.
    fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h [u8]> {
        headers.get(name).map(|value| value.as_bytes())
    }
}

impl Program for Echo {
    type Connection = ();
    type Caller = ();
    type InFlight = Arc<()>;
    type Span = SampledEcho;

    const CALL_TIME_MAX: Duration = Duration::from_secs(5);

    fn rejections(&self) -> &'static Rejections {
        &REJECTIONS
    }

    fn enter_thread(&self, number: usize) {
        assert!(number > 0);
    }

    fn connect(&self, _: Option<Arc<CertificateNames>>) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    fn route(&self, path: &str) -> &'static Route {
        match path {
            SAY => &ROUTES[1],
            LIST => &ROUTES[2],
            _ => &ROUTES[0],
        }
    }

    fn sample(&self, _: &str, headers: &HeaderMap) -> Option<Box<SampledEcho>> {
        Echo::header(headers, "sampled")?;
        Some(Box::new(SampledEcho(self.sampled.clone())))
    }

    fn authorize(
        &self,
        (): &(),
        request: &mut Request<Incoming>,
        _: Option<&mut SampledEcho>,
    ) -> Result<Authorized<()>, Status> {
        if Echo::header(request.headers(), "caller") == Some(b"stranger") {
            return Err(Status::permission_denied("a stranger"));
        }
        if Echo::header(request.headers(), "quota") == Some(b"used-up") {
            request.extensions_mut().insert(UsedUp);
        }
        let observer = Box::new(Observer(self.observed.clone()));
        Ok(Authorized { caller: (), observer: Some(observer) })
    }

    fn is_hidden(&self, path: &str) -> bool {
        path.starts_with("/hidden.")
    }

    fn admit(&self, (): &(), _: &Route, extensions: &Extensions) -> Result<Arc<()>, Status> {
        match extensions.get() {
            Some(UsedUp) => Err(Status::resource_exhausted("the quota is used up")),
            None => Ok(self.in_flight.clone()),
        }
    }

    fn tenant<'e>(&self, _: &'e Extensions) -> &'e [u8] {
        &[]
    }

    fn log_failure(&self, _: &Route, (): &(), status: &Status) {
        self.failures.lock().unwrap().push(status.code());
    }
}

#[derive(Debug)]
struct Observer(Arc<Mutex<Vec<Option<String>>>>);

impl AnswerObserver for Observer {
    fn observe(self: Box<Self>, headers: &HeaderMap) {
        let status = headers.get("grpc-status").map(|status| status.to_str().unwrap().to_owned());
        self.0.lock().unwrap().push(status);
    }
}

/// A span that records its end.
#[derive(Debug)]
pub struct SampledEcho(Arc<Mutex<Vec<Code>>>);

impl SampledCall for SampledEcho {
    fn enter(&self) -> Entered {
        spans::enter(None)
    }

    fn end(self: Box<Self>, code: Code) {
        self.0.lock().unwrap().push(code);
    }
}

/// The service.
#[derive(Debug)]
pub struct Handlers(pub Arc<Echo>);

impl Handlers {
    async fn say(&self, words: Words) -> Result<tonic::Response<Words>, Status> {
        if words.payload == "fail" {
            return Err(Status::failed_precondition("as asked"));
        }
        if words.delay_millis > 0 {
            sleep(Duration::from_millis(words.delay_millis)).await;
        }
        let (echo, ended) = (self.0.clone(), Ended(self.0.clone()));
        let on_sent = OnSent::new(move || {
            let _ = &ended;
            echo.sent.fetch_add(1, Ordering::Relaxed);
        });
        Ok(on_sent.attach(tonic::Response::new(words)))
    }
}

/// Counts an answer when it is dropped.
struct Ended(Arc<Echo>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl FastPath for Handlers {
    const MESSAGE_BYTES_MAX: usize = MESSAGE_BYTES_MAX;

    async fn answer(
        &self,
        method: usize,
        request: tonic::Request<Bytes>,
    ) -> Result<tonic::Response<Vec<u8>>, Status> {
        assert_eq!(method, 0);
        self.0.fast.fetch_add(1, Ordering::Relaxed);
        let words = Words::decode(request.into_inner())
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.say(words).await.map(frame)
    }
}

/// The service behind tonic, as tonic's generator writes it.
#[derive(Debug, Clone)]
pub struct EchoServer(Arc<Handlers>);

impl EchoServer {
    pub fn new(handlers: Arc<Handlers>) -> EchoServer {
        EchoServer(handlers)
    }
}

type Later<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl<B> Service<Request<B>> for EchoServer
where
    B: HttpBody + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Later<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let say = Say(self.0.clone());
        Box::pin(async move {
            let grpc = Grpc::new(ProstCodec::<Words, Words>::default());
            let grpc = grpc.accept_compressed(CompressionEncoding::Gzip);
            Ok(grpc.max_decoding_message_size(MESSAGE_BYTES_MAX).unary(say, request).await)
        })
    }
}

struct Say(Arc<Handlers>);

impl UnaryService<Words> for Say {
    type Response = Words;
    type Future = Later<tonic::Response<Words>, Status>;

    fn call(&mut self, request: tonic::Request<Words>) -> Self::Future {
        let handlers = self.0.clone();
        Box::pin(async move {
            handlers.0.by_tonic.fetch_add(1, Ordering::Relaxed);
            handlers.say(request.into_inner()).await
        })
    }
}
