//! Serves an engine: routes, health, reflection, limits, drain.

mod connections;
mod health;

use std::{future::Future, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    sync::oneshot,
    time::{sleep, timeout},
};
use tonic::transport::Server;

use crate::{
    admission::{Catalog, SweepPool},
    engine::Engine,
    grpc,
    names::Name,
    rate::Policies,
    sequence::Sequences,
};

/// How long health says NOT_SERVING before connections are told to go, so that
/// balancers look elsewhere first.
const NOTICE: Duration = Duration::from_millis(250);
/// Calls at once on one connection.
const STREAMS_MAX: u32 = 1024;
/// A peer that is silent this long is asked whether it is there, and has as
/// long again to answer.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Bounds of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at most; further ones are closed at once.
    pub connections_max: usize,
    /// How long calls in flight may take to finish after `shutdown`.
    pub drain_timeout: Duration,
}

/// What the configuration says of pools, rates and sequences.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// The settings of pools.
    pub pools: Arc<Catalog>,
    /// The policies of rates.
    pub policies: Arc<Policies>,
    /// The rules of sequences.
    pub sequences: Arc<Sequences>,
}

/// Serves until `shutdown` completes and the calls in flight are answered, or
/// the drain timeout has passed.
pub async fn run(
    listener: TcpListener,
    engine: Arc<Engine>,
    rules: Rules,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let state = engine.state();
    let initial = *state.borrow();
    let (health, health_service) = health::new(initial).await;
    let follow = health::follow(&health, state);
    let maintenance = engine.clone();
    let maintain = async {
        let settings = |pool: &Name| rules.pools.settings(pool);
        let sweep = maintenance.sweep(|pool| SweepPool { settings: settings(&pool), pool });
        tokio::join!(maintenance.maintain(), sweep);
    };

    let mut builder = Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE));
    let routes = builder
        .add_service(health_service)
        .add_service(grpc::reflection::v1())
        .add_service(grpc::reflection::v1alpha())
        .add_service(grpc::Admission::service(engine.clone(), rules.pools.clone()))
        .add_service(grpc::Lock::service(engine.clone()))
        .add_service(grpc::Rate::service(engine.clone(), rules.policies))
        .add_service(grpc::Sequence::service(engine.clone(), rules.sequences))
        .add_service(grpc::Stock::service(engine));

    let (drain, draining) = oneshot::channel::<()>();
    let incoming = connections::incoming(listener, limits.connections_max);
    let serve = routes.serve_with_incoming_shutdown(incoming, async {
        // The sender goes only when the server does.
        let _ = draining.await;
    });
    tokio::pin!(serve, maintain);
    tokio::select! {
        served = &mut serve => return served,
        () = shutdown => {}
        // Neither ends.
        () = follow => {}
        () = &mut maintain => {}
    }

    tracing::info!("draining: no new calls, those in flight are finished");
    health::leave(&health).await;
    maintenance.hub().close();
    let drained = async {
        sleep(NOTICE).await;
        let _ = drain.send(());
        // Their watchers would hold the drain up for ever.
        health::forget(&health).await;
    };
    let finish = async { tokio::join!(drained, serve).1 };
    tokio::select! {
        finished = timeout(NOTICE + limits.drain_timeout, finish) => finished.unwrap_or_else(|_| {
            tracing::warn!("calls still in flight after the drain timeout are dropped");
            Ok(())
        }),
        // Calls in flight need the engine to the end.
        () = maintain => Ok(()),
    }
}
