//! An accepted connection. It limits the time until the peer sends the HTTP/2 preface, the pace of
//! its frames, and the memory of its headers.

use std::{
    future::Future,
    io, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::OwnedSemaphorePermit,
    time::{Sleep, sleep},
};

use crate::{
    http1::{self, Opening},
    pace::{PREFACE_BYTES, Pace, ReadBudget},
    peers::{ConnectionCharge, PeerConnection},
    stream::Stream,
};
use tollgate_telemetry::limits::ReachedLimit;

/// An accepted connection that moves to its worker thread.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) stream: std::net::TcpStream,
    pub(super) peer: PeerConnection,
    pub(super) permit: OwnedSemaphorePermit,
}

/// A connection, which counts towards the limit until it is closed.
#[derive(Debug)]
pub(super) struct CallerConnection {
    stream: Stream,
    /// Timer that runs until the preface has arrived.
    mute: Option<Pin<Box<Sleep>>>,
    received: usize,
    pace: Pace,
    /// The charge for the memory of its unfinished frame and of its headers.
    charge: ConnectionCharge,
    /// Whether the client does not read the sent bytes. Reading stops then, because each request
    /// produces more bytes to send.
    is_blocked: bool,
    /// Whether a read waits until the client reads bytes again.
    is_read_postponed: bool,
    _permit: OwnedSemaphorePermit,
}

impl CallerConnection {
    /// Wraps a stream that is registered with the runtime of this thread.
    pub(super) fn new(
        stream: Stream,
        permit: OwnedSemaphorePermit,
        peer: &PeerConnection,
    ) -> CallerConnection {
        let (limits, charge) = (peer.limits(), peer.charge());
        let mute = Some(Box::pin(sleep(limits.preface_timeout)));
        let pace = Pace::new(limits.resets_per_second);
        let (is_blocked, is_read_postponed) = (false, false);
        CallerConnection {
            stream,
            mute,
            received: 0,
            pace,
            charge,
            is_blocked,
            is_read_postponed,
            _permit: permit,
        }
    }

    /// Returns the handle that the worker uses to renew the read budget.
    pub(super) fn read_budget(&self) -> ReadBudget {
        self.pace.read_budget()
    }

    /// Records whether the client reads the sent bytes, and wakes a read that waits for that.
    fn record_sent<T>(
        &mut self,
        cx: &Context<'_>,
        sent: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.is_blocked = sent.is_pending();
        if !self.is_blocked && mem::take(&mut self.is_read_postponed) {
            cx.waker().wake_by_ref();
        }
        sent
    }

    /// Peeks at the first bytes. Fails if none arrive before the preface timeout.
    pub(super) async fn opening(&mut self) -> io::Result<Opening> {
        let opening = http1::opening(&mut self.stream);
        let Some(mute) = &mut self.mute else { return opening.await };
        tokio::select! {
            biased;
            opening = opening => opening,
            () = mute => {
                ReachedLimit::PrefaceTime.record();
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }

    /// Returns the stream, for bytes that are not HTTP/2.
    pub(super) fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }
}

impl AsyncRead for CallerConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_blocked {
            self.is_read_postponed = true;
            return Poll::Pending;
        }
        let most = ready!(self.pace.poll_ready(cx));
        let before = buffer.filled().len();
        let read = if most < buffer.remaining() {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
            let read = Pin::new(&mut self.stream).poll_read(cx, &mut part);
            let bytes = part.filled().len();
            buffer.advance(bytes);
            read
        } else {
            Pin::new(&mut self.stream).poll_read(cx, buffer)
        };
        self.pace.count(&buffer.filled()[before..]);
        let memory = self.pace.memory();
        if !self.charge.set(memory) {
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        }
        let Some(mute) = &mut self.mute else { return read };
        if read.is_pending() {
            ready!(mute.as_mut().poll(cx));
            ReachedLimit::PrefaceTime.record();
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.received += buffer.filled().len() - before;
        if self.received >= PREFACE_BYTES {
            self.mute = None;
        }
        read
    }
}

impl AsyncWrite for CallerConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.record_sent(cx, sent)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS buffers bytes that the socket does not accept yet. A plain socket needs no flush.
        let sent = Pin::new(&mut self.stream).poll_flush(cx);
        self.record_sent(cx, sent)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.record_sent(cx, sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
