//! The connection to a server, and how a call is made.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;
use tonic::{
    Code, Request, Response, Status,
    transport::{Channel, Endpoint},
};

use crate::{
    Error, Pool,
    pb::{
        admission_service_client::AdmissionServiceClient, lock_service_client::LockServiceClient,
        rate_service_client::RateServiceClient, sequence_service_client::SequenceServiceClient,
        stock_service_client::StockServiceClient,
    },
};

/// Deadline of a call. It is sent to the server, so that the server gives up no later than the
/// client.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);
/// Interval of keepalive pings, and the timeout of each. A server that disappears without a reset
/// is detected after at most twice this time.
const KEEPALIVE: Duration = Duration::from_secs(10);
const EXPECTED: &str = "expected http://host:port (TLS is not supported)";

/// A connection to a server. Clones share it. It reconnects when it is lost.
#[derive(Debug, Clone)]
pub struct Connection {
    channel: Channel,
    url: Arc<str>,
}

impl Connection {
    /// Connects to a server such as `http://127.0.0.1:50051`. Fails if the URL is invalid or the
    /// server is unreachable.
    pub async fn open(url: &str) -> Result<Connection, Error> {
        let endpoint = endpoint(url).map_err(|error| Error::new(Code::InvalidArgument, error))?;
        let channel = endpoint.connect().await.map_err(|error| Error::unreachable(&error))?;
        Ok(Connection { channel, url: url.into() })
    }

    /// Opens a new connection to the same URL, whose host may resolve to another address now.
    pub async fn reopen(&self) -> Result<Connection, Error> {
        Connection::open(&self.url).await
    }

    /// Returns the pool of this name.
    pub fn pool(&self, name: &str) -> Pool {
        Pool::new(self.clone(), name)
    }

    pub(crate) fn admission(&self) -> AdmissionServiceClient<Channel> {
        AdmissionServiceClient::new(self.channel.clone())
    }

    pub(crate) fn locks(&self) -> LockServiceClient<Channel> {
        LockServiceClient::new(self.channel.clone())
    }

    pub(crate) fn rates(&self) -> RateServiceClient<Channel> {
        RateServiceClient::new(self.channel.clone())
    }

    pub(crate) fn sequences(&self) -> SequenceServiceClient<Channel> {
        SequenceServiceClient::new(self.channel.clone())
    }

    pub(crate) fn stock(&self) -> StockServiceClient<Channel> {
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
    if uri.scheme_str() != Some("http") || uri.host().is_none_or(str::is_empty) {
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
    fn only_plain_http_urls_are_accepted() {
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
