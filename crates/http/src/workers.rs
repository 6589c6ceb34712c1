//! The worker threads of a server. Each has its own runtime, which serves a connection from its
//! first to its last byte.
//!
//! All parts of a call therefore run on one thread: its connection, its handler and its pipeline to
//! the store. Connections are distributed round robin, so that even a few of them use all cores.

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::{Context, Poll},
    thread,
    time::Duration,
};

use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::TcpStream,
    runtime::Builder,
    sync::{
        OwnedSemaphorePermit,
        mpsc::{self, error::TrySendError},
        oneshot, watch,
    },
    task::JoinSet,
    time::timeout,
};

use crate::{
    connections::{Accepted, CallerConnection},
    fast_path::FRAME_BYTES_MAX,
    http1::{self, Opening},
    limits::TransportLimits,
    pace::{RESET_STREAMS_MAX, ReadBudget},
    peers::PeerConnection,
    permits::{CONNECTION_WINDOW, STREAM_WINDOW},
    program::Program,
    router::{ConnectionServices, Router},
    stream::Stream,
    streams::Streams,
    tls::{Tls, TlsConnection},
};

/// Maximum number of streams of a connection that end because of an error in the client's frames.
/// Above it, the connection is closed.
const FAULTS_MAX: usize = 65_536;
/// Maximum number of bytes of a stream that wait to be sent. An answer that is written in one piece
/// may be longer.
const SEND_BYTES_MAX: usize = 32 * 1024;
/// A peer that is silent for this time is sent an HTTP/2 ping, and has the same time to answer.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// Maximum number of connections that wait for one thread.
const DEALT_MAX: usize = 64;

/// The worker threads. Dropping them ends the threads and their calls.
#[derive(Debug)]
pub struct Workers {
    dealt: Vec<mpsc::Sender<Accepted>>,
    next: usize,
    /// Signals the threads to stop accepting connections and to finish their calls.
    drain: watch::Sender<bool>,
    /// One receiver per thread, which completes when the thread has finished or ended.
    finished: Vec<oneshot::Receiver<()>>,
    /// Dropping it ends the threads immediately.
    _end: watch::Sender<()>,
}

impl Workers {
    /// Starts this number of threads, which serve the calls of a router. Fails if a runtime or a
    /// thread cannot be created.
    pub fn start<P: Program>(
        number: usize,
        router: &Router<P>,
        tls: Option<&Tls>,
    ) -> io::Result<Workers> {
        let (drain, end) = (watch::Sender::new(false), watch::Sender::new(()));
        let (mut dealt, mut finished) = (Vec::new(), Vec::new());
        for number in 1..=number {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (sender, receiver) = mpsc::channel(DEALT_MAX);
            let (finish, finishing) = oneshot::channel();
            let program = router.program().clone();
            let serving =
                Serving { router: router.clone(), tls: tls.cloned(), draining: drain.subscribe() };
            let serve = serve(receiver, serving);
            let mut end = end.subscribe();
            thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
                program.enter_thread(number);
                runtime.block_on(async {
                    tokio::select! {
                        () = serve => {
                            // The receiver is dropped if the server was dropped.
                            let _ = finish.send(());
                            // Background work of the calls, such as the last batch of a pipeline,
                            // continues until the server ends.
                            let _ = end.changed().await;
                        }
                        _ = end.changed() => {}
                    }
                });
            })?;
            dealt.push(sender);
            finished.push(finishing);
        }
        Ok(Workers { dealt, next: 0, drain, finished, _end: end })
    }

    /// Passes a connection to the next thread with space in its queue; waits only if all queues are
    /// full. Returns false if a thread has ended early.
    pub(crate) async fn deal(&mut self, mut accepted: Accepted) -> bool {
        for _ in 0..self.dealt.len() {
            self.next = (self.next + 1) % self.dealt.len();
            match self.dealt[self.next].try_send(accepted) {
                Ok(()) => return true,
                Err(TrySendError::Full(back)) => accepted = back,
                Err(TrySendError::Closed(_)) => return false,
            }
        }
        self.dealt[self.next].send(accepted).await.is_ok()
    }

    /// Signals the threads to finish their calls, and waits until they have. Fails if a thread has
    /// ended early.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.drain.send_replace(true);
        let mut all = Ok(());
        for finished in &mut self.finished {
            let ended = |_| io::Error::other("a worker thread has ended unexpectedly");
            all = all.and(finished.await.map_err(ended));
        }
        all
    }
}

/// The state that a thread shares with its connections.
struct Serving<P> {
    router: Router<P>,
    tls: Option<Tls>,
    draining: watch::Receiver<bool>,
}

/// Serves connections until the drain begins and all of them have finished.
async fn serve<P: Program>(mut dealt: mpsc::Receiver<Accepted>, serving: Serving<P>) {
    let mut open = JoinSet::new();
    let mut draining = serving.draining.clone();
    loop {
        tokio::select! {
            accepted = dealt.recv() => {
                let Some(Accepted { stream, peer, permit }) = accepted else { break };
                // Registers the stream with this runtime. A failure means that the connection is
                // already closed.
                let Ok(stream) = TcpStream::from_std(stream) else { continue };
                // Small answers must not wait for TCP acknowledgements. A socket that is already
                // closed fails at its first read.
                let _ = stream.set_nodelay(true);
                let (router, draining) = (serving.router.clone(), draining.clone());
                if let Some(tls) = serving.tls.clone() {
                    open.spawn(serve_tls(tls, stream, peer, permit, router, draining));
                    continue;
                }
                let limits = *peer.limits();
                let connection = CallerConnection::new(Stream::Left(stream), permit, &peer);
                let services = router.connection(peer, None);
                open.spawn(serve_connection(connection, services, limits, None, draining));
            }
            Some(_) = open.join_next() => {}
            () = drain(&mut draining) => break,
        }
    }
    drop(dealt);
    while open.join_next().await.is_some() {}
}

/// Serves one connection with TLS, from its handshake.
async fn serve_tls<P: Program>(
    tls: Tls,
    stream: TcpStream,
    peer: PeerConnection,
    permit: OwnedSemaphorePermit,
    router: Router<P>,
    mut draining: watch::Receiver<bool>,
) {
    let limits = *peer.limits();
    let name = router.program().rejections().program();
    let accepted = tokio::select! {
        accepted = tls.accept(stream, limits.handshake_timeout, name) => accepted,
        () = drain(&mut draining) => return,
    };
    let Some(TlsConnection { stream, names }) = accepted else { return };
    let connection = CallerConnection::new(stream, permit, &peer);
    let services = router.connection(peer, names);
    serve_connection(connection, services, limits, Some(tls), draining).await;
}

/// Serves one connection: checks the preface, then serves HTTP/2 until the connection ends or
/// reaches its maximum age, or the drain completes.
async fn serve_connection<P: Program>(
    mut connection: CallerConnection,
    services: ConnectionServices<P>,
    limits: TransportLimits,
    tls: Option<Tls>,
    mut draining: watch::Receiver<bool>,
) {
    let opening = tokio::select! {
        opening = connection.opening() => opening,
        () = drain(&mut draining) => return,
    };
    match opening {
        Ok(Opening::Http2 | Opening::Closed) => {}
        Ok(opening) => {
            let name = services.program().rejections().program();
            return http1::reject(connection.stream(), opening, tls.is_some(), name).await;
        }
        Err(_) => return,
    }
    let mut http2 = http2::Builder::new(Streams(services.budget().clone()));
    http2
        .timer(TokioTimer::new())
        // Resets are bounded by the pace of reading, so hyper's limit must not apply.
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        // hyper counts these over the whole lifetime of a connection; a correct client causes none.
        .max_local_error_reset_streams(Some(FAULTS_MAX))
        // gRPC does not use the date header.
        .auto_date_header(false)
        .max_concurrent_streams(limits.connection_streams)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BYTES_MAX)
        .max_frame_size(FRAME_BYTES_MAX)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    let reads = connection.read_budget();
    let age = tls.and_then(|tls| tls.connection_age());
    let mut served = pin!(http2.serve_connection(TokioIo::new(connection), services));
    let ended = tokio::select! {
    biased;
    ended = poll_fn(|cx| poll(served.as_mut(), &reads, cx)) => ended,
        is_old = retire(&mut draining, age) => {
            served.as_mut().graceful_shutdown();
            let finish = poll_fn(|cx| poll(served.as_mut(), &reads, cx));
            if is_old {
                // A stream could keep the connection, and a revoked certificate, alive forever.
                match timeout(P::CALL_TIME_MAX, finish).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            } else {
                // The server limits the time of a drain.
                finish.await
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection has failed");
    }
}

/// Renews the read budget of a connection and serves it within the budget.
fn poll<F: Future>(
    served: Pin<&mut F>,
    reads: &ReadBudget,
    cx: &mut Context<'_>,
) -> Poll<F::Output> {
    reads.renew();
    served.poll(cx)
}

/// Completes when the connection must end gracefully: with true at its maximum age, or with false
/// when the drain begins.
async fn retire(draining: &mut watch::Receiver<bool>, age: Option<Duration>) -> bool {
    match age {
        None => drain(draining).await,
        Some(age) => return timeout(age, drain(draining)).await.is_err(),
    }
    false
}

/// Completes when the drain begins.
async fn drain(draining: &mut watch::Receiver<bool>) {
    // The sender is dropped only with the server.
    let _ = draining.wait_for(|draining| *draining).await;
}
