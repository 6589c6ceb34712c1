//! Direct connections to the nodes of the Redis that tests share.

use redis::{
    AsyncConnectionConfig, Cmd, RedisResult, ServerErrorKind, Value, aio::MultiplexedConnection,
};

use crate::support::world::redis_url;

/// One Redis, or each primary of a Cluster.
#[derive(Clone)]
pub struct Nodes(Vec<MultiplexedConnection>);

impl Nodes {
    /// Connects to the nodes in `TOLLGATE_TEST_NODES`, or else to `TOLLGATE_TEST_REDIS`.
    pub async fn connect() -> Nodes {
        Nodes::at(&std::env::var("TOLLGATE_TEST_NODES").unwrap_or_else(|_| redis_url())).await
    }

    /// Connects to the nodes at these URLs, which are separated by spaces.
    pub async fn at(urls: &str) -> Nodes {
        let mut nodes = Vec::new();
        for url in urls.split(' ') {
            let client = redis::Client::open(url).unwrap();
            // No timeouts, since the machine may be busy.
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(None)
                .set_response_timeout(None);
            nodes.push(client.get_multiplexed_async_connection_with_config(&config).await.unwrap());
        }
        Nodes(nodes)
    }

    /// Whether there is one node, which has all keys.
    pub fn is_one(&self) -> bool {
        self.0.len() == 1
    }

    /// Runs a command on the node that has its keys.
    pub async fn run(&self, cmd: &Cmd) -> Value {
        for node in &self.0 {
            let result: RedisResult<Value> = cmd.query_async(&mut node.clone()).await;
            match result {
                Err(error) if error.kind() == ServerErrorKind::Moved.into() => {}
                result => return result.unwrap(),
            }
        }
        panic!("no node of TOLLGATE_TEST_NODES has the keys of this command");
    }

    /// Returns the keys of all nodes that match a pattern.
    pub async fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys = Vec::new();
        for node in &self.0 {
            let mut cursor = 0;
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(10_000);
                let (next, page): (u64, Vec<String>) =
                    scan.query_async(&mut node.clone()).await.unwrap();
                keys.extend(page);
                if next == 0 {
                    break;
                }
                cursor = next;
            }
        }
        keys
    }
}
