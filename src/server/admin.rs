//! The admin listener: HTTP/1.1 for operators, probes, Prometheus and the console.
//!
//! It runs on the thread that accepts gRPC connections, so its connections, headers, bodies and
//! times are limited. Each connection serves one request.

mod console;
mod pages;
mod places;

use std::{
    convert::Infallible,
    future::pending,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use hyper::{
    Request,
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, oneshot},
    time::sleep,
};

use crate::grpc::{CurrentRules, JsonService, Routes, access::Access, counted_verbs, rpcs};
use console::{Console, STREAM_AGE_MAX};
use pages::AdminPages;
use places::{AdminPlace, AdminPlaces};
use tollgate_core::names::{Name, Namespace};
use tollgate_status::{RunningServer, ServerSources, metrics::PoolMetrics, reload::Reload};

/// Time limit for the headers of a request.
const HEADER_TIME_MAX: Duration = Duration::from_secs(5);
/// Time limit for a connection, including the response.
const TIME_MAX: Duration = Duration::from_secs(30);
/// Maximum number of bytes of the headers.
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// The back-off after a failed accept.
const PAUSE: Duration = Duration::from_millis(50);

/// The admin listener of a server.
#[derive(Debug, Clone, Default)]
pub struct Admin {
    /// `None` if it is off.
    pub listener: Option<Arc<TcpListener>>,
    /// Whether the server counts as ready while the store is unreachable.
    pub ready_when_degraded: bool,
    /// Whether `/metrics` is served.
    pub has_metrics: bool,
    /// Whether the console is served.
    pub has_console: bool,
    /// Globs of the pools that have time series.
    pub pools: Vec<String>,
    /// The namespaces of these pools, in addition to the default one.
    pub namespaces: Vec<Namespace>,
}

impl Admin {
    /// Returns the values that the pages need, in addition to the engine.
    pub(super) fn sources(
        &self,
        connections: (Arc<Semaphore>, usize),
        replicas: u32,
        reload: Option<Arc<dyn Reload>>,
    ) -> ServerSources {
        let ready_when_degraded = self.ready_when_degraded;
        ServerSources {
            ready_when_degraded,
            rpcs: rpcs(),
            verbs: counted_verbs(),
            connections,
            replicas,
            reload,
        }
    }

    /// Creates the time series of pools. Fails if a glob is invalid.
    pub(super) fn pool_metrics(
        &self,
        routes: &Routes,
        rules: Arc<CurrentRules>,
    ) -> Result<PoolMetrics, globset::Error> {
        let routes = routes.clone();
        let settings = Box::new(move |pool: &Name| rules.load().pools.settings(pool));
        let refused = Box::new(move |pool: &Name| routes.refused(pool));
        PoolMetrics::new(&self.pools, &self.namespaces, settings, refused)
    }

    /// Serves the pages. Never completes.
    pub(super) async fn serve(
        self,
        server: Arc<RunningServer>,
        pools: PoolMetrics,
        access: Arc<Access>,
        json: JsonService,
        routes: Routes,
    ) {
        let Some(listener) = self.listener else { return pending().await };
        let is_loopback = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let pools = Arc::new(pools);
        let open = || console::open(&server, routes, &access, &pools);
        let console = self.has_console.then(open).flatten();
        let access = (!is_loopback).then_some(access);
        let sampled = console.clone();
        let has_metrics = self.has_metrics;
        let pages = AdminPages { server, pools, access, json, has_metrics, console };
        let sample = async {
            match sampled {
                Some(console) => console.sample().await,
                None => pending().await,
            }
        };
        tokio::join!(accept(&listener, Arc::new(pages)), sample);
    }
}

/// Accepts connections. Never completes.
async fn accept(listener: &TcpListener, pages: Arc<AdminPages>) {
    let places = Arc::<AdminPlaces>::default();
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        tokio::spawn(connection(stream, pages.clone(), places.enter(peer.ip())));
    }
}

/// Serves one request. A stream gives up its place, because the console limits streams itself.
async fn connection(
    stream: TcpStream,
    pages: Arc<AdminPages>,
    (place, mut end): (AdminPlace, oneshot::Receiver<()>),
) {
    let (streams, is_stream) = oneshot::channel();
    let streams = Arc::new(Mutex::new(Some(streams)));
    let is_received = place.is_received();
    let service = service_fn(move |request: Request<Incoming>| {
        let (pages, streams) = (pages.clone(), streams.lock().take());
        if request.body().is_end_stream() {
            is_received.store(true, Ordering::Relaxed);
        }
        async move {
            let response = pages.handle(request).await;
            if Console::is_stream(&response)
                && let Some(streams) = streams
            {
                let _ = streams.send(());
            }
            Ok::<_, Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // Disconnects clients that are slow, or that must make room for others.
    let limit = async {
        let is_stream = tokio::select! {
            is_stream = is_stream => is_stream.is_ok(),
            _ = &mut end => return,
            () = sleep(TIME_MAX) => return,
        };
        if is_stream {
            drop(place);
            return sleep(STREAM_AGE_MAX + TIME_MAX).await;
        }
        tokio::select! {
            _ = &mut end => {}
            () = sleep(TIME_MAX) => {}
        }
    };
    tokio::select! {
        served = served => if let Err(error) = served {
            tracing::debug!(%error, "a connection of the admin listener has failed");
        },
        () = limit => {}
    }
}
