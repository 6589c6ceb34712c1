//! Servers of the echo service on loopback, and their clients.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::{
    Request, Response,
    body::{Body, Frame, Incoming},
    client::conn::http2::{Builder, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, oneshot},
    task::JoinHandle,
    time::timeout,
};
use tollgate_http::{
    ConnectionPlaces, Peers, Router, Service, TransportLimits, Workers, accept, tls::Tls,
};
use tonic::{
    Status, client::Grpc, codec::CompressionEncoding, codegen::http::uri::PathAndQuery,
    transport::Channel,
};
use tonic_prost::ProstCodec;

use crate::program::{Echo, EchoServer, Handlers, Words};

/// Maximum wait for an expected event.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of an answer that a raw connection accepts while nobody reads them.
pub const WINDOW: u32 = 64 * 1024;
const CONNECTIONS_MAX: usize = 100;

/// A running server.
pub struct Server {
    pub address: SocketAddr,
    pub echo: Arc<Echo>,
    stop: oneshot::Sender<()>,
    stopped: JoinHandle<()>,
}

impl Server {
    pub async fn start(limits: TransportLimits, tls: Option<Tls>) -> Server {
        let echo = Arc::new(Echo::default());
        let handlers = Arc::new(Handlers(echo.clone()));
        let service = Service::new(&echo, handlers, EchoServer::new);
        let others = tonic::service::Routes::default();
        let router = Router::new(echo.clone(), vec![Some(service)], others);
        let mut workers = Workers::start(2, &router, tls.as_ref()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let places = ConnectionPlaces {
            permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            connections_max: CONNECTIONS_MAX,
            peers: Peers::new(&limits),
        };
        let (stop, stopping) = oneshot::channel();
        let stopped = tokio::spawn(async move {
            tokio::select! {
                () = accept(&listener, &places, &mut workers) => panic!("a thread has ended"),
                _ = stopping => workers.finish().await.unwrap(),
            }
        });
        Server { address, echo, stop, stopped }
    }

    /// Drains the server.
    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        timeout(PATIENCE, self.stopped).await.unwrap().unwrap();
    }

    pub async fn client(&self) -> Client {
        let endpoint = Channel::from_shared(format!("http://{}", self.address)).unwrap();
        Client(Grpc::new(endpoint.connect().await.unwrap()))
    }

    /// Opens a connection whose bodies the test reads and writes itself.
    pub async fn raw(&self) -> SendRequest<RawBody> {
        raw(TcpStream::connect(self.address).await.unwrap()).await
    }
}

/// Speaks HTTP/2 on a stream, with a flow-control window of [`WINDOW`].
pub async fn raw<S>(stream: S) -> SendRequest<RawBody>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http2 = Builder::new(TokioExecutor::new());
    http2.initial_stream_window_size(WINDOW);
    let (sender, connection) = http2.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// A client of the echo service.
#[derive(Clone)]
pub struct Client(Grpc<Channel>);

impl Client {
    pub fn with_gzip(self) -> Client {
        Client(self.0.send_compressed(CompressionEncoding::Gzip))
    }

    pub async fn call(
        &mut self,
        path: &'static str,
        request: tonic::Request<Words>,
    ) -> Result<Words, Status> {
        self.0.ready().await.unwrap();
        let path = PathAndQuery::from_static(path);
        let answer = self.0.unary(request, path, ProstCodec::default());
        timeout(PATIENCE, answer).await.unwrap().map(tonic::Response::into_inner)
    }

    pub async fn say(&mut self, payload: impl Into<Bytes>) -> Result<Words, Status> {
        self.call(crate::program::SAY, words(payload, 0)).await
    }
}

pub fn words(payload: impl Into<Bytes>, delay_millis: u64) -> tonic::Request<Words> {
    tonic::Request::new(Words { payload: payload.into(), delay_millis })
}

/// A body of one chunk, which ends after it or never.
pub struct RawBody {
    pub chunk: Option<Bytes>,
    pub has_end: bool,
}

impl Body for RawBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.chunk.take() {
            Some(chunk) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
            None if self.has_end => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// Makes a call with this framed message, and reads only the headers of the answer.
pub async fn send(
    sender: &mut SendRequest<RawBody>,
    message: Vec<u8>,
    has_end: bool,
) -> Response<Incoming> {
    let request = Request::post(format!("http://localhost{}", crate::program::SAY))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", "300m")
        .body(RawBody { chunk: Some(message.into()), has_end })
        .unwrap();
    sender.ready().await.unwrap();
    timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap()
}
