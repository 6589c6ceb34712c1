//! Makes one connection to Redis.

use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, RedisResult, aio::MultiplexedConnection};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Connects without a response timeout: the call's own deadline is the bound.
pub(super) async fn connect(client: &Client) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await
}
