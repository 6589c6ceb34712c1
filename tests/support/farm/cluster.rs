//! A Redis Cluster.

use super::*;

/// Three primaries with one replica each.
pub struct Cluster {
    pub nodes: Vec<Node>,
}

impl Cluster {
    pub async fn start() -> Cluster {
        let arguments = ["--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT];
        // The default bus port may be in use by the socket of a client.
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
                is_linked && node.is_whole().await
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

    /// Adds a primary without slots. Returns its index.
    pub async fn add_primary(&mut self) -> usize {
        let bus = free_port().to_string();
        let timeout = ["--cluster-node-timeout", NODE_TIMEOUT];
        let own = ["--cluster-enabled", "yes", "--cluster-port", &bus];
        let node = Node::start(&[&own[..], &timeout].concat());
        node.ready().await;
        let [new, old] = [node.port, self.nodes[0].port].map(|port| format!("127.0.0.1:{port}"));
        self.nodes.push(node);
        self.cli(&["--cluster", "add-node", &new, &old]).await;
        for node in &self.nodes {
            eventually("all nodes know the new one", async || {
                let known = node.command(&["CLUSTER", "NODES"]).await;
                known.is_ok_and(|known| {
                    let known: String = redis::from_redis_value(known).unwrap();
                    known.lines().count() == 7 && !known.contains("handshake")
                }) && node.is_whole().await
            })
            .await;
        }
        self.nodes.len() - 1
    }

    /// Runs redis-cli, which combines many commands. Returns its output.
    pub async fn cli(&self, arguments: &[&str]) -> String {
        let mut command = tokio::process::Command::new("redis-cli");
        let done = command.args(arguments).stdin(Stdio::null()).kill_on_drop(true).output();
        let done = timeout(READY, done).await.expect("redis-cli ends in time").unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{arguments:?}: {said}");
        said
    }

    /// Returns the hash slot of a pool's keys.
    pub async fn slot(&self, pool: &str) -> u16 {
        let key = format!("tollgate:{{admission:{pool}}}:leases");
        let slot = self.nodes[0].command(&["CLUSTER", "KEYSLOT", &key]).await.unwrap();
        redis::from_redis_value(slot).unwrap()
    }

    /// Returns the node that owns a slot: its index and its id.
    pub async fn owner(&self, slot: u16) -> (usize, String) {
        self.owned(slot).await.unwrap_or_else(|| panic!("no node owns slot {slot}"))
    }

    /// Like [`Cluster::owner`], but `None` if no reachable node owns the slot.
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

    /// Returns the indexes of all primaries.
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

impl Node {
    /// Whether the node reports a working Cluster of three primaries.
    async fn is_whole(&self) -> bool {
        let info = self.command(&["CLUSTER", "INFO"]).await;
        info.is_ok_and(|info| {
            let info: String = redis::from_redis_value(info).unwrap();
            info.contains("cluster_state:ok") && info.contains("cluster_size:3")
        })
    }
}
