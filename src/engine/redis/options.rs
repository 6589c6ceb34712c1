//! The options of the Redis engine, from the configuration.

use std::time::Duration;

use super::{
    super::BATCH_MAX,
    Redis,
    address::{Address, Certificates, Password, SentinelUser},
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
    /// The most connections to a node, 1 to 1024, shared out among the threads. Each thread has at
    /// least one for each of its pipelines.
    pub connections: u32,
    /// The most decisions in one script call, 1 to 256. Redis serves no other client during a
    /// script call.
    pub batch_max: usize,
    /// The reaction to a `maxmemory-policy` that can evict keys.
    pub eviction: Eviction,
    /// The number of worker threads of the server.
    pub workers: usize,
    /// The most calls in flight; further ones are refused at once.
    pub calls_max: usize,
    /// The most decisions in each queue of a pipeline; further ones are refused at once.
    pub queued_max: usize,
    /// The longest that a call waits for Redis, whatever its deadline: a node that vanished must not
    /// occupy connections for longer.
    pub answer_timeout: Duration,
    /// The prefix of every key.
    pub key_prefix: String,
    /// The number of servers on this Redis, 1 to 1000. The fallback grants each of them its share.
    pub replicas: u32,
    /// Lua that sets `now` in place of Redis's clock, for tests that step the time. `None` in
    /// production.
    pub clock: Option<String>,
}

impl RedisOptions {
    /// The defaults for a Redis at `url`.
    pub fn new(url: &str) -> RedisOptions {
        RedisOptions {
            url: url.to_owned(),
            password: None,
            certificates: Certificates::default(),
            sentinel: SentinelUser::default(),
            connections: 32,
            batch_max: BATCH_MAX,
            eviction: Eviction::Refuse,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            calls_max: 4096,
            queued_max: 16_384,
            answer_timeout: Duration::from_secs(5),
            key_prefix: "tollgate".to_owned(),
            replicas: 1,
            clock: None,
        }
    }

    /// Checks the URL. The error says which part is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.address().map(drop)
    }

    pub(super) fn address(&self) -> Result<Address, String> {
        Address::parse(&self.url, self.password.as_ref(), &self.certificates, &self.sentinel)
    }
}

impl Redis {
    /// The kind of its URL: `single`, `sentinel` or `cluster`.
    pub fn topology(&self) -> &'static str {
        let scheme = self.options.url.split("://").next().unwrap_or_default();
        match scheme.split('+').nth(1) {
            Some("sentinel") => "sentinel",
            Some("cluster") => "cluster",
            _ => "single",
        }
    }
}
