//! The connection to a server, and how a call is made.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;
use tonic::{Code, Request, Response, Status, transport::Endpoint};
use tonic_health::pb::health_client::HealthClient;

use crate::{
    Access, Error, Pool,
    access::Authorized,
    pb::{
        admin_service_client::AdminServiceClient, admission_service_client::AdmissionServiceClient,
        lock_service_client::LockServiceClient, rate_service_client::RateServiceClient,
        sequence_service_client::SequenceServiceClient, stock_service_client::StockServiceClient,
    },
};

/// Deadline of a call. It is sent to the server, so that the server gives up no later than the
/// client.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);
/// Interval of keepalive pings, and the timeout of each. A server that disappears without a reset
/// is detected after at most twice this time.
const KEEPALIVE: Duration = Duration::from_secs(10);
const EXPECTED: &str = "expected http://host:port or https://host:port";

/// A connection to a server. Clones share it. It reconnects when it is lost.
#[derive(Debug, Clone)]
pub struct Connection {
    channel: Authorized,
    url: Arc<str>,
    access: Arc<Access>,
}

impl Connection {
    /// Connects to a server such as `http://127.0.0.1:50051`. Fails if the URL is invalid or the
    /// server is unreachable.
    pub async fn open(url: &str) -> Result<Connection, Error> {
        Connection::open_with(url, &Access::default()).await
    }

    /// Connects with these certificates and this token; a URL with `https` uses TLS. Fails if the
    /// URL or a file is invalid, or if the server is unreachable.
    pub async fn open_with(url: &str, access: &Access) -> Result<Connection, Error> {
        let mut endpoint =
            endpoint(url).map_err(|error| Error::new(Code::InvalidArgument, error))?;
        if endpoint.uri().scheme_str() == Some("https") {
            let tls = endpoint.tls_config(access.tls()?);
            endpoint = tls.map_err(|error| Error::invalid_tls(&error))?;
        }
        let metadata = Arc::new(access.metadata()?);
        let channel = endpoint.connect().await.map_err(|error| Error::unreachable(&error))?;
        let channel = Authorized { channel, metadata };
        Ok(Connection { channel, url: url.into(), access: Arc::new(access.clone()) })
    }

    /// Opens a new connection to the same URL, whose host may resolve to another address now. Reads
    /// the certificates and the token again.
    pub async fn reopen(&self) -> Result<Connection, Error> {
        Connection::open_with(&self.url, &self.access).await
    }

    /// Returns the pool of this name.
    pub fn pool(&self, name: &str) -> Pool {
        Pool::new(self.clone(), name)
    }

    pub(crate) fn health_service(&self) -> HealthClient<Authorized> {
        HealthClient::new(self.channel.clone())
    }

    pub(crate) fn admin(&self) -> AdminServiceClient<Authorized> {
        AdminServiceClient::new(self.channel.clone())
    }

    pub(crate) fn admission(&self) -> AdmissionServiceClient<Authorized> {
        AdmissionServiceClient::new(self.channel.clone())
    }

    pub(crate) fn locks(&self) -> LockServiceClient<Authorized> {
        LockServiceClient::new(self.channel.clone())
    }

    pub(crate) fn rates(&self) -> RateServiceClient<Authorized> {
        RateServiceClient::new(self.channel.clone())
    }

    pub(crate) fn sequences(&self) -> SequenceServiceClient<Authorized> {
        SequenceServiceClient::new(self.channel.clone())
    }

    pub(crate) fn stock(&self) -> StockServiceClient<Authorized> {
        StockServiceClient::new(self.channel.clone())
    }
}

/// Checks the URL of a server. The error describes the expected form.
pub fn check_url(url: &str) -> Result<(), String> {
    endpoint(url).map(drop)
}

/// Parses a URL and sets the timeouts of its connections.
fn endpoint(url: &str) -> Result<Endpoint, String> {
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|_| EXPECTED.to_owned())?;
    let uri = endpoint.uri();
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        return Err(EXPECTED.to_owned());
    }
    Ok(endpoint
        .connect_timeout(DEADLINE)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .tcp_nodelay(true))
}

/// Wraps a message with the default deadline.
pub(crate) fn request<T>(message: T) -> Request<T> {
    request_within(DEADLINE, message)
}

pub(crate) fn request_within<T>(deadline: Duration, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(deadline);
    request
}

/// Awaits a call with the default deadline.
pub(crate) async fn answered<T>(
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Error> {
    answered_within(DEADLINE, call).await
}

/// Awaits a call with a given deadline. The timer of the channel starts when it is connected; this
/// timeout includes the connecting.
pub(crate) async fn answered_within<T>(
    deadline: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Error> {
    match timeout(deadline, call).await {
        Ok(answer) => Ok(answer?.into_inner()),
        Err(_) => Err(Error::deadline()),
    }
}

#[cfg(test)]
mod tests {
    use super::check_url;

    #[test]
    fn only_http_and_https_urls_are_accepted() {
        for good in ["http://127.0.0.1:50051", "http://[::1]:1", "https://tollgate:50051/"] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for bad in ["", "127.0.0.1:50051", "ftp://x", "http://", "https://", "http://a b"] {
            assert!(check_url(bad).is_err(), "{bad}");
        }
    }
}
