//! Where a node is: at a fixed place, or wherever the Sentinels say.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Client, RedisError, RedisResult, aio::MultiplexedConnection,
    sentinel::SentinelClient,
};
use tokio::time::timeout;

/// How long a connection may take to be made, and Sentinels to be asked.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// One Sentinel that is silent takes a second and a half of it.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(4);

/// Makes connections to one node.
#[expect(clippy::large_enum_variant, reason = "one for each node")]
pub(super) enum Source {
    /// At a fixed place.
    Fixed(Client),
    /// Wherever the Sentinels say.
    Sentinel(Box<Sentinels>),
}

/// The Sentinels, and the primary that they named.
pub(super) struct Sentinels {
    /// Asks them.
    sentinels: tokio::sync::Mutex<SentinelClient>,
    /// What they said last, and in which epoch of the monitor.
    primary: Mutex<Option<(Client, u64)>>,
}

impl Source {
    pub(super) fn sentinel(client: SentinelClient) -> Source {
        let sentinels = tokio::sync::Mutex::new(client);
        Source::Sentinel(Box::new(Sentinels { sentinels, primary: Mutex::default() }))
    }

    /// Connects, in this epoch of the monitor: a primary that was named in an older one
    /// is asked for again.
    ///
    /// There is no response timeout: the call's own deadline is the bound.
    pub(super) async fn connect(&self, epoch: u64) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(None);
        let client = self.client(epoch).await?;
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// The client of the node's place.
    pub(super) async fn client(&self, epoch: u64) -> RedisResult<Client> {
        let Sentinels { sentinels, primary } = match self {
            Source::Fixed(client) => return Ok(client.clone()),
            Source::Sentinel(sentinels) => &**sentinels,
        };
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
                // Another one has asked meanwhile.
                Some(client) => Ok(client),
                None => sentinels.async_get_client().await,
            }
        };
        match timeout(RESOLVE_TIMEOUT, ask).await.map_err(silent).and_then(|named| named) {
            Ok(client) => {
                *lock(primary) = Some((client.clone(), epoch));
                Ok(client)
            }
            // Without a word of theirs the one that was named goes on, if it still leads.
            Err(error) => lock(primary).clone().map(|(client, _)| client).ok_or(error),
        }
    }

    /// The client of the place that is known, without asking.
    pub(super) fn client_now(&self) -> RedisResult<Client> {
        let none = || (redis::ErrorKind::Io, "its place is not known").into();
        match self {
            Source::Fixed(client) => Ok(client.clone()),
            Source::Sentinel(sentinels) => {
                lock(&sentinels.primary).clone().map(|(client, _)| client).ok_or_else(none)
            }
        }
    }

    /// Whether it may be elsewhere some time.
    pub(super) fn can_move(&self) -> bool {
        matches!(self, Source::Sentinel(_))
    }

    /// Whether the Sentinels name another primary than they did.
    pub(super) async fn has_moved(&self) -> bool {
        let Source::Sentinel(known) = self else { return false };
        let Sentinels { sentinels, primary } = &**known;
        let Some((known, _)) = lock(primary).clone() else { return false };
        let ask = async { sentinels.lock().await.async_get_client().await };
        match timeout(RESOLVE_TIMEOUT, ask).await {
            Ok(Ok(named)) => {
                named.get_connection_info().addr() != known.get_connection_info().addr()
            }
            // Without a word of theirs the one that was named goes on.
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
