//! Accepted connections, bounded in number and in how long they may be mute.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};

use super::workers::Workers;

/// How long a peer may take to say that it speaks HTTP/2.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`
const PREFACE_BYTES: usize = 24;
/// After a failed accept, as a rule for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A connection on its way to its thread.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) stream: std::net::TcpStream,
    pub(super) permit: OwnedSemaphorePermit,
}

/// Accepts connections as long as all threads are there and deals them out, as many at a
/// time as there are permits; further ones are closed at once.
pub(super) async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    workers: &mut Workers,
) {
    loop {
        // A connection that is gone already is no reason to pause.
        let accepted = listener.accept().await.map(|(stream, _)| stream.into_std());
        let stream = match accepted {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) | Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        match permits.clone().try_acquire_owned() {
            Ok(permit) => {
                if !workers.deal(Accepted { stream, permit }).await {
                    return;
                }
            }
            Err(_) => {
                tracing::debug!("as many connections as allowed; a further one is closed");
            }
        }
    }
}

/// A connection that counts until it is closed.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// Runs until the preface has come.
    mute: Option<Pin<Box<Sleep>>>,
    received: usize,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    /// A connection of this thread's runtime.
    pub(super) fn new(stream: TcpStream, permit: OwnedSemaphorePermit) -> Connection {
        // Small answers must not wait for acknowledgements. A socket that is
        // already gone fails at its first read.
        let _ = stream.set_nodelay(true);
        let mute = Some(Box::pin(sleep(PREFACE_TIMEOUT)));
        Connection { stream, mute, received: 0, _permit: permit }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let Some(mute) = &mut self.mute else { return read };
        if read.is_pending() {
            ready!(mute.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.received += buffer.filled().len() - before;
        if self.received >= PREFACE_BYTES {
            self.mute = None;
        }
        read
    }
}

impl AsyncWrite for Connection {
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

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
