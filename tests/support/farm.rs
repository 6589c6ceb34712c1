//! Larger Redis installations of a test: a primary with replicas under Sentinels, and a Cluster.

mod cluster;

use std::{fs, path::PathBuf, process::Stdio, time::Duration};

use redis::{RedisResult, Value};
use tokio::time::{sleep, timeout};

pub use cluster::Cluster;

use crate::support::process::{Process, connect, free_port};

/// Time in which an installation must be ready. Elections take seconds.
const READY: Duration = Duration::from_secs(60);
/// Silence after which a node counts as failed, in milliseconds.
const NODE_TIMEOUT: &str = "1000";

/// A redis-server of an installation.
pub struct Node {
    pub port: u16,
    directory: PathBuf,
    process: Option<Process>,
}

impl Node {
    fn start(arguments: &[&str]) -> Node {
        let port = free_port();
        let directory = std::env::temp_dir().join(format!("tollgate-test-farm-{port}"));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let mut node = Node { port, directory, process: None };
        node.run(arguments);
        node
    }

    fn run(&mut self, arguments: &[&str]) {
        let child = std::process::Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--repl-diskless-sync-delay", "0", "--dir", self.directory.to_str().unwrap()])
            .args(arguments)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed; ./tests/run.sh installs it");
        self.process = Some(Process(child));
    }

    pub async fn command(&self, command: &[&str]) -> RedisResult<Value> {
        let mut connection = connect(&format!("redis://127.0.0.1:{}", self.port)).await?;
        redis::cmd(command[0]).arg(&command[1..]).query_async(&mut connection).await
    }

    /// Kills the node.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts the node again, without data.
    pub async fn restart(&mut self, arguments: &[&str]) {
        self.run(arguments);
        self.ready().await;
    }

    async fn ready(&self) {
        eventually("a node answers", async || self.command(&["PING"]).await.is_ok()).await;
    }

    /// Returns a field of INFO.
    pub async fn info(&self, field: &str) -> Option<String> {
        let Ok(info) = self.command(&["INFO"]).await else { return None };
        let info: String = redis::from_redis_value(info).unwrap();
        let mut lines = info.lines().filter_map(|line| line.trim_end().split_once(':'));
        lines.find(|(key, _)| *key == field).map(|(_, value)| value.to_owned())
    }

    /// Whether the replica is connected to its primary.
    async fn is_linked(&self) -> bool {
        self.info("master_link_status").await.as_deref() == Some("up")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.process = None;
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Waits until `holds` returns true. Panics after [`READY`].
pub async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    let wait = async {
        while !holds().await {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(READY, wait).await.unwrap_or_else(|_| panic!("not within {READY:?}: {what}"));
}

/// A primary, its replicas, and three Sentinels that monitor the primary as `main`.
pub struct Watched {
    pub nodes: Vec<Node>,
    pub sentinels: Vec<Node>,
}

impl Watched {
    pub async fn start(replicas: usize) -> Watched {
        let primary = Node::start(&[]);
        primary.ready().await;
        let of = format!("127.0.0.1 {}", primary.port);
        let mut nodes = vec![primary];
        nodes.extend((0..replicas).map(|_| Node::start(&["--replicaof", &of])));
        for replica in &nodes[1..] {
            eventually("a replica has all", async || replica.is_linked().await).await;
        }
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            sentinels.push(sentinel(nodes[0].port));
        }
        for one in &sentinels {
            eventually("the Sentinels know all nodes", async || {
                let known = one.command(&["SENTINEL", "master", "main"]).await;
                let Ok(Value::Array(known)) = known else { return false };
                let field = |name: &str| {
                    let at = known.iter().position(|v| *v == text(name))?;
                    known.get(at + 1).cloned()
                };
                field("num-other-sentinels") == Some(text("2"))
                    && field("num-slaves") == Some(text(&replicas.to_string()))
            })
            .await;
        }
        Watched { nodes, sentinels }
    }

    pub fn url(&self) -> String {
        let places: Vec<String> =
            self.sentinels.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis+sentinel://{}/main", places.join(","))
    }

    /// Whether all Sentinels see this node as the primary of all other nodes.
    pub async fn is_settled(&self, leader: usize) -> bool {
        for one in &self.sentinels {
            let known = one.command(&["SENTINEL", "REPLICAS", "main"]).await;
            let Ok(Value::Array(replicas)) = known else { return false };
            let follows = |replica: &Value| {
                let fields: std::collections::HashMap<String, String> =
                    redis::from_redis_value(replica.clone()).unwrap_or_default();
                let is = |field: &str, value: &str| fields.get(field).is_some_and(|of| of == value);
                is("flags", "slave")
                    && is("master-link-status", "ok")
                    && is("master-port", &self.nodes[leader].port.to_string())
            };
            if replicas.len() + 1 != self.nodes.len() || !replicas.iter().all(follows) {
                return false;
            }
        }
        true
    }

    /// Whether a node reports itself as a primary.
    pub async fn leads(&self, node: usize) -> bool {
        self.nodes[node].info("role").await.as_deref() == Some("master")
    }
}

fn text(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

fn sentinel(primary: u16) -> Node {
    let port = free_port();
    let directory = std::env::temp_dir().join(format!("tollgate-test-farm-{port}"));
    fs::create_dir_all(&directory).unwrap();
    let config = directory.join("sentinel.conf");
    let text = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {primary} 2\n\
         sentinel down-after-milliseconds main {NODE_TIMEOUT}\n\
         sentinel failover-timeout main 3000\n",
        directory.display()
    );
    fs::write(&config, text).unwrap();
    let child = std::process::Command::new("redis-server")
        .args([config.to_str().unwrap(), "--sentinel"])
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed; ./tests/run.sh installs it");
    Node { port, directory, process: Some(Process(child)) }
}
