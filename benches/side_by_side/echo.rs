//! The baseline: a bare unary echo by tonic, set up like the server.
//!
//! One single-threaded runtime per core, one acceptor that gives connections to the runtimes in
//! turn (`crates/http/src/workers.rs`), TCP_NODELAY, the same allocator, the same profile.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    task::{Context, Poll},
    thread,
};

use bytes::Bytes;
use tokio::{
    runtime::Builder,
    sync::mpsc::{self, Receiver},
};
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{BoxFuture, Service, http},
    server::{Grpc, NamedService, UnaryService},
    transport::Server,
};
use tonic_prost::ProstCodec;

/// Concurrent calls of a connection, as in the server.
const STREAMS_MAX: u32 = 1024;
/// Accepted connections that wait for a runtime.
const DEALT_MAX: usize = 64;
/// Path of the call.
pub(crate) const PATH: &str = "/bench.Echo/Echo";

/// Request and reply.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Message {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) payload: Bytes,
}

/// Serves until the process ends.
pub(crate) fn serve(address: SocketAddr) -> io::Result<()> {
    let cores = thread::available_parallelism()?.get();
    let mut dealt = Vec::new();
    for _ in 0..cores {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (sender, receiver) = mpsc::channel(DEALT_MAX);
        thread::spawn(move || runtime.block_on(answer(receiver)));
        dealt.push(sender);
    }
    let listener = TcpListener::bind(address)?;
    for turn in (0..cores).cycle() {
        let (stream, _) = listener.accept()?;
        dealt[turn].blocking_send(stream).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Serves the connections given to a thread; each registers with this thread's runtime.
async fn answer(dealt: Receiver<TcpStream>) {
    let connections = ReceiverStream::new(dealt).map(|stream| {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        tokio::net::TcpStream::from_std(stream)
    });
    let mut builder = Server::builder().max_concurrent_streams(STREAMS_MAX);
    let served = builder.add_service(Echo).serve_with_incoming(connections);
    served.await.expect("connections come until the process ends");
}

/// The service, as tonic would generate it.
#[derive(Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "bench.Echo";
}

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::<Message, Message>::default());
            Ok(grpc.unary(Unary, request).await)
        })
    }
}

struct Unary;

impl UnaryService<Message> for Unary {
    type Response = Message;
    type Future = Ready<Result<Response<Message>, Status>>;

    fn call(&mut self, request: Request<Message>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}
