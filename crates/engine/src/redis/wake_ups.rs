//! Receives wake-ups over Redis pub/sub, on one connection for all waiting calls.
//!
//! `Redis::maintain` runs this. A script publishes the number of a waiting call on the channel of
//! its server, and the hub wakes that call. A lost wake-up costs a call some waiting time but never
//! its place, because heartbeats report the same (`stages::waiting`).

use std::time::Duration;

use futures_util::StreamExt;
use redis::{RedisError, RedisResult};
use tokio::{
    task::unconstrained,
    time::{sleep, timeout},
};

use super::{Hub, StoreState, address::Endpoint, node::Node, socket, topology::Topology};

/// The interval after which a PING is sent on a silent connection. The second constant is the time
/// limit for a PING and for connecting.
const PING_EVERY: Duration = Duration::from_secs(2);
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// The pause after a connection broke.
const RETRY_AFTER: Duration = Duration::from_millis(250);
/// The pause after Redis has refused, for example because the user may not subscribe.
const RETRY_REFUSED: Duration = Duration::from_secs(10);

/// Passes wake-ups to the hub until it is dropped. In a Cluster, any node will do, because messages
/// reach all nodes.
pub(super) async fn listen(topology: &Topology, hub: &Hub) {
    let mut state = topology.state();
    loop {
        if state.wait_for(|state| *state != StoreState::Down).await.is_err() {
            // The engine was dropped.
            return;
        }
        let Some(node) = topology.any() else {
            sleep(RETRY_AFTER).await;
            continue;
        };
        let ended = match node.monitor.source().endpoint(node.monitor.epoch()).await {
            Ok(endpoint) => follow(&node, &endpoint, hub).await,
            Err(error) => Err(error),
        };
        // An error with a code is an answer from Redis.
        let refusal = ended.err().filter(|error| error.code().is_some());
        if let Some(error) = &refusal {
            tracing::warn!(%error, "cannot subscribe to wake-ups: waiting calls proceed up to \
                                    300 ms late; allow the user to SUBSCRIBE");
        }
        sleep(if refusal.is_some() { RETRY_REFUSED } else { RETRY_AFTER }).await;
    }
}

/// Passes wake-ups to the hub until the connection breaks or the node is down. A node that has left
/// the Cluster stays down; it may be a replica, where servers are not counted.
async fn follow(node: &Node, endpoint: &Endpoint, hub: &Hub) -> RedisResult<()> {
    let subscribed = async {
        let (mut sink, messages) = socket::subscribe(endpoint).await?.split();
        sink.subscribe(&**hub.channel()).await?;
        RedisResult::Ok((sink, messages))
    };
    let (mut sink, mut messages) = timeout(ANSWER_MAX, subscribed).await.map_err(silent)??;
    while node.monitor.is_up() {
        // Drains all received messages in one go, since the Redis client queues them without a
        // limit.
        match timeout(PING_EVERY, unconstrained(messages.next())).await {
            Ok(Some(message)) => {
                let number = str::from_utf8(message.get_payload_bytes()).ok();
                if let Some(number) = number.and_then(|text| text.parse().ok()) {
                    hub.wake(number);
                }
            }
            Ok(None) => return Err(silent(())),
            Err(_) => {
                let answered = timeout(ANSWER_MAX, sink.ping::<redis::Value>());
                answered.await.map_err(silent)??;
            }
        }
    }
    Ok(())
}

fn silent<E>(_: E) -> RedisError {
    (redis::ErrorKind::Io, "no answer on the connection for wake-ups").into()
}
