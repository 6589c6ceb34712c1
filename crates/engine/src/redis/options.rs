//! The options of the Redis engine, from the configuration.

use std::time::Duration;

use super::{
    super::BATCH_MAX,
    Redis,
    address::{Address, Certificates, Password, SentinelUser},
    marker::{Markers, OnStoreLoss},
    preflight::Eviction,
};

/// The options of the Redis engine.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// The URL, in one of the [`FORMS`](super::address::FORMS).
    pub url: String,
    /// The password of the data nodes, if the URL has none.
    pub password: Option<Password>,
    /// The certificates for TLS.
    pub certificates: Certificates,
    /// The user for Sentinels.
    pub sentinel: SentinelUser,
    /// Maximum number of connections to a node, 1 to 1024, divided among the threads. Each thread
    /// has at least one for each of its pipelines.
    pub connections: u32,
    /// Maximum number of decisions in one script call, 1 to 256. Redis serves no other client
    /// during a script call.
    pub batch_max: usize,
    /// The reaction to a `maxmemory-policy` that can evict keys.
    pub eviction: Eviction,
    /// The reaction to a loss of the store's data.
    pub on_store_loss: OnStoreLoss,
    /// The id that the marker of the store must have: a store with another id, or without one, has
    /// lost its data. `None` to read it from the store. Not supported for a Cluster.
    pub store_id: Option<String>,
    /// The number of worker threads of the server.
    pub workers: usize,
    /// Maximum number of calls in flight; further calls are rejected immediately.
    pub calls_max: usize,
    /// Maximum number of decisions in each queue of a pipeline; further decisions are rejected
    /// immediately.
    pub queued_max: usize,
    /// Maximum time that a call waits for Redis, whatever its deadline, because a node that has
    /// vanished must not occupy connections for longer.
    pub answer_timeout: Duration,
    /// The prefix of every key.
    pub key_prefix: String,
    /// The number of servers on this Redis, 1 to 1000. The fallback of each server grants the
    /// configured numbers divided by this number.
    pub replicas: u32,
    /// Lua code that sets `now` in place of Redis's clock, for tests that step time. `None` in
    /// production.
    pub clock: Option<String>,
}

impl RedisOptions {
    /// Returns the defaults for a Redis at `url`.
    pub fn new(url: &str) -> RedisOptions {
        RedisOptions {
            url: url.to_owned(),
            password: None,
            certificates: Certificates::default(),
            sentinel: SentinelUser::default(),
            connections: 32,
            batch_max: BATCH_MAX,
            eviction: Eviction::Refuse,
            on_store_loss: OnStoreLoss::Refuse,
            store_id: None,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            calls_max: 4096,
            queued_max: 16_384,
            answer_timeout: Duration::from_secs(5),
            key_prefix: "tollgate".to_owned(),
            replicas: 1,
            clock: None,
        }
    }

    /// Checks the URL, and options that depend on it. The error says which part is wrong.
    pub fn check(&self) -> Result<(), String> {
        match (self.address()?, &self.store_id) {
            (Address::Cluster(_), Some(_)) => Err(
                "redis.store_id is not supported for a Cluster: each primary has its own marker"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }

    /// Returns the prefix of marker keys.
    pub(super) fn marker_key(&self) -> String {
        format!("{}:store", self.key_prefix)
    }

    /// Returns the markers that a new server knows.
    pub(super) fn markers(&self) -> Markers {
        Markers::new(self.on_store_loss, &self.marker_key(), self.store_id.as_deref())
    }

    pub(super) fn address(&self) -> Result<Address, String> {
        Address::parse(&self.url, self.password.as_ref(), &self.certificates, &self.sentinel)
    }
}

impl Redis {
    /// Returns the kind of its URL: `single`, `sentinel` or `cluster`.
    pub fn topology(&self) -> &'static str {
        let scheme = self.options.url.split("://").next().unwrap_or_default();
        match scheme.split('+').nth(1) {
            Some("sentinel") => "sentinel",
            Some("cluster") => "cluster",
            _ => "single",
        }
    }
}
