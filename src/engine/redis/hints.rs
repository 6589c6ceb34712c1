//! Listens for hints, over one connection whatever number of calls wait.
//!
//! A hint that is lost costs a call that waits a little time, no turn: the waiting room
//! asks the store now and then, too.

use std::time::Duration;

use futures_util::StreamExt;
use redis::{Client, RedisError, RedisResult};
use tokio::time::{sleep, timeout};

use super::{Hub, StoreState, topology::Topology};

/// How often a silent connection is asked whether it is there, and how long it may
/// take to say so or to be made.
const PING_EVERY: Duration = Duration::from_secs(2);
const ANSWER_MAX: Duration = Duration::from_secs(1);
const RETRY_AFTER: Duration = Duration::from_millis(250);
/// When the store refuses, for example since our user may not subscribe.
const RETRY_REFUSED: Duration = Duration::from_secs(10);

/// Hands hints to the hub, for ever. Any node of a Cluster hears what is said to one.
pub(super) async fn listen(topology: &Topology, hub: &Hub) {
    let mut state = topology.state();
    loop {
        if state.wait_for(|state| *state != StoreState::Down).await.is_err() {
            // The engine is gone.
            return;
        }
        let Some(node) = topology.any() else {
            sleep(RETRY_AFTER).await;
            continue;
        };
        let error = match node.monitor.source().client(node.monitor.epoch()).await {
            Ok(client) => {
                let Err(error) = follow(&client, hub).await;
                error
            }
            Err(error) => error,
        };
        // Anything with a code was said by the store.
        let refused = error.code().is_some();
        if refused {
            tracing::warn!(%error, "cannot listen for hints: calls that wait are served later");
        }
        sleep(if refused { RETRY_REFUSED } else { RETRY_AFTER }).await;
    }
}

/// Hands hints to the hub until the connection breaks.
async fn follow(client: &Client, hub: &Hub) -> Result<std::convert::Infallible, RedisError> {
    let subscribed = async {
        let (mut sink, messages) = client.get_async_pubsub().await?.split();
        sink.subscribe(&**hub.channel()).await?;
        RedisResult::Ok((sink, messages))
    };
    let (mut sink, mut messages) = timeout(ANSWER_MAX, subscribed).await.map_err(silent)??;
    loop {
        match timeout(PING_EVERY, messages.next()).await {
            Ok(Some(message)) => {
                let number = str::from_utf8(message.get_payload_bytes()).ok();
                if let Some(number) = number.and_then(|text| text.parse().ok()) {
                    hub.tell(number);
                }
            }
            Ok(None) => return Err(silent(())),
            Err(_) => {
                let answered = timeout(ANSWER_MAX, sink.ping::<redis::Value>());
                answered.await.map_err(silent)??;
            }
        }
    }
}

fn silent<E>(_: E) -> RedisError {
    (redis::ErrorKind::Io, "the connection that hints come over is silent").into()
}
