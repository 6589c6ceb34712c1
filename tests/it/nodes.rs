//! The nodes of the Redis that tests share, straight to their sockets.

use redis::{
    AsyncConnectionConfig, Cmd, RedisResult, ServerErrorKind, Value, aio::MultiplexedConnection,
};

use crate::world::redis_url;

/// One, or each primary of a Cluster.
#[derive(Clone)]
pub struct Nodes(Vec<MultiplexedConnection>);

impl Nodes {
    /// Those of `TOLLGATE_TEST_NODES`, or the one of `TOLLGATE_TEST_REDIS`.
    pub async fn connect() -> Nodes {
        let urls = std::env::var("TOLLGATE_TEST_NODES").unwrap_or_else(|_| redis_url());
        let mut nodes = Vec::new();
        for url in urls.split(' ') {
            let client = redis::Client::open(url).unwrap();
            // Neither timeout: a busy machine is no failure.
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(None)
                .set_response_timeout(None);
            nodes.push(client.get_multiplexed_async_connection_with_config(&config).await.unwrap());
        }
        Nodes(nodes)
    }

    /// Runs a command where its keys are.
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

    /// The keys of a pattern, of all nodes.
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
