//! Connections to Redis whose replies are bounded: an endless reply ends the connection before it
//! fills the memory of the server.

mod reply_size;

use std::{
    io,
    ops::{Deref, DerefMut},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::future::select_ok;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, RedisResult,
    aio::{MultiplexedConnection, PubSub},
};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream, lookup_host},
    task::AbortHandle,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use reply_size::Replies;

use super::address::Endpoint;
use tollgate_telemetry::line_pace::LinePace;

/// Limits the lines about closed connections: a Redis can repeat such a reply.
static UNREADABLE: LinePace = LinePace::new(5, Duration::from_secs(10));

/// A connection, which ends when the last clone is dropped.
#[derive(Debug, Clone)]
pub(super) struct RedisSocket {
    socket: MultiplexedConnection,
    _task: Arc<SocketTask>,
}

/// The task that reads and writes a connection.
#[derive(Debug)]
struct SocketTask(AbortHandle);

impl Drop for SocketTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Deref for RedisSocket {
    type Target = MultiplexedConnection;

    fn deref(&self) -> &MultiplexedConnection {
        &self.socket
    }
}

impl DerefMut for RedisSocket {
    fn deref_mut(&mut self) -> &mut MultiplexedConnection {
        &mut self.socket
    }
}

/// Connects `within` a time. The connection has no response timeout: the deadline of each call bounds
/// its wait.
pub(super) async fn connect(endpoint: &Endpoint, within: Duration) -> RedisResult<RedisSocket> {
    let settings = endpoint.info.redis_settings();
    let connected = async {
        let stream = BoundedStream::open(endpoint).await?;
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let (socket, driver) =
            MultiplexedConnection::new_with_config(settings, stream, config).await?;
        let task = SocketTask(tokio::spawn(driver).abort_handle());
        Ok(RedisSocket { socket, _task: Arc::new(task) })
    };
    let silent = |_| io::Error::from(io::ErrorKind::TimedOut);
    timeout(within, connected).await.map_err(silent)?
}

/// Connects for messages of channels.
pub(super) async fn subscribe(endpoint: &Endpoint) -> RedisResult<PubSub> {
    PubSub::new(endpoint.info.redis_settings(), BoundedStream::open(endpoint).await?).await
}

/// Connects to the first address of a host that accepts.
async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::Error::other(format!("`{host}` has no address")));
    }
    let dials = addresses.into_iter().map(|address| Box::pin(TcpStream::connect(address)));
    select_ok(dials).await.map(|(stream, _)| stream)
}

/// A TCP, TLS or Unix socket.
trait RedisStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> RedisStream for S {}

/// A stream that fails at a reply that is too long, before the client of Redis stores it.
struct BoundedStream {
    stream: Box<dyn RedisStream>,
    replies: Replies,
}

impl BoundedStream {
    async fn open(endpoint: &Endpoint) -> RedisResult<BoundedStream> {
        let stream: Box<dyn RedisStream> = match (endpoint.info.addr(), &endpoint.tls) {
            (ConnectionAddr::Tcp(host, port), _) => Box::new(dial(host, *port).await?),
            (ConnectionAddr::TcpTls { host, port, .. }, Some(tls)) => {
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let stream = dial(host, *port).await?;
                Box::new(TlsConnector::from(tls.clone()).connect(name, stream).await?)
            }
            (ConnectionAddr::Unix(path), _) => Box::new(UnixStream::connect(path).await?),
            _ => return Err((redis::ErrorKind::InvalidClientConfig, "unknown address").into()),
        };
        Ok(BoundedStream { stream, replies: Replies::default() })
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let Err(why) = self.replies.read(&buffer.filled()[before..]) else {
            return Poll::Ready(Ok(()));
        };
        if let Some(suppressed) = UNREADABLE.due() {
            tracing::warn!(suppressed, "closed a connection to Redis: {why}");
        }
        Poll::Ready(Err(io::Error::other(why)))
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
