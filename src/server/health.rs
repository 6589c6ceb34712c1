//! Health checks: the server and each service are SERVING only while the store answers. The name
//! [`LIVENESS`] is SERVING as long as the process runs.

use tokio::sync::watch;
use tonic::codec::CompressionEncoding;
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
    server::{HealthReporter, health_reporter},
};

use crate::grpc;
use tollgate_engine::StoreState;
use tollgate_http::MESSAGE_BYTES_MAX;
use tollgate_status::status::Readiness;

/// The name that stays SERVING while the store is unreachable, because a restart would not help.
const LIVENESS: &str = "tollgate.liveness";

/// Returns all names: the empty name, which stands for the whole server, and the services.
fn names() -> impl Iterator<Item = &'static str> {
    [""].into_iter().chain(grpc::services())
}

/// Creates the health service with the current state of the store, so that even the first check is
/// correct: tonic's reporter starts with the server SERVING and without services.
///
/// With `when_degraded` the server counts as ready even while the store is unreachable.
pub(super) async fn new(
    state: StoreState,
    when_degraded: bool,
) -> (HealthReporter, HealthServer<impl Health>) {
    let (health, service) = health_reporter();
    health.set_service_status(LIVENESS, ServingStatus::Serving).await;
    set(&health, status(state, when_degraded)).await;
    let service = service
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .accept_compressed(CompressionEncoding::Gzip);
    (health, service)
}

/// Sets the health status after each change of the store's state. Never completes.
pub(super) async fn follow(
    health: &HealthReporter,
    mut state: watch::Receiver<StoreState>,
    when_degraded: bool,
) {
    loop {
        let status = status(*state.borrow_and_update(), when_degraded);
        set(health, status).await;
        if state.changed().await.is_err() {
            // The sender is dropped if the state can never change, as with the embedded engine in
            // memory.
            std::future::pending::<()>().await;
        }
    }
}

/// Reports NOT_SERVING, so that clients switch to another server.
pub(super) async fn leave(health: &HealthReporter) {
    set(health, ServingStatus::NotServing).await;
}

/// Removes all names, which ends the streams of health watches.
pub(super) async fn forget(health: &HealthReporter) {
    let mut health = health.clone();
    for name in names().chain([LIVENESS]) {
        health.clear_service_status(name).await;
    }
}

/// Sets the status of the server and of all services.
async fn set(health: &HealthReporter, status: ServingStatus) {
    for name in names() {
        health.set_service_status(name, status).await;
    }
}

/// Returns the health status for a state of the store.
fn status(state: StoreState, when_degraded: bool) -> ServingStatus {
    match Readiness::from_store(state, when_degraded) {
        Readiness::Ready => ServingStatus::Serving,
        _ => ServingStatus::NotServing,
    }
}

#[cfg(test)]
mod tests {
    use tonic::Request;
    use tonic_health::{pb::HealthCheckRequest, server::HealthService};

    use super::*;

    #[tokio::test]
    async fn the_first_check_reports_the_state_of_the_store() {
        for (state, expected) in [
            (StoreState::Down, ServingStatus::NotServing),
            (StoreState::Refusing, ServingStatus::NotServing),
            (StoreState::Up, ServingStatus::Serving),
        ] {
            let (health, _) = new(state, false).await;
            let service = HealthService::from_health_reporter(health);
            for (name, expected) in
                names().map(|name| (name, expected)).chain([(LIVENESS, ServingStatus::Serving)])
            {
                let request = HealthCheckRequest { service: name.to_owned() };
                let answer = service.check(Request::new(request)).await.unwrap().into_inner();
                assert_eq!(answer.status(), expected.into(), "{name:?}");
            }
        }
    }
}
