//! Connections to all primaries, for exports, imports and counts of names. Each command goes to the
//! node that has its key.
//!
//! They do not follow redirects: if a slot moves, the command fails, and the export, import or
//! count must be repeated.

use redis::{Cmd, FromRedisValue, Pipeline, RedisError, cmd};

use super::super::{
    address::{Address, Endpoint},
    map::parse_map,
    options::RedisOptions,
    preflight::{Eviction, Preflight},
    slot::Slot,
    socket::{self, RedisSocket},
    source::{CONNECT_TIMEOUT, NodeSource},
};

/// The primaries of a Redis, of any topology.
pub(in super::super) struct Primaries {
    nodes: Vec<Primary>,
}

struct Primary {
    /// The ranges of slots, first and last; empty for a node with all slots.
    slots: Vec<(u16, u16)>,
    /// The `host:port`; empty without a Cluster.
    place: String,
    socket: RedisSocket,
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn told(error: RedisError) -> String {
    format!("Redis command failed: {error}")
}

impl Primaries {
    /// Connects to all primaries. The error says what cannot be reached.
    pub(in super::super) async fn connect(options: &RedisOptions) -> Result<Primaries, String> {
        let address = options.address()?;
        let failed = |error: RedisError| format!("cannot connect to Redis: {error}");
        let single = |socket| Primaries {
            nodes: vec![Primary { slots: Vec::new(), place: String::new(), socket }],
        };
        match address {
            Address::Single(endpoint) => NodeSource::Fixed(endpoint)
                .connect(0, CONNECT_TIMEOUT)
                .await
                .map(single)
                .map_err(failed),
            Address::Sentinel(client, tls) => NodeSource::sentinel(client, tls)
                .connect(0, CONNECT_TIMEOUT)
                .await
                .map(single)
                .map_err(failed),
            Address::Cluster(seeds) => cluster(&seeds).await,
        }
    }

    /// Runs the preflight on all nodes. Must pass before anything is read or written.
    pub(super) async fn check(&mut self, eviction: Eviction) -> Result<(), String> {
        for node in &mut self.nodes {
            let info: String = cmd("INFO").query_async(&mut node.socket).await.map_err(told)?;
            let preflight = Preflight::parse(&info);
            if let Some(why) = preflight.refusal(eviction) {
                return Err(format!("this Redis must not be used: {why}"));
            }
        }
        Ok(())
    }

    /// Returns the time of the first node's clock, in µs.
    pub(super) async fn time(&mut self) -> Result<u64, String> {
        let node = self.nodes.first_mut().ok_or("the Cluster has no primary")?;
        let (seconds, micros): (u64, u64) =
            cmd("TIME").query_async(&mut node.socket).await.map_err(told)?;
        Ok(seconds * 1_000_000 + micros)
    }

    /// Passes the keys that match a pattern to `found`, in pages, until it returns `false`.
    pub(super) async fn scan(
        &mut self,
        pattern: &str,
        mut found: impl FnMut(Vec<Vec<u8>>) -> bool,
    ) -> Result<(), String> {
        for node in 0..self.count() {
            let mut cursor = 0u64;
            loop {
                let (next, keys) = self.page(node, cursor, pattern).await?;
                if !keys.is_empty() && !found(keys) {
                    return Ok(());
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the number of primaries.
    pub(in super::super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns a page of the keys of one primary that match a pattern, and the cursor of the next
    /// page, which is 0 after the last one.
    pub(in super::super) async fn page(
        &mut self,
        node: usize,
        cursor: u64,
        pattern: &str,
    ) -> Result<(u64, Vec<Vec<u8>>), String> {
        let node = self.nodes.get_mut(node).ok_or("there is no such primary")?;
        let mut scan = cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(1000);
        scan.query_async(&mut node.socket).await.map_err(told)
    }

    /// Returns the memory of keys of one primary, in bytes; `None` for a key that does not exist.
    pub(in super::super) async fn sizes<'a>(
        &mut self,
        node: usize,
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Vec<Option<u64>>, String> {
        let node = self.nodes.get_mut(node).ok_or("there is no such primary")?;
        let mut pipeline = Pipeline::new();
        for key in keys {
            pipeline.cmd("MEMORY").arg("USAGE").arg(key);
        }
        pipeline.query_async(&mut node.socket).await.map_err(told)
    }

    /// Sends a command to the node that has its key.
    pub(super) async fn ask<T: FromRedisValue>(
        &mut self,
        key: &[u8],
        command: &Cmd,
    ) -> Result<T, String> {
        let position = self.position(key)?;
        command.query_async(&mut self.nodes[position].socket).await.map_err(told)
    }

    /// Removes keys. UNLINK frees their memory in the background, so Redis is not blocked.
    pub(super) async fn unlink(&mut self, keys: &[Vec<u8>]) -> Result<(), String> {
        let mut pipelines = vec![Pipeline::new(); self.nodes.len()];
        for key in keys {
            pipelines[self.position(key)?].cmd("UNLINK").arg(key).ignore();
        }
        for (node, pipeline) in self.nodes.iter_mut().zip(pipelines) {
            if !pipeline.is_empty() {
                pipeline.query_async::<()>(&mut node.socket).await.map_err(told)?;
            }
        }
        Ok(())
    }

    /// Returns the index of the node that has a key's slot.
    fn position(&self, key: &[u8]) -> Result<usize, String> {
        if let [node] = &self.nodes[..]
            && node.slots.is_empty()
        {
            return Ok(0);
        }
        let Slot(slot) = Slot::from_key(key);
        let has = |node: &Primary| {
            node.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
        };
        self.nodes.iter().position(has).ok_or_else(|| format!("no node has slot {slot}"))
    }
}

/// Connects to the primaries of a Cluster. One seed that answers is enough.
async fn cluster(seeds: &[Endpoint]) -> Result<Primaries, String> {
    let mut failed = "the URL contains no node".to_owned();
    for seed in seeds {
        let parts = match parse_map(seed).await {
            Ok(parts) => parts,
            Err(error) => {
                failed = error.to_string();
                continue;
            }
        };
        let mut nodes: Vec<Primary> = Vec::new();
        for part in parts {
            let slots = (part.first, part.last);
            match nodes.iter_mut().find(|node| node.place == part.primary) {
                Some(node) => node.slots.push(slots),
                None => {
                    let failed = |error| format!("cannot reach {}: {error}", part.primary);
                    let socket = connect(seed, &part.primary).await.map_err(failed)?;
                    nodes.push(Primary { slots: vec![slots], place: part.primary, socket });
                }
            }
        }
        return Ok(Primaries { nodes });
    }
    Err(format!("cannot reach the Cluster: {failed}"))
}

/// Connects to `place` with the user and TLS settings of `seed`.
async fn connect(seed: &Endpoint, place: &str) -> Result<RedisSocket, RedisError> {
    let (host, port) = place.rsplit_once(':').unwrap_or((place, ""));
    let endpoint = seed.at(host, port.parse().unwrap_or(6379));
    socket::connect(&endpoint, CONNECT_TIMEOUT).await
}
