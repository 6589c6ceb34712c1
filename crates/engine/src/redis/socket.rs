//! A connection to Redis, which belongs to the task that uses it.
//!
//! That task writes the commands and reads the replies itself. The multiplexed connection of
//! redis-rs would pass each batch through a channel to its own task, which means another queue
//! behind that of the pipeline, and two more wake-ups per batch. `resp` writes the script calls,
//! and redis-rs packs the other commands and parses the replies.
//!
//! Replies are bounded: an endless reply ends the connection before it fills the memory of the server.

mod reply_size;

use std::{
    fmt,
    future::poll_fn,
    io, mem,
    pin::{Pin, pin},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use futures_util::future::select_ok;
use redis::{
    Cmd, ConnectionAddr, ErrorKind, Parser, RedisConnectionInfo, RedisFuture, RedisResult,
    ServerErrorKind, Value,
    aio::{ConnectionLike, PubSub},
};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream, lookup_host},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use reply_size::Replies;

use super::{address::Endpoint, resp::CommandWriter};
use tollgate_telemetry::line_pace::LinePace;

/// The space for each read, in bytes.
const READ_SIZE: usize = 16 << 10;
/// The largest buffer of commands or replies that a connection keeps for its next exchange, in bytes.
const BUFFER_MAX: usize = 256 << 10;

/// Limits the log lines about closed connections, because a Redis can repeat such a reply.
static UNREADABLE: LinePace = LinePace::new(5, Duration::from_secs(10));

/// A connection. It runs one exchange at a time.
pub(super) struct RedisSocket {
    stream: BoundedStream,
    /// The commands that are not fully written yet, and how many of their bytes have been written.
    unwritten: Vec<u8>,
    written: usize,
    /// The replies that have arrived, before they are parsed.
    received: Vec<u8>,
    /// The number of replies that Redis owes. An exchange that was dropped leaves its replies to the
    /// next one, which skips them.
    owed: usize,
    /// Whether an exchange has failed.
    is_broken: bool,
    db: i64,
}

/// Connects within the time `within`. The connection has no response timeout, because the deadline
/// of each call bounds its wait.
pub(super) async fn connect(endpoint: &Endpoint, within: Duration) -> RedisResult<RedisSocket> {
    let settings = endpoint.info.redis_settings();
    let connected = async {
        let mut socket = RedisSocket::new(BoundedStream::open(endpoint).await?, settings.db());
        socket.set_up(settings).await?;
        Ok(socket)
    };
    let silent = |_| io::Error::from(io::ErrorKind::TimedOut);
    timeout(within, connected).await.map_err(silent)?
}

impl RedisSocket {
    fn new(stream: BoundedStream, db: i64) -> RedisSocket {
        RedisSocket {
            stream,
            unwritten: Vec::new(),
            written: 0,
            received: Vec::new(),
            owed: 0,
            is_broken: false,
            db,
        }
    }

    /// Sends commands in one write, and returns their replies in order. The outer error means that
    /// the connection has failed and can no longer be used.
    pub(super) async fn exchange(
        &mut self,
        commands: &[Cmd],
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        self.exchange_written(|writer| commands.iter().for_each(|one| writer.packed(one))).await
    }

    /// Sends the commands that `write` appends, as [`RedisSocket::exchange`] does.
    pub(super) async fn exchange_written(
        &mut self,
        write: impl FnOnce(&mut CommandWriter<'_>),
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut writer = CommandWriter::new(&mut self.unwritten);
        write(&mut writer);
        // Redis owes the replies from here on: nothing is awaited before they are counted.
        let count = writer.count();
        let replies = self.receive(count).await?;
        Ok(replies.into_iter().map(Value::extract_error).collect())
    }

    /// Whether the connection can be used for another exchange: Redis owes no reply, and has not closed
    /// it.
    pub(super) fn is_free(&mut self) -> bool {
        let (mut byte, mut context) = ([0], Context::from_waker(Waker::noop()));
        let mut buffer = ReadBuf::new(&mut byte);
        !self.is_broken
            && self.owed == 0
            && Pin::new(&mut self.stream).poll_read(&mut context, &mut buffer).is_pending()
    }

    /// Authenticates, selects the database, and identifies this client to Redis.
    async fn set_up(&mut self, settings: &RedisConnectionInfo) -> RedisResult<()> {
        let mut commands = Vec::with_capacity(3);
        let auth = settings
            .password()
            .map(|password| redis::cmd("AUTH").arg(settings.username()).arg(password).to_owned());
        let select =
            (settings.db() != 0).then(|| redis::cmd("SELECT").arg(settings.db()).to_owned());
        let (has_auth, has_select) = (auth.is_some(), select.is_some());
        commands.extend(auth.into_iter().chain(select));
        commands.push(redis::cmd("CLIENT").arg(&["SETINFO", "LIB-NAME", "tollgate"]).to_owned());
        let mut replies = self.exchange(&commands).await?.into_iter();
        if has_auth && let Some(Err(_)) = replies.next() {
            return Err((ErrorKind::AuthenticationFailed, "Password authentication failed").into());
        }
        if has_select && let Some(Err(error)) = replies.next() {
            let why = error.detail().unwrap_or_default().to_owned();
            let refused = "Redis server refused to switch database";
            return Err((ServerErrorKind::ResponseError.into(), refused, why).into());
        }
        // Redis before 7.2 does not know CLIENT SETINFO.
        Ok(())
    }

    /// Writes the unwritten commands and returns the last `count` replies.
    async fn receive(&mut self, count: usize) -> RedisResult<Vec<Value>> {
        if self.is_broken {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        }
        let skipped = self.owed;
        self.owed += count;
        let replies = match poll_fn(|cx| self.poll_replies(cx)).await {
            Ok(()) => self.parse(),
            Err(error) => Err(error.into()),
        };
        self.is_broken = replies.is_err();
        Ok(replies?.split_off(skipped))
    }

    /// Parses all replies that Redis owed.
    fn parse(&mut self) -> RedisResult<Vec<Value>> {
        let (mut bytes, mut parser) = (&self.received[..], Parser::new());
        let replies = (0..mem::take(&mut self.owed)).map(|_| parser.parse_value(&mut bytes));
        let replies = replies.collect();
        self.received.clear();
        self.received.shrink_to(BUFFER_MAX);
        replies
    }

    /// Writes, and reads until all replies have arrived. Also reads while it cannot write, because
    /// a proxy may accept more commands only after its replies are read.
    fn poll_replies(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.unwritten.len() {
            let rest = &self.unwritten[self.written..];
            match Pin::new(&mut self.stream).poll_write(cx, rest)? {
                Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(written) => self.written += written,
                Poll::Pending => break,
            }
        }
        let is_written = self.written == self.unwritten.len();
        if is_written {
            self.unwritten.clear();
            self.unwritten.shrink_to(BUFFER_MAX);
            self.written = 0;
            // If this is pending, it is called again once the rest of a TLS record can be written.
            let _ = Pin::new(&mut self.stream).poll_flush(cx)?;
        }
        while self.stream.replies.ended() < self.owed {
            self.received.reserve(READ_SIZE);
            if ready!(pin!(self.stream.read_buf(&mut self.received)).poll(cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        let ended = self.stream.replies.take_ended();
        if is_written && ended == Some(self.owed) {
            Poll::Ready(Ok(()))
        } else {
            Poll::Ready(Err(io::Error::other("Redis sent more replies than there were commands")))
        }
    }
}

impl ConnectionLike for RedisSocket {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async {
            command.write_packed_command(&mut self.unwritten);
            Ok(self.receive(1).await?.pop().unwrap_or(Value::Nil))
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a redis::Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            self.unwritten.extend(pipeline.get_packed_pipeline());
            Ok(self.receive(offset + count).await?.split_off(offset))
        })
    }

    fn get_db(&self) -> i64 {
        self.db
    }
}

impl fmt::Debug for RedisSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSocket").field("owed", &self.owed).finish_non_exhaustive()
    }
}

/// Connects for pub/sub messages.
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
    let (stream, _) = select_ok(dials).await?;
    // A long batch over TLS takes several writes.
    stream.set_nodelay(true)?;
    Ok(stream)
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
            _ => return Err((ErrorKind::InvalidClientConfig, "unknown address").into()),
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

#[cfg(test)]
mod tests {
    use std::slice;

    use futures_util::FutureExt;
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// Returns a connection and its other end. Each direction buffers up to `size` bytes.
    fn pair(size: usize) -> (RedisSocket, DuplexStream) {
        let (stream, redis) = duplex(size);
        let stream = BoundedStream { stream: Box::new(stream), replies: Replies::default() };
        (RedisSocket::new(stream, 0), redis)
    }

    fn echo(text: &str) -> Cmd {
        redis::cmd("ECHO").arg(text).to_owned()
    }

    fn text(text: &str) -> RedisResult<Value> {
        Ok(Value::BulkString(text.as_bytes().to_vec()))
    }

    #[tokio::test]
    async fn replies_are_returned_in_order_however_the_bytes_arrive() {
        let (mut socket, mut redis) = pair(1 << 10);
        let commands = [echo("a"), echo("b"), echo("c")];
        let exchange = socket.exchange(&commands);
        let answer = async {
            for byte in b"$1\r\na\r\n-ERR no\r\n*1\r\n:7\r\n" {
                redis.write_all(slice::from_ref(byte)).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let (replies, ()) = tokio::join!(exchange, answer);
        let replies = replies.unwrap();
        assert_eq!(replies[0], text("a"));
        assert_eq!(replies[1].as_ref().unwrap_err().code(), Some("ERR"));
        assert_eq!(replies[2], Ok(Value::Array(vec![Value::Int(7)])));
        assert!(socket.is_free());
    }

    #[tokio::test]
    async fn the_replies_of_a_dropped_exchange_are_skipped() {
        let (mut socket, mut redis) = pair(1 << 10);
        assert!(socket.exchange(&[echo("a"), echo("b")]).now_or_never().is_none());
        assert!(!socket.is_free());
        redis.write_all(b"$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n").await.unwrap();
        assert_eq!(socket.exchange(&[echo("c")]).await, Ok(vec![text("c")]));
        assert!(socket.is_free());
    }

    #[tokio::test]
    async fn commands_and_replies_that_are_longer_than_all_buffers_arrive() {
        let (mut socket, mut redis) = pair(16);
        let long = "x".repeat(1000);
        let commands = [echo(&long), echo(&long)];
        let answer = async {
            let mut sent = vec![0; commands[0].get_packed_command().len()];
            for _ in &commands {
                redis.read_exact(&mut sent).await.unwrap();
                // Reads the next command only after this reply was read, as a proxy may.
                redis.write_all(format!("${}\r\n{long}\r\n", long.len()).as_bytes()).await.unwrap();
            }
        };
        let (replies, ()) = tokio::join!(socket.exchange(&commands), answer);
        assert_eq!(replies, Ok(vec![text(&long), text(&long)]));
    }

    #[tokio::test]
    async fn a_connection_that_redis_closed_or_that_has_an_unexpected_reply_is_not_free() {
        let (mut closed, redis) = pair(16);
        assert!(closed.is_free());
        drop(redis);
        assert!(!closed.is_free());
        assert!(closed.exchange(&[echo("a")]).await.is_err());

        let (mut unasked, mut redis) = pair(64);
        redis.write_all(b"+OK\r\n+OK\r\n").await.unwrap();
        assert!(unasked.exchange(&[echo("a")]).await.is_err());
        assert!(!unasked.is_free());
        assert!(unasked.exchange(&[echo("a")]).await.is_err(), "the connection stays unusable");
    }
}
