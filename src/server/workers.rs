//! The server's threads: each has a runtime of its own, on which its connections live
//! from the first byte to the last.
//!
//! What a call needs is then on one thread: its connection, its handler, its lane to the
//! store. Connections are dealt out in turn, so that few of them spread over all cores.

use std::{io, pin::pin, thread};

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    net::TcpStream,
    runtime::Builder,
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot, watch,
    },
    task::JoinSet,
};

use super::{
    STREAMS_MAX,
    connections::{Accepted, Connection},
    pings::{KEEPALIVE, PingTimer},
};
use crate::{
    engine::worker,
    grpc::{FRAME_BYTES_MAX, Routes},
};

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
    /// Starts so many threads, which serve these routes.
    pub(super) fn start(number: usize, routes: &Routes) -> io::Result<Workers> {
        let (drain, end) = (watch::Sender::new(false), watch::Sender::new(()));
        let (mut dealt, mut finished) = (Vec::new(), Vec::new());
        for number in 1..=number {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (sender, receiver) = mpsc::channel(DEALT_MAX);
            let (finish, finishing) = oneshot::channel();
            let serve = serve(receiver, routes.clone(), drain.subscribe());
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
    mut draining: watch::Receiver<bool>,
) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = dealt.recv() => {
                let Some(Accepted { stream, permit }) = accepted else { break };
                // Only here does its runtime know it. One that is gone already is no loss.
                let Ok(stream) = TcpStream::from_std(stream) else { continue };
                let connection = Connection::new(stream, permit);
                open.spawn(serve_connection(connection, routes.clone(), draining.clone()));
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
    routes: Routes,
    mut draining: watch::Receiver<bool>,
) {
    let mut http2 = http2::Builder::new(TokioExecutor::new());
    http2
        .timer(PingTimer::new())
        // gRPC has no use for it.
        .auto_date_header(false)
        .max_concurrent_streams(STREAMS_MAX)
        .max_frame_size(FRAME_BYTES_MAX)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    let mut served = pin!(http2.serve_connection(TokioIo::new(connection), routes));
    let ended = tokio::select! {
        biased;
        ended = served.as_mut() => ended,
        () = drain(&mut draining) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection has failed");
    }
}

/// Completes when the server drains.
async fn drain(draining: &mut watch::Receiver<bool>) {
    // The sender goes only when the server does.
    let _ = draining.wait_for(|draining| *draining).await;
}
