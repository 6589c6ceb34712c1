//! The server's threads: each has a runtime of its own, on which its connections live
//! from the first byte to the last.
//!
//! What a call needs is then on one thread: its connection, its handler, its lane to the
//! store. Connections are dealt out in turn, so that few of them spread over all cores.

use std::{io, thread};

use tokio::{
    net::TcpStream,
    runtime::Builder,
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot, watch,
    },
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{service::Routes, transport::Server};

use super::{
    KEEPALIVE, STREAMS_MAX,
    connections::{Accepted, Connection},
};
use crate::engine::worker;

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
    finished: Vec<oneshot::Receiver<Result<(), tonic::transport::Error>>>,
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
            let (sender, incoming) = mpsc::channel(DEALT_MAX);
            let (finish, finishing) = oneshot::channel();
            let serve = serve(incoming, routes.clone(), drain.subscribe());
            let mut end = end.subscribe();
            thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
                worker::enter(number);
                runtime.block_on(async {
                    tokio::select! {
                        served = serve => {
                            // Nobody waits for a server that was dropped.
                            let _ = finish.send(served);
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
            let served = finished.await.map_err(ended);
            all = all.and(served.and_then(|served| served.map_err(io::Error::other)));
        }
        all
    }
}

async fn serve(
    incoming: mpsc::Receiver<Accepted>,
    routes: Routes,
    mut draining: watch::Receiver<bool>,
) -> Result<(), tonic::transport::Error> {
    let incoming = tokio_stream::StreamExt::map(ReceiverStream::new(incoming), |accepted| {
        let Accepted { stream, permit } = accepted;
        // Only here does its runtime know it.
        TcpStream::from_std(stream).map(|stream| Connection::new(stream, permit))
    });
    Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_routes(routes)
        .serve_with_incoming_shutdown(incoming, async {
            // The sender goes only when the server does.
            let _ = draining.wait_for(|draining| *draining).await;
        })
        .await
}
