//! Health: SERVING only while the store answers, for the server and for each service by name.

use tokio::sync::watch;
use tonic::codec::CompressionEncoding;
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
    server::{HealthReporter, health_reporter},
};

use crate::{engine::StoreState, grpc};

/// The empty name is the server as a whole; then the services.
fn names() -> impl Iterator<Item = &'static str> {
    [""].into_iter().chain(grpc::SERVICES)
}

/// Creates the health service with the current state of the store, so that the first call is
/// answered correctly. A tonic reporter starts with the server SERVING and without services.
pub(super) async fn new(state: StoreState) -> (HealthReporter, HealthServer<impl Health>) {
    let (health, service) = health_reporter();
    set(&health, state.into()).await;
    let service = service
        .max_decoding_message_size(grpc::MESSAGE_BYTES_MAX)
        .accept_compressed(CompressionEncoding::Gzip);
    (health, service)
}

/// Sets the health status after each change of the store's state. Never completes.
pub(super) async fn follow(health: &HealthReporter, mut state: watch::Receiver<StoreState>) {
    loop {
        let status = (*state.borrow_and_update()).into();
        set(health, status).await;
        if state.changed().await.is_err() {
            // The sender is dropped if the state never changes, as in the embedded engine in
            // memory.
            std::future::pending::<()>().await;
        }
    }
}

/// Reports NOT_SERVING, so that clients choose another server.
pub(super) async fn leave(health: &HealthReporter) {
    set(health, ServingStatus::NotServing).await;
}

/// Removes all names, which ends the streams of health watches.
pub(super) async fn forget(health: &HealthReporter) {
    let mut health = health.clone();
    for name in names() {
        health.clear_service_status(name).await;
    }
}

/// Sets the status of the server and of all services.
async fn set(health: &HealthReporter, status: ServingStatus) {
    for name in names() {
        health.set_service_status(name, status).await;
    }
}

impl From<StoreState> for ServingStatus {
    fn from(state: StoreState) -> ServingStatus {
        match state {
            StoreState::Up => ServingStatus::Serving,
            StoreState::Refusing | StoreState::Down => ServingStatus::NotServing,
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::Request;
    use tonic_health::{pb::HealthCheckRequest, server::HealthService};

    use super::*;

    #[tokio::test]
    async fn the_first_check_is_answered_by_the_store_s_state() {
        for (state, expected) in [
            (StoreState::Down, ServingStatus::NotServing),
            (StoreState::Refusing, ServingStatus::NotServing),
            (StoreState::Up, ServingStatus::Serving),
        ] {
            let (health, _) = new(state).await;
            let service = HealthService::from_health_reporter(health);
            for name in names() {
                let request = HealthCheckRequest { service: name.to_owned() };
                let answer = service.check(Request::new(request)).await.unwrap().into_inner();
                assert_eq!(answer.status(), expected.into(), "{name:?}");
            }
        }
    }
}
