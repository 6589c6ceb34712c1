//! How a connection is made.

use std::time::Duration;

use futures_util::future::join_all;
use tonic::{Code, transport::Endpoint};

use crate::{Access, Connection, Error, RetryBudget, Token, channels::Channels};

/// Default deadline of an attempt.
const DEADLINE: Duration = Duration::from_secs(1);
/// Timeout of the attempt to connect.
const CONNECT: Duration = Duration::from_secs(5);
/// Interval of keepalive pings, and the timeout of each. The disappearance of a server without a
/// reset is detected after at most twice this time.
const KEEPALIVE: Duration = Duration::from_secs(10);
const EXPECTED: &str = "expected http://host:port or https://host:port";

/// The options of a connection.
///
/// ```no_run
/// # use tollgate_client::{Connection, Error, Options, Token};
/// # async fn run() -> Result<(), Error> {
/// let connection = Options::new(["http://10.0.0.1:50051", "http://10.0.0.2:50051"])
///     .token(Token::File("/run/secrets/tollgate".into()))
///     .open()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    addresses: Vec<String>,
    access: Access,
    server_name: Option<String>,
    token: Option<Token>,
    pub(crate) deadline: Duration,
    pub(crate) retries: RetryBudget,
}

impl Options {
    /// Names the servers: `http://host:port`, `https://host:port` or `host:port`. The last form
    /// uses TLS if [`access`](Options::access) has an authority or a certificate. Calls go to the
    /// healthy servers in turn.
    pub fn new<A: Into<String>>(addresses: impl IntoIterator<Item = A>) -> Options {
        Options {
            addresses: addresses.into_iter().map(Into::into).collect(),
            access: Access::default(),
            server_name: None,
            token: None,
            deadline: DEADLINE,
            retries: RetryBudget::default(),
        }
    }

    /// Sets the certificates, the file of the token and the namespace.
    pub fn access(mut self, access: Access) -> Options {
        self.access = access;
        self
    }

    /// Sets the namespace of every call, for a caller with several. Default: the caller's own.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Options {
        self.access.namespace = Some(namespace.into());
        self
    }

    /// Sets the name that the certificate of the server must have. Default: the host of the
    /// address.
    pub fn server_name(mut self, name: impl Into<String>) -> Options {
        self.server_name = Some(name.into());
        self
    }

    /// Sets the token of every call. Default: `token_file` of [`access`](Options::access).
    pub fn token(mut self, token: Token) -> Options {
        self.token = Some(token);
        self
    }

    /// Sets the deadline of each attempt of a call; a wait for a slot or a lock is added to it. It
    /// is sent to the server, so that the server does not give up later than the client. Default: 1
    /// s.
    pub fn deadline(mut self, deadline: Duration) -> Options {
        self.deadline = deadline;
        self
    }

    /// Sets the budget of retries. Default: one retry for five calls, and 10 in reserve.
    pub fn retries(mut self, retries: RetryBudget) -> Options {
        self.retries = retries;
        self
    }

    /// Connects. Fails with INVALID_ARGUMENT if an address, a file or the namespace is invalid,
    /// and with UNAVAILABLE if no server is reachable.
    pub async fn open(self) -> Result<Connection, Error> {
        let endpoints = self.endpoints()?;
        let connects = endpoints.iter().map(Endpoint::connect);
        let (mut failed, mut opened) = (Vec::new(), Vec::new());
        for (endpoint, channel) in endpoints.iter().zip(join_all(connects).await) {
            let channel = channel.unwrap_or_else(|error| {
                failed.push((opened.len(), Error::unreachable(&error)));
                endpoint.connect_lazy()
            });
            opened.push((endpoint.clone(), channel));
        }
        if failed.len() == opened.len()
            && let Some((_, error)) = failed.pop()
        {
            return Err(error);
        }
        let channels = Channels::new(opened);
        for (index, _) in failed {
            channels.unreachable(index);
        }
        Connection::new(self, channels)
    }

    /// Creates a connection that connects when the first call is made. Fails with INVALID_ARGUMENT
    /// if an address, a file or the namespace is invalid. Needs a runtime of tokio.
    pub fn lazy(self) -> Result<Connection, Error> {
        let endpoints = self.endpoints()?;
        Connection::new(self, Channels::lazy(&endpoints))
    }

    /// Returns the token: the given one, or the file of the access.
    pub(crate) fn given_token(&self) -> Option<Token> {
        self.token.clone().or_else(|| self.access.token_file.clone().map(Token::File))
    }

    pub(crate) fn given_namespace(&self) -> Option<&str> {
        self.access.namespace.as_deref()
    }

    fn endpoints(&self) -> Result<Vec<Endpoint>, Error> {
        if self.addresses.is_empty() {
            return Err(Error::new(Code::InvalidArgument, "expected at least one address"));
        }
        self.addresses.iter().map(|address| self.endpoint(address)).collect()
    }

    fn endpoint(&self, address: &str) -> Result<Endpoint, Error> {
        let has_tls = self.access.ca.is_some() || self.access.cert.is_some();
        let address = match (address.contains("://"), has_tls) {
            (true, _) => address.to_owned(),
            (false, true) => format!("https://{address}"),
            (false, false) => format!("http://{address}"),
        };
        let endpoint = endpoint(&address).map_err(|it| Error::new(Code::InvalidArgument, it))?;
        if endpoint.uri().scheme_str() != Some("https") {
            return Ok(endpoint);
        }
        let mut tls = self.access.tls()?;
        if let Some(name) = &self.server_name {
            tls = tls.domain_name(name);
        }
        endpoint.tls_config(tls).map_err(|error| Error::invalid_tls(&error))
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
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .tcp_nodelay(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_and_https_urls_are_accepted() {
        for good in ["http://127.0.0.1:50051", "http://[::1]:1", "https://tollgate:50051/"] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for bad in ["", "127.0.0.1:50051", "ftp://x", "http://", "https://", "http://a b"] {
            assert!(check_url(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn addresses_need_no_scheme() {
        let endpoint = Options::new(["x"]).endpoint("127.0.0.1:50051").unwrap();
        assert_eq!(endpoint.uri().scheme_str(), Some("http"));
        assert!(Options::new([""; 0]).lazy().is_err());
        assert!(Options::new(["http://"]).lazy().is_err());
        let error = Options::new(["127.0.0.1:1"]).namespace("a\nb").lazy().unwrap_err();
        assert_eq!(error.violations[0].field, "namespace");
    }

    #[tokio::test]
    async fn an_unreachable_server_is_unavailable() {
        let error = Options::new(["127.0.0.1:1"]).open().await.unwrap_err();
        assert_eq!(error.code, "UNAVAILABLE");
    }
}
