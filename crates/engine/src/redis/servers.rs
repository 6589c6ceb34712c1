//! Counts the servers on a Redis by the channels of their wake-ups.
//!
//! Each server subscribes to its own channel. In a Cluster, it subscribes on one node, and PUBSUB
//! answers for one node only, so each monitor counts on its node and [`total`] adds up the counts.

use std::{sync::Arc, time::Duration};

use redis::{RedisResult, cmd};
use tokio::time::timeout;

use super::socket::RedisSocket;

/// Maximum wait for the answer. It delays the next probe, so it is short.
const ANSWER_MAX: Duration = Duration::from_millis(250);

/// The channels of all servers with one key prefix.
#[derive(Debug)]
pub(super) struct ServerChannels {
    /// The channel of this server.
    own: Arc<str>,
    /// The pattern of all channels. A key prefix contains no special characters of patterns.
    pattern: String,
}

/// The servers that subscribe on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeServers {
    servers: u32,
    /// Whether this server is one of them.
    has_own: bool,
}

impl ServerChannels {
    /// Creates the set of channels that differ from `own` only after its last colon.
    pub(super) fn new(own: &Arc<str>) -> ServerChannels {
        let (prefix, random) = own.rsplit_once(':').unwrap_or(("", own));
        // The pattern matches only channels of equal length, so that it does not match those of
        // longer key prefixes.
        let pattern = format!("{prefix}:{}", "?".repeat(random.len()));
        ServerChannels { own: own.clone(), pattern }
    }

    /// Counts the servers on a node. `None` if Redis refuses or does not answer.
    pub(super) async fn count(&self, socket: &mut RedisSocket) -> Option<NodeServers> {
        let mut asked = cmd("PUBSUB");
        asked.arg("CHANNELS").arg(&self.pattern);
        let channels = timeout(ANSWER_MAX, asked.query_async(socket)).await;
        let channels: RedisResult<Vec<Vec<u8>>> = channels.ok()?;
        let channels = channels
            .inspect_err(|error| tracing::debug!(%error, "cannot count the servers on Redis"))
            .ok()?;
        let has_own = channels.iter().any(|channel| **channel == *self.own.as_bytes());
        let servers = u32::try_from(channels.len()).unwrap_or(u32::MAX);
        Some(NodeServers { servers, has_own })
    }
}

/// Adds up the servers of all nodes. Returns `None` if a node has not answered, or if this server
/// is not among the servers: Redis then refuses its subscription, and perhaps those of others.
pub(super) fn total(nodes: impl IntoIterator<Item = Option<NodeServers>>) -> Option<u32> {
    let mut total = NodeServers { servers: 0, has_own: false };
    for node in nodes {
        let NodeServers { servers, has_own } = node?;
        total.servers = total.servers.saturating_add(servers);
        total.has_own |= has_own;
    }
    total.has_own.then_some(total.servers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_of_all_nodes_are_added_up() {
        let node = |servers, has_own| Some(NodeServers { servers, has_own });
        assert_eq!(total([node(2, false), node(0, false), node(3, true)]), Some(5));
        assert_eq!(total([node(2, true), None]), None, "a node has not answered");
        assert_eq!(total([node(2, false), node(3, false)]), None, "this server is missing");
        assert_eq!(total([node(u32::MAX, true), node(3, false)]), Some(u32::MAX));
    }

    #[test]
    fn the_pattern_has_the_length_of_a_channel() {
        let channels = ServerChannels::new(&"a:b:hints:0123".into());
        assert_eq!(channels.pattern, "a:b:hints:????");
    }
}
