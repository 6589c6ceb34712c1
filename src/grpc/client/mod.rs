//! A client in plain types, for the client commands, the fleet, tests and examples in Rust.

mod convert;
mod error;
mod lock;
mod pools;
mod rate;
mod rate_events;
mod sequence;
mod stock;
mod tasks;
mod watch;

use std::time::Duration;

use tokio::time::timeout;
use tonic::{
    Request, Response, Status,
    transport::{Channel, Endpoint},
};

pub use error::CallError;
pub(in crate::grpc) use error::code_name;
pub use pools::PoolStanding;
pub use rate::{Against, LimitStanding, RateAnswer};
pub use rate_events::{RateEvent, RateEventKind, RateEvents};
pub use sequence::Serials;
pub use stock::Reserving;
pub use tasks::{NewTask, TaskListing};
pub use watch::Told;

use crate::admission::{Admission, Completion, Outcome, Usage};
use pb::{
    admission_service_client::AdmissionServiceClient, lock_service_client::LockServiceClient,
    rate_service_client::RateServiceClient, sequence_service_client::SequenceServiceClient,
    stock_service_client::StockServiceClient,
};

/// Client side of the generated messages. Text fields are `String`.
#[allow(clippy::all, missing_docs, missing_debug_implementations, unreachable_pub)]
pub mod pb {
    include!(concat!(env!("OUT_DIR"), "/client/tollgate.v1.rs"));
}

/// Deadline of a call. It is sent to the server, so that the server gives up no later than the
/// client.
const CALL_DEADLINE: Duration = Duration::from_secs(5);
/// Interval of keepalive pings, and the timeout of each. A server that disappears without a reset
/// is detected after at most twice this time.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// A connection to a server. Clones share it. It reconnects when it is lost.
#[derive(Debug, Clone)]
pub struct Client {
    admission: AdmissionServiceClient<Channel>,
    lock: LockServiceClient<Channel>,
    rate: RateServiceClient<Channel>,
    sequence: SequenceServiceClient<Channel>,
    stock: StockServiceClient<Channel>,
}

impl Client {
    /// Connects to a server such as `http://127.0.0.1:50051`. Fails if the URL is invalid or the
    /// server is unreachable.
    pub async fn connect(url: &str) -> Result<Client, CallError> {
        let endpoint = endpoint(url).map_err(CallError::invalid)?;
        let channel = endpoint.connect().await.map_err(|error| CallError::unreachable(&error))?;
        Ok(Client {
            admission: AdmissionServiceClient::new(channel.clone()),
            lock: LockServiceClient::new(channel.clone()),
            rate: RateServiceClient::new(channel.clone()),
            sequence: SequenceServiceClient::new(channel.clone()),
            stock: StockServiceClient::new(channel),
        })
    }

    /// Asks for a slot. An empty `task` asks for the oldest queued task of the device. `lease`
    /// `None` means the pool's default.
    pub async fn admit(
        &self,
        pool: &str,
        device: &str,
        task: &str,
        lease: Option<Duration>,
    ) -> Result<Admission, CallError> {
        let message = pb::AdmitTaskRequest {
            pool: pool.to_owned(),
            device_id: device.to_owned(),
            task_id: task.to_owned(),
            lease_duration: lease.map(convert::duration),
            max_wait: None,
        };
        convert::admission(answered(self.admission.clone().admit_task(request(message))).await?)
    }

    /// Reports the result of a task, with the fencing token of its lease.
    pub async fn complete(
        &self,
        pool: &str,
        device: &str,
        task: &str,
        token: u64,
        outcome: Outcome,
    ) -> Result<Completion, CallError> {
        let message = pb::CompleteTaskRequest {
            pool: pool.to_owned(),
            device_id: device.to_owned(),
            task_id: task.to_owned(),
            fencing_token: Some(token),
            outcome: match outcome {
                Outcome::Succeeded => pb::Outcome::Succeeded.into(),
                Outcome::Failed => pb::Outcome::Failed.into(),
            },
            ..pb::CompleteTaskRequest::default()
        };
        convert::completion(answered(self.admission.clone().complete_task(request(message))).await?)
    }

    /// Sets the capacity of a pool and the maximum attempts of its queued tasks; `None` changes
    /// nothing. Returns the usage of the pool.
    pub async fn configure_pool(
        &self,
        pool: &str,
        capacity: Option<u32>,
        max_attempts: Option<u32>,
    ) -> Result<Usage, CallError> {
        let message = pb::ConfigurePoolRequest {
            pool: pool.to_owned(),
            capacity,
            max_attempts,
            ..pb::ConfigurePoolRequest::default()
        };
        let answer = answered(self.admission.clone().configure_pool(request(message))).await?;
        convert::pool_usage(answer.pool)
    }

    /// Returns the usage of a pool.
    pub async fn usage(&self, pool: &str) -> Result<Usage, CallError> {
        let message = pb::GetPoolRequest { pool: pool.to_owned() };
        let answer = answered(self.admission.clone().get_pool(request(message))).await?;
        convert::pool_usage(answer.pool)
    }
}

/// Checks the URL of a server. The error says what is expected.
pub fn check_url(url: &str) -> Result<(), String> {
    endpoint(url).map(drop)
}

/// Parses a URL and sets the timeouts of its connections.
fn endpoint(url: &str) -> Result<Endpoint, String> {
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|_| EXPECTED.to_owned())?;
    let uri = endpoint.uri();
    if uri.scheme_str() != Some("http") || uri.host().is_none_or(str::is_empty) {
        return Err(EXPECTED.to_owned());
    }
    Ok(endpoint
        .connect_timeout(CALL_DEADLINE)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .tcp_nodelay(true))
}

const EXPECTED: &str = "expected http://host:port (TLS is not supported)";

/// Wraps a message with the default deadline.
fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_DEADLINE);
    request
}

/// Awaits a call with the default deadline.
async fn answered<T>(
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, CallError> {
    answered_within(CALL_DEADLINE, call).await
}

/// Awaits a call with a given deadline. The timer of the channel starts when it is connected; this
/// timeout includes the connecting.
async fn answered_within<T>(
    deadline: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, CallError> {
    match timeout(deadline, call).await {
        Ok(answer) => Ok(answer?.into_inner()),
        Err(_) => Err(CallError::deadline()),
    }
}

#[cfg(test)]
mod tests {
    use super::check_url;

    #[test]
    fn only_plain_http_urls_are_taken() {
        for good in ["http://127.0.0.1:50051", "http://[::1]:1", "http://tollgate:50051/"] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for bad in
            ["", "127.0.0.1:50051", "https://tollgate:443", "ftp://x", "http://", "http://a b"]
        {
            assert!(check_url(bad).is_err(), "{bad}");
        }
    }
}
