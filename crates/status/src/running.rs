//! The state of a running server, for the admin pages and GetStatus.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use tokio::sync::Semaphore;

use super::{
    metrics::{PoolMetrics, PoolSeries, ProcessTotals, Scrape},
    reload::Reload,
    status::{Readiness, Status},
};
use tollgate_core::{
    error::Error,
    time::{Clock, Timestamp, monotonic},
};
use tollgate_engine::{CountedVerb, Engine, StoreLoss, StoreState, budget::NamespaceUsage};
use tollgate_telemetry::metrics::{RpcLabels, configuration};

/// A running server: its engine, and whether it is draining.
#[derive(Debug)]
pub struct RunningServer {
    engine: Arc<Engine>,
    started: Instant,
    start: Timestamp,
    draining: AtomicBool,
    sources: ServerSources,
}

/// What the admin pages need to know about a server, in addition to its engine.
#[derive(Debug)]
pub struct ServerSources {
    /// Whether the server counts as ready while the store is unreachable.
    pub ready_when_degraded: bool,
    /// All RPCs.
    pub rpcs: &'static [RpcLabels],
    /// The verbs whose outcomes are counted.
    pub verbs: Vec<CountedVerb>,
    /// The permits for connections: the free ones, and the total number.
    pub connections: (Arc<Semaphore>, usize),
    /// The configured number of servers that share the store.
    pub replicas: u32,
    /// The reload of the configuration; `None` if the server cannot reload.
    pub reload: Option<Arc<dyn Reload>>,
}

impl RunningServer {
    /// Creates the state of a server that starts now.
    pub fn new(engine: Arc<Engine>, sources: ServerSources) -> Arc<RunningServer> {
        let (started, start) = (monotonic(), Clock::system().now());
        let draining = AtomicBool::new(false);
        Arc::new(RunningServer { engine, started, start, draining, sources })
    }

    /// Records that the server has started to drain.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether load balancers may send calls.
    pub fn readiness(&self) -> Readiness {
        if self.draining.load(Ordering::Relaxed) {
            return Readiness::Draining;
        }
        Readiness::from_store(self.store_state(), self.sources.ready_when_degraded)
    }

    /// Collects all metrics, including those of `pools`, as OpenMetrics text.
    pub async fn metrics(&self, pools: &PoolMetrics) -> Result<String, fmt::Error> {
        let scrape = Scrape {
            engine: &self.engine,
            rpcs: self.sources.rpcs,
            verbs: &self.sources.verbs,
            connections: self.connections(),
            pools,
        };
        scrape.text().await
    }

    /// Returns the sums of the counters of this process.
    pub fn totals(&self) -> ProcessTotals {
        ProcessTotals::now(&self.sources.verbs)
    }

    /// Returns the pools with time series, read at most once per second; empty while the store is
    /// unreachable.
    pub async fn pools(&self, pools: &PoolMetrics) -> Arc<PoolSeries> {
        pools.current(&self.engine).await
    }

    /// Returns when the server started, on the system clock.
    pub fn start(&self) -> Timestamp {
        self.start
    }

    /// Returns the number of open gRPC connections.
    pub fn connections(&self) -> usize {
        let (free, all) = &self.sources.connections;
        all.saturating_sub(free.available_permits())
    }

    /// Returns the configured number of servers that share the store.
    pub fn replicas(&self) -> u32 {
        self.sources.replicas
    }

    /// Returns the reload of the configuration; `None` if the server cannot reload.
    pub fn reload(&self) -> Option<Arc<dyn Reload>> {
        self.sources.reload.clone()
    }

    /// Returns the keys and values of the configuration in use, without secrets.
    pub fn configuration(&self) -> Vec<(String, String)> {
        self.sources.reload.as_ref().map(|reload| reload.values()).unwrap_or_default()
    }

    /// Returns the usage of the limits of namespaces.
    pub fn namespaces(&self) -> Vec<NamespaceUsage> {
        self.engine.hub().namespaces().usage()
    }

    /// Collects the status.
    pub fn status(&self) -> Status {
        let (engine, topology) = self.engine.kind();
        Status {
            version: env!("CARGO_PKG_VERSION"),
            engine,
            topology,
            store: self.store_state().name(),
            readiness: self.readiness(),
            servers: self.engine.servers(),
            store_id: self.engine.store_id(),
            store_lost: self.store_losses().iter().any(StoreLoss::is_open),
            uptime_seconds: monotonic().saturating_duration_since(self.started).as_secs(),
            configuration: configuration::current().into(),
        }
    }

    /// Returns the losses of the store's data that servers have detected.
    pub fn store_losses(&self) -> Vec<StoreLoss> {
        self.engine.store_losses()
    }

    /// Accepts these losses. Returns those that were not accepted before.
    pub async fn accept_store_loss(&self) -> Result<Vec<StoreLoss>, Error> {
        self.engine.accept_store_loss().await
    }

    fn store_state(&self) -> StoreState {
        *self.engine.state().borrow()
    }
}
