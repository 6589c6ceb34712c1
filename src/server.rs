//! Serves an engine: routes, health, reflection, limits, drain.

mod connections;
mod health;
mod http1;
mod pace;
mod pings;
mod streams;
mod workers;

use std::{future::Future, io, pin::Pin, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::{
    admission::{Catalog, SweepPool},
    budget::{self, CallerLimits, Peers},
    engine::Engine,
    grpc,
    names::Name,
    rate::Policies,
    sequence::Sequences,
};
use workers::Workers;

/// How long health says NOT_SERVING before connections are told to go, so that
/// balancers look elsewhere first.
const NOTICE: Duration = Duration::from_millis(250);
/// Calls at once on one connection.
const STREAMS_MAX: u32 = 1024;

/// Bounds of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at most; further ones are closed at once.
    pub connections_max: usize,
    /// How much callers can make the server hold.
    pub callers: CallerLimits,
    /// How long calls in flight may take to finish after `shutdown`.
    pub drain_timeout: Duration,
    /// Threads that serve, each with a runtime of its own.
    pub workers: usize,
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
) -> io::Result<()> {
    let state = engine.state();
    let initial = *state.borrow();
    let (health, health_service) = health::new(initial).await;
    let follow = health::follow(&health, state);
    let (maintenance, pools, hub) = (engine.clone(), rules.pools.clone(), engine.hub().clone());
    // Its type is as deep as all that is done beside the calls: too deep for the compiler.
    let mut maintain: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
        let settings = |pool: &Name| pools.settings(pool);
        let sweep = maintenance.sweep(|pool| SweepPool { settings: settings(&pool), pool });
        tokio::join!(maintenance.maintain(), sweep, budget::report());
    });

    let others = tonic::service::Routes::new(health_service)
        .add_service(grpc::reflection::v1())
        .add_service(grpc::reflection::v1alpha());
    let Rules { pools, policies, sequences } = rules;
    let routes = grpc::Routes::new(&engine, pools, policies, sequences, others, limits.callers);
    let mut workers = Workers::start(&limits, &routes)?;
    let permits = Arc::new(Semaphore::new(limits.connections_max));
    let peers = Peers::new(&limits.callers, limits.connections_max);
    tokio::select! {
        () = connections::accept(&listener, &permits, &peers, &mut workers) => {}
        () = shutdown => {}
        // Neither ends.
        () = follow => {}
        () = &mut maintain => {}
    }

    tracing::info!("draining: no new calls, those in flight are finished");
    health::leave(&health).await;
    hub.close();
    let finish = async {
        // Who asks now is still answered.
        tokio::select! {
            () = connections::accept(&listener, &permits, &peers, &mut workers) => {}
            () = sleep(NOTICE) => {}
        }
        drop(listener);
        // Their watchers would hold the drain up for ever.
        health::forget(&health).await;
        workers.finish().await
    };
    tokio::select! {
        finished = timeout(NOTICE + limits.drain_timeout, finish) => match finished {
            Ok(finished) => finished?,
            Err(_) => {
                tracing::warn!("calls still in flight after the drain timeout are dropped");
            }
        },
        // Calls in flight need the engine to the end.
        () = &mut maintain => {}
    }
    Ok(())
}
