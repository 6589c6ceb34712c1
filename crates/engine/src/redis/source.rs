//! The address of a node: fixed, or named by Sentinels.
//!
//! A monitor owns one source and creates all connections to its node through it. The Sentinels are
//! asked again after each lost connection. In addition, the monitor asks every second, since a
//! failover need not break connections. If they do not answer, the last named primary stays in use.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{RedisError, RedisResult, sentinel::SentinelClient};
use rustls::ClientConfig;
use tokio::time::timeout;

use super::{
    address::Endpoint,
    socket::{self, RedisSocket},
};

/// Time limit for connections of a probe or an export. Connections of a pipeline have a longer one.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit for asking the Sentinels. One silent Sentinel uses 1.5 s of it.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(4);

/// Creates connections to one node.
#[expect(clippy::large_enum_variant, reason = "one for each node")]
pub(super) enum NodeSource {
    /// A fixed address.
    Fixed(Endpoint),
    /// The primary that Sentinels name.
    Sentinel(Box<Sentinels>),
}

/// The Sentinels, and the last named primary.
pub(super) struct Sentinels {
    /// The client that asks them, for one caller at a time.
    client: tokio::sync::Mutex<SentinelClient>,
    /// The TLS settings of the data nodes.
    tls: Option<Arc<ClientConfig>>,
    /// The primary that they named last, and the monitor's epoch at that time.
    primary: Mutex<Option<(Endpoint, u64)>>,
}

impl NodeSource {
    /// Creates the source for the primary that these Sentinels name.
    pub(super) fn sentinel(client: SentinelClient, tls: Option<Arc<ClientConfig>>) -> NodeSource {
        let client = tokio::sync::Mutex::new(client);
        NodeSource::Sentinel(Box::new(Sentinels { client, tls, primary: Mutex::default() }))
    }

    /// Connects within the time `within`, in this epoch of the monitor. Asks the Sentinels if the
    /// known primary is from an older epoch.
    ///
    /// The connection has no response timeout, because the deadline of each call bounds its wait.
    pub(super) async fn connect(&self, epoch: u64, within: Duration) -> RedisResult<RedisSocket> {
        socket::connect(&self.endpoint(epoch).await?, within).await
    }

    /// Returns the address of the node.
    pub(super) async fn endpoint(&self, epoch: u64) -> RedisResult<Endpoint> {
        let sentinels = match self {
            NodeSource::Fixed(endpoint) => return Ok(endpoint.clone()),
            NodeSource::Sentinel(sentinels) => &**sentinels,
        };
        let primary = &sentinels.primary;
        // An answer from before the last lost connection is too old: the primary may have changed.
        let known = || {
            let known = lock(primary).clone();
            known.filter(|(_, since)| *since >= epoch).map(|(endpoint, _)| endpoint)
        };
        if let Some(endpoint) = known() {
            return Ok(endpoint);
        }
        let ask = async {
            let mut client = sentinels.client.lock().await;
            match known() {
                // Another task has asked while this one was waiting.
                Some(endpoint) => Ok(endpoint),
                None => sentinels.ask(&mut client).await,
            }
        };
        match timeout(RESOLVE_TIMEOUT, ask).await.map_err(silent).and_then(|named| named) {
            Ok(endpoint) => {
                *lock(primary) = Some((endpoint.clone(), epoch));
                Ok(endpoint)
            }
            // Without an answer, the last named primary stays in use, if it still answers.
            Err(error) => lock(primary).clone().map(|(endpoint, _)| endpoint).ok_or(error),
        }
    }

    /// Returns the last known address, and never asks the Sentinels.
    pub(super) fn endpoint_now(&self) -> RedisResult<Endpoint> {
        let none = || (redis::ErrorKind::Io, "the Sentinels have not named a primary yet").into();
        match self {
            NodeSource::Fixed(endpoint) => Ok(endpoint.clone()),
            NodeSource::Sentinel(sentinels) => {
                lock(&sentinels.primary).clone().map(|(endpoint, _)| endpoint).ok_or_else(none)
            }
        }
    }

    /// Whether the address can change.
    pub(super) fn can_move(&self) -> bool {
        matches!(self, NodeSource::Sentinel(_))
    }

    /// Whether the Sentinels name a different primary than before. `false` without an answer.
    pub(super) async fn has_moved(&self) -> bool {
        let NodeSource::Sentinel(sentinels) = self else { return false };
        let Some((known, _)) = lock(&sentinels.primary).clone() else { return false };
        let ask = async { sentinels.ask(&mut *sentinels.client.lock().await).await };
        match timeout(RESOLVE_TIMEOUT, ask).await {
            Ok(Ok(named)) => named.info.addr() != known.info.addr(),
            // Without an answer, the last named primary stays in use.
            Ok(Err(_)) | Err(_) => false,
        }
    }
}

impl Sentinels {
    /// Asks for the primary.
    async fn ask(&self, client: &mut SentinelClient) -> RedisResult<Endpoint> {
        let named = client.async_get_client().await?;
        Ok(Endpoint { info: named.get_connection_info().clone(), tls: self.tls.clone() })
    }
}

fn silent<E>(_: E) -> RedisError {
    (redis::ErrorKind::Io, "the Sentinels do not answer").into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
