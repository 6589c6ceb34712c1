//! Redis in its larger forms, of a test's own: a primary with replicas under Sentinels,
//! and a Cluster.

use std::{fs, path::PathBuf, process::Stdio, time::Duration};

use redis::{RedisResult, Value};
use tokio::time::{sleep, timeout};

use crate::process::{Process, free_port};

/// How long a farm may take to be ready: elections are held at Redis's own pace.
const READY: Duration = Duration::from_secs(60);
/// After which a node that is silent is held to be gone, in milliseconds.
const NODE_TIMEOUT: &str = "1000";

/// A redis-server of a farm.
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
            .expect("redis-server is installed; ./tests/run.sh does it");
        self.process = Some(Process(child));
    }

    pub async fn command(&self, command: &[&str]) -> RedisResult<Value> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd(command[0]).arg(&command[1..]).query_async(&mut connection).await
    }

    /// Ends it without a word.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again, empty.
    pub async fn restart(&mut self, arguments: &[&str]) {
        self.run(arguments);
        self.ready().await;
    }

    async fn ready(&self) {
        eventually("a node answers", async || self.command(&["PING"]).await.is_ok()).await;
    }

    /// A field of INFO.
    pub async fn info(&self, field: &str) -> Option<String> {
        let Ok(info) = self.command(&["INFO"]).await else { return None };
        let info: String = redis::from_redis_value(info).unwrap();
        let mut lines = info.lines().filter_map(|line| line.trim_end().split_once(':'));
        lines.find(|(key, _)| *key == field).map(|(_, value)| value.to_owned())
    }

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

/// Waits until something holds.
pub async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    let wait = async {
        while !holds().await {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(READY, wait).await.unwrap_or_else(|_| panic!("in time: {what}"));
}

/// A primary, its replicas, and three Sentinels that know them as `main`.
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
            eventually("the Sentinels know all", async || {
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

    /// Whether all Sentinels see this node lead, and the others follow it.
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

    /// Which node leads, by its own word.
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
        .expect("redis-server is installed; ./tests/run.sh does it");
    Node { port, directory, process: Some(Process(child)) }
}

/// Three primaries with a replica each.
pub struct Cluster {
    pub nodes: Vec<Node>,
}

impl Cluster {
    pub async fn start() -> Cluster {
        let arguments = ["--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT];
        // Its default is a port that sockets of clients may have.
        let start = |_| {
            let bus = free_port().to_string();
            Node::start(&[&arguments[..], &["--cluster-port", &bus]].concat())
        };
        let nodes: Vec<Node> = (0..6).map(start).collect();
        for node in &nodes {
            node.ready().await;
        }
        let cluster = Cluster { nodes };
        let places: Vec<String> =
            cluster.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        let mut create = vec!["--cluster", "create"];
        create.extend(places.iter().map(String::as_str));
        create.extend(["--cluster-replicas", "1", "--cluster-yes"]);
        cluster.cli(&create).await;
        for node in &cluster.nodes {
            eventually("the Cluster is whole", async || {
                let is_linked =
                    node.info("role").await.as_deref() != Some("slave") || node.is_linked().await;
                let info = node.command(&["CLUSTER", "INFO"]).await;
                is_linked
                    && info.is_ok_and(|info| {
                        let info: String = redis::from_redis_value(info).unwrap();
                        info.contains("cluster_state:ok") && info.contains("cluster_size:3")
                    })
            })
            .await;
        }
        cluster
    }

    pub fn url(&self) -> String {
        let places: Vec<String> =
            self.nodes.iter().take(3).map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis+cluster://{}", places.join(","))
    }

    /// Runs redis-cli, for what takes many commands.
    pub async fn cli(&self, arguments: &[&str]) -> String {
        let mut command = tokio::process::Command::new("redis-cli");
        let done = command.args(arguments).stdin(Stdio::null()).kill_on_drop(true).output();
        let done = timeout(READY, done).await.expect("redis-cli ends in time").unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{arguments:?}: {said}");
        said
    }

    /// The slot of a pool's keys.
    pub async fn slot(&self, pool: &str) -> u16 {
        let key = format!("tollgate:{{admission:{pool}}}:leases");
        let slot = self.nodes[0].command(&["CLUSTER", "KEYSLOT", &key]).await.unwrap();
        redis::from_redis_value(slot).unwrap()
    }

    /// The node that has a slot, by its number here, and its id.
    pub async fn owner(&self, slot: u16) -> (usize, String) {
        self.owned(slot).await.unwrap_or_else(|| panic!("no node says that slot {slot} is its own"))
    }

    /// The same, if there is one that answers.
    pub async fn owned(&self, slot: u16) -> Option<(usize, String)> {
        for (number, node) in self.nodes.iter().enumerate() {
            let Ok(nodes) = node.command(&["CLUSTER", "NODES"]).await else { continue };
            let nodes: String = redis::from_redis_value(nodes).unwrap();
            let own = nodes.lines().find(|line| line.contains("myself")).unwrap();
            let fields: Vec<&str> = own.split(' ').collect();
            let has = |range: &&str| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let bounds = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
                bounds.is_some_and(|(first, last)| (first..=last).contains(&slot))
            };
            if fields[2].contains("master") && fields[8..].iter().any(has) {
                return Some((number, fields[0].to_owned()));
            }
        }
        None
    }

    /// Those that are no replicas.
    pub async fn primaries(&self) -> Vec<usize> {
        let mut primaries = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            if node.info("role").await.as_deref() == Some("master") {
                primaries.push(number);
            }
        }
        primaries
    }

    /// Moves a slot with all its keys to another node.
    pub async fn migrate(&self, slot: u16, to: usize) {
        let (from, from_id) = self.owner(slot).await;
        let id = self.nodes[to].command(&["CLUSTER", "MYID"]).await.unwrap();
        let to_id: String = redis::from_redis_value(id).unwrap();
        let number = slot.to_string();
        let set = async |node: usize, what: &str, id: &str| {
            self.nodes[node].command(&["CLUSTER", "SETSLOT", &number, what, id]).await.unwrap();
        };
        set(to, "IMPORTING", &from_id).await;
        set(from, "MIGRATING", &to_id).await;
        let port = self.nodes[to].port.to_string();
        loop {
            let keys = ["CLUSTER", "GETKEYSINSLOT", &number, "3"];
            let keys = self.nodes[from].command(&keys).await.unwrap();
            let keys: Vec<String> = redis::from_redis_value(keys).unwrap();
            if keys.is_empty() {
                break;
            }
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            migrate.extend(keys.iter().map(String::as_str));
            self.nodes[from].command(&migrate).await.unwrap();
        }
        set(to, "NODE", &to_id).await;
        set(from, "NODE", &to_id).await;
    }
}
