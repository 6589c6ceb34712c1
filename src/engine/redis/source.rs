//! The address of a node: fixed, or named by Sentinels.
//!
//! A monitor owns one and creates all connections to its node through it. The Sentinels are asked
//! again after each lost connection. Between that, the monitor asks every second, since a failover
//! need not break connections. If they do not answer, the last named primary stays in use.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Client, RedisError, RedisResult, aio::MultiplexedConnection,
    sentinel::SentinelClient,
};
use tokio::time::timeout;

/// The time limit of a connect of a probe or an export. Connections of a pipeline have longer.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The time limit of asking the Sentinels. One silent Sentinel takes 1.5 s of it.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(4);

/// Creates connections to one node.
#[expect(clippy::large_enum_variant, reason = "one for each node")]
pub(super) enum NodeSource {
    /// A fixed address.
    Fixed(Client),
    /// The primary that Sentinels name.
    Sentinel(Box<Sentinels>),
}

/// The Sentinels, and the last named primary.
pub(super) struct Sentinels {
    /// The client that asks them, by one caller at a time.
    sentinels: tokio::sync::Mutex<SentinelClient>,
    /// The primary that they named last, and the monitor's epoch at that time.
    primary: Mutex<Option<(Client, u64)>>,
}

impl NodeSource {
    /// The primary that these Sentinels name.
    pub(super) fn sentinel(client: SentinelClient) -> NodeSource {
        let sentinels = tokio::sync::Mutex::new(client);
        NodeSource::Sentinel(Box::new(Sentinels { sentinels, primary: Mutex::default() }))
    }

    /// Connects `within` a time, in this epoch of the monitor. Asks the Sentinels if the known
    /// primary is of an older epoch.
    ///
    /// The connection has no response timeout: the deadline of each call bounds its wait.
    pub(super) async fn connect(
        &self,
        epoch: u64,
        within: Duration,
    ) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(within))
            .set_response_timeout(None);
        let client = self.client(epoch).await?;
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// The client for the address of the node.
    pub(super) async fn client(&self, epoch: u64) -> RedisResult<Client> {
        let Sentinels { sentinels, primary } = match self {
            NodeSource::Fixed(client) => return Ok(client.clone()),
            NodeSource::Sentinel(sentinels) => &**sentinels,
        };
        // An answer from before the last lost connection is too old: the primary may have changed.
        let known = || {
            let known = lock(primary).clone();
            known.filter(|(_, since)| *since >= epoch).map(|(client, _)| client)
        };
        if let Some(client) = known() {
            return Ok(client);
        }
        let ask = async {
            let mut sentinels = sentinels.lock().await;
            match known() {
                // Another task asked while this one waited.
                Some(client) => Ok(client),
                None => sentinels.async_get_client().await,
            }
        };
        match timeout(RESOLVE_TIMEOUT, ask).await.map_err(silent).and_then(|named| named) {
            Ok(client) => {
                *lock(primary) = Some((client.clone(), epoch));
                Ok(client)
            }
            // Without an answer the last named primary stays in use, if it still answers.
            Err(error) => lock(primary).clone().map(|(client, _)| client).ok_or(error),
        }
    }

    /// The client for the last known address; never asks the Sentinels.
    pub(super) fn client_now(&self) -> RedisResult<Client> {
        let none = || (redis::ErrorKind::Io, "the Sentinels have not named a primary yet").into();
        match self {
            NodeSource::Fixed(client) => Ok(client.clone()),
            NodeSource::Sentinel(sentinels) => {
                lock(&sentinels.primary).clone().map(|(client, _)| client).ok_or_else(none)
            }
        }
    }

    /// Whether the address can change.
    pub(super) fn can_move(&self) -> bool {
        matches!(self, NodeSource::Sentinel(_))
    }

    /// Whether the Sentinels name another primary than before. `false` without an answer.
    pub(super) async fn has_moved(&self) -> bool {
        let NodeSource::Sentinel(known) = self else { return false };
        let Sentinels { sentinels, primary } = &**known;
        let Some((known, _)) = lock(primary).clone() else { return false };
        let ask = async { sentinels.lock().await.async_get_client().await };
        match timeout(RESOLVE_TIMEOUT, ask).await {
            Ok(Ok(named)) => {
                named.get_connection_info().addr() != known.get_connection_info().addr()
            }
            // Without an answer the last named primary stays in use.
            Ok(Err(_)) | Err(_) => false,
        }
    }
}

fn silent<E>(_: E) -> RedisError {
    (redis::ErrorKind::Io, "the Sentinels do not answer").into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
