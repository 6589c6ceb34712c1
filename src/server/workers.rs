//! The server's threads: each has a runtime of its own, on which its connections live
//! from the first byte to the last.
//!
//! What a call needs is then on one thread: its connection, its handler, its lane to the
//! store. Connections are dealt out in turn, so that few of them spread over all cores.

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::{Context, Poll},
    thread,
};

use hyper::server::conn::http2;
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    runtime::Builder,
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot, watch,
    },
    task::JoinSet,
    time::timeout,
};

use super::{
    Limits, STREAMS_MAX,
    connections::{Accepted, Connection, PREFACE_TIMEOUT},
    http1,
    pace::{RESET_STREAMS_MAX, Turn},
    pings::{KEEPALIVE, PingTimer},
    streams::Streams,
};
use crate::{
    budget::CallerLimits,
    engine::worker,
    grpc::{self, CONNECTION_WINDOW, FRAME_BYTES_MAX, Routes, STREAM_WINDOW},
};

/// Streams of a connection that end by an error in the client's frames, at most; then the
/// connection is closed.
const FAULTS_MAX: usize = 65_536;
/// Bytes of a stream that wait to be sent, at most; an answer in one part may be longer.
const SEND_BYTES_MAX: usize = 32 * 1024;
/// Connections that wait for a thread to take them.
const DEALT_MAX: usize = 64;

/// The threads of a server. When dropped they end, and their calls with them.
#[derive(Debug)]
pub(super) struct Workers {
    dealt: Vec<mpsc::Sender<Accepted>>,
    next: usize,
    /// Told to take no more connections and to finish their calls.
    drain: watch::Sender<bool>,
    /// Each completes when its thread has finished, or is gone.
    finished: Vec<oneshot::Receiver<()>>,
    /// Dropped to end them at once.
    _end: watch::Sender<()>,
}

impl Workers {
    /// Starts the threads, which serve these routes.
    pub(super) fn start(limits: &Limits, routes: &Routes) -> io::Result<Workers> {
        let (drain, end) = (watch::Sender::new(false), watch::Sender::new(()));
        let (mut dealt, mut finished) = (Vec::new(), Vec::new());
        for number in 1..=limits.workers {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (sender, receiver) = mpsc::channel(DEALT_MAX);
            let (finish, finishing) = oneshot::channel();
            let serve = serve(receiver, routes.clone(), limits.callers, drain.subscribe());
            let mut end = end.subscribe();
            thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
                worker::enter(number);
                runtime.block_on(async {
                    tokio::select! {
                        () = serve => {
                            // Nobody waits for a server that was dropped.
                            let _ = finish.send(());
                            // What is left of its calls, such as a lane's last batch, goes on
                            // until the server ends.
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

    /// Gives a connection to the next thread that takes it; none waits for one that is
    /// held up while others are not. False when a thread has ended before its time.
    pub(super) async fn deal(&mut self, mut accepted: Accepted) -> bool {
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

    /// Has them finish their calls, and waits for it.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        self.drain.send_replace(true);
        let mut all = Ok(());
        for finished in &mut self.finished {
            let ended = |_| io::Error::other("a thread of the server has ended before its time");
            all = all.and(finished.await.map_err(ended));
        }
        all
    }
}

/// Serves connections until it is told to drain and all of them are finished.
async fn serve(
    mut dealt: mpsc::Receiver<Accepted>,
    routes: Routes,
    callers: CallerLimits,
    mut draining: watch::Receiver<bool>,
) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = dealt.recv() => {
                let Some(Accepted { stream, peer, permit }) = accepted else { break };
                // Only here does its runtime know it. One that is gone already is no loss.
                let Ok(stream) = TcpStream::from_std(stream) else { continue };
                let connection = Connection::new(stream, permit, &callers);
                open.spawn(serve_connection(connection, routes.connection(peer), draining.clone()));
            }
            Some(_) = open.join_next() => {}
            () = drain(&mut draining) => break,
        }
    }
    drop(dealt);
    while open.join_next().await.is_some() {}
}

async fn serve_connection(
    connection: Connection,
    services: grpc::Connection,
    mut draining: watch::Receiver<bool>,
) {
    tokio::select! {
        is_http2 = timeout(PREFACE_TIMEOUT, http1::is_http2(&connection)) => match is_http2 {
            Ok(true) => {}
            Ok(false) => return http1::refuse(connection).await,
            Err(_) => return,
        },
        () = drain(&mut draining) => return,
    }
    let mut http2 = http2::Builder::new(Streams(services.holding()));
    http2
        .timer(PingTimer::new())
        // What bounds resets is the pace at which a connection is read.
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        // The library counts over a connection's life; a client without faults makes none.
        .max_local_error_reset_streams(Some(FAULTS_MAX))
        // gRPC has no use for it.
        .auto_date_header(false)
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BYTES_MAX)
        .max_frame_size(FRAME_BYTES_MAX)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    let turn = connection.turn();
    let mut served = pin!(http2.serve_connection(TokioIo::new(connection), services));
    let ended = tokio::select! {
        biased;
        ended = poll_fn(|cx| poll(served.as_mut(), &turn, cx)) => ended,
        () = drain(&mut draining) => {
            served.as_mut().graceful_shutdown();
            poll_fn(|cx| poll(served.as_mut(), &turn, cx)).await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection has failed");
    }
}

/// Serves a connection for a turn.
fn poll<F: Future>(served: Pin<&mut F>, turn: &Turn, cx: &mut Context<'_>) -> Poll<F::Output> {
    turn.begin();
    served.poll(cx)
}

/// Completes when the server drains.
async fn drain(draining: &mut watch::Receiver<bool>) {
    // The sender goes only when the server does.
    let _ = draining.wait_for(|draining| *draining).await;
}
