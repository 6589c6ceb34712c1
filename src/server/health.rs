//! Health: SERVING only while the store answers, for the server and for each
//! service by name.

use tokio::sync::watch;
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
    server::{HealthReporter, health_reporter},
};

use crate::{
    engine::StoreState,
    grpc::{Admission, Rate, Sequence},
};

/// The server as a whole, and every service.
const NAMES: [&str; 4] = ["", Admission::NAME, Rate::NAME, Sequence::NAME];

pub(super) fn new() -> (HealthReporter, HealthServer<impl Health>) {
    health_reporter()
}

/// Follows the store until it is gone.
pub(super) async fn follow(health: &HealthReporter, mut state: watch::Receiver<StoreState>) {
    loop {
        let status = match *state.borrow_and_update() {
            StoreState::Up => ServingStatus::Serving,
            StoreState::Down => ServingStatus::NotServing,
        };
        set(health, status).await;
        if state.changed().await.is_err() {
            // A store whose state never changes, such as this process.
            std::future::pending::<()>().await;
        }
    }
}

/// Tells everybody to go elsewhere.
pub(super) async fn leave(health: &HealthReporter) {
    set(health, ServingStatus::NotServing).await;
}

/// Ends the streams of those that watch.
pub(super) async fn forget(health: &HealthReporter) {
    let mut health = health.clone();
    for name in NAMES {
        health.clear_service_status(name).await;
    }
}

async fn set(health: &HealthReporter, status: ServingStatus) {
    for name in NAMES {
        health.set_service_status(name, status).await;
    }
}
