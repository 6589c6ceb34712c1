//! The server: transport, admin listener, health, reflection, drain.

mod admin;
pub mod allocator;
pub mod fetch;
mod health;
pub mod input_file;
pub mod otlp;
pub mod telemetry;

use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::TcpListener,
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::grpc::{self, CurrentRules, DecisionRules, JsonService, access::Access};
pub use admin::Admin;
use otlp::Otlp;
use tollgate_core::{
    admission::{Catalog, CountHeld, SweepPool},
    time::monotonic,
};
use tollgate_engine::{
    Engine,
    budget::{self, NamespaceRule},
};
use tollgate_http::{ConnectionPlaces, Peers, Workers, accept, tls::Tls};
use tollgate_status::{RunningServer, reload::Reload};

/// Time between NOT_SERVING and the end of the connections, so that load balancers choose another
/// server first.
const NOTICE: Duration = Duration::from_millis(250);

/// Limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of connections; further ones are closed immediately.
    pub connections_max: usize,
    /// Time that calls in flight may take to finish after `shutdown`.
    pub drain_timeout: Duration,
    /// Number of serving threads, each with its own runtime.
    pub workers: usize,
}

/// The configured rules of pools, rates, sequences and callers.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// The rules of pools, rates and sequences.
    pub decisions: Arc<CurrentRules>,
    /// The limits of namespaces.
    pub namespaces: Vec<NamespaceRule>,
    /// The number of servers that share the calls per second of a namespace; at least 1.
    pub servers: u32,
    /// The callers of the server.
    pub access: Arc<Access>,
    /// What connections and peers may use.
    pub peers: Arc<Peers>,
    /// Replaces the rules; `None` for rules that stay.
    pub reload: Option<Arc<dyn Reload>>,
    /// The admin listener.
    pub admin: Admin,
    /// The export of spans; `None` for no spans.
    pub otlp: Option<Otlp>,
}

/// Adapts the rules to an engine: only a store that can fail over needs reservations, and only one
/// that is asked over the network needs a denial cache of pools.
pub fn adapted(rules: DecisionRules, engine: &Engine) -> DecisionRules {
    if engine.is_remote() {
        return rules;
    }
    let pools = Arc::new(Catalog::clone(&rules.pools).uncached());
    let sequences = Arc::new(rules.sequences.without_reserve());
    DecisionRules { pools, sequences, ..rules }
}

/// Returns the background work: of the engine, and the report of reached limits. Never completes.
///
/// Boxed, because the nested future types exceed the compiler's limit.
fn maintain(
    engine: Arc<Engine>,
    rules: Arc<CurrentRules>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let sweep =
            engine.sweep(|pool| SweepPool { settings: rules.load().pools.settings(&pool), pool });
        let count = engine.count(|pool| CountHeld { pool });
        tokio::join!(engine.maintain(), sweep, count, budget::report(engine.hub().namespaces()));
    })
}

/// Serves until `shutdown` completes, with TLS if given. Then drains: calls in flight finish, or are
/// dropped after the drain timeout.
///
/// Health changes to NOT_SERVING first, and for 250 ms new connections are still accepted. Fails if
/// a thread cannot be started or ends early.
pub async fn run(
    listener: TcpListener,
    tls: Option<Tls>,
    engine: Arc<Engine>,
    rules: Rules,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let state = engine.state();
    let initial = *state.borrow();
    let Rules { decisions, namespaces, servers, access, peers, reload, admin, otlp } = rules;
    let when_degraded = admin.ready_when_degraded;
    let (health, health_service) = health::new(initial, when_degraded).await;
    let follow = health::follow(&health, state, when_degraded);
    let permits = Arc::new(Semaphore::new(limits.connections_max));
    let sources = admin.sources((permits.clone(), limits.connections_max), servers, reload);
    let running = RunningServer::new(engine.clone(), sources);
    let mut maintain = maintain(engine.clone(), decisions.clone());
    let others = tonic::service::Routes::new(health_service)
        .add_service(grpc::AdminHandlers::server(running.clone()))
        .add_service(grpc::reflection::v1())
        .add_service(grpc::reflection::v1alpha());
    engine.limit_namespaces(&namespaces, servers).map_err(io::Error::other)?;
    decisions.replace(adapted(DecisionRules::clone(&decisions.load()), &engine));
    let tracer = otlp.as_ref().map(Otlp::tracer);
    let routes = grpc::Routes::new(&engine, &decisions, others, access.clone(), tracer);
    let pool_metrics = admin.pool_metrics(&routes, decisions.clone()).map_err(io::Error::other)?;
    let json = JsonService::new(engine.clone(), decisions.clone(), access.clone());
    let mut pages = pin!(admin.serve(running.clone(), pool_metrics, access, json, routes.clone()));
    let mut workers = Workers::start(limits.workers, routes.router(), tls.as_ref())?;
    let places = ConnectionPlaces { permits, connections_max: limits.connections_max, peers };
    tokio::select! {
        () = accept(&listener, &places, &mut workers) => {}
        () = shutdown => {}
        () = follow => {} // Never completes, as the next two.
        () = &mut maintain => {}
        () = &mut pages => {}
    }

    running.drain();
    let drain_end = monotonic() + NOTICE + limits.drain_timeout;
    tracing::info!("draining: new calls are refused, calls in flight finish");
    health::leave(&health).await;
    engine.hub().close();
    let finish = async {
        // New calls are still answered for a short time.
        tokio::select! {
            () = accept(&listener, &places, &mut workers) => {}
            () = sleep(NOTICE) => {}
        }
        drop(listener);
        // Open health watches would block the drain.
        health::forget(&health).await;
        workers.finish().await
    };
    tokio::select! {
        finished = timeout(NOTICE + limits.drain_timeout, finish) => match finished {
            Ok(finished) => finished?,
            Err(_) => tracing::warn!("calls in flight after the drain timeout are dropped"),
        },
        // Calls in flight need the maintenance of the engine until they end.
        () = &mut maintain => {}
        () = &mut pages => {}
    }
    if let Some(otlp) = otlp {
        // The calls have ended, and so have their spans.
        otlp.finish(drain_end.saturating_duration_since(monotonic())).await;
    }
    Ok(())
}
