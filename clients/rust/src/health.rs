//! Health.

use std::time::Duration;

use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{Connection, Error};

/// The health of a server, or of one of its services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Calls are answered.
    Serving,
    /// The store is unreachable or refuses writes, or the server is draining.
    NotServing,
}

impl Connection {
    /// Asks for the health of a service by its full name, or of the whole server by the empty name.
    /// Fails with NOT_FOUND for an unknown service.
    pub async fn health(&self, service: &str, deadline: Duration) -> Result<Health, Error> {
        let message = HealthCheckRequest { service: service.to_owned() };
        let send =
            |channel, request| async move { HealthClient::new(channel).check(request).await };
        match self.attempt(self.main(), deadline, message, send).await?.answer.status() {
            ServingStatus::Serving => Ok(Health::Serving),
            ServingStatus::NotServing => Ok(Health::NotServing),
            ServingStatus::Unknown | ServingStatus::ServiceUnknown => {
                Err(Error::malformed("status"))
            }
        }
    }
}
