//! How to reach Redis and how to use it.

use super::{
    super::BATCH_MAX,
    address::{Address, Certificates, SentinelUser},
};

/// How to reach Redis and how to use it.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// Where it is, in one of the [`FORMS`](super::address::FORMS).
    pub url: String,
    /// For TLS.
    pub certificates: Certificates,
    /// Who asks the Sentinels.
    pub sentinel: SentinelUser,
    /// Connections to a node at most, but one for each thread: 1 to 1024.
    pub connections: u32,
    /// Decisions in one script call at most: 1 to 256. Redis serves nobody else meanwhile.
    pub batch_max: usize,
    /// What to do about a Redis that is set to forget.
    pub eviction: Eviction,
    /// Threads of the server.
    pub workers: usize,
    /// Calls in flight at most; further ones are refused at once.
    pub calls_max: usize,
    /// What every key starts with.
    pub key_prefix: String,
    /// How many servers use this Redis: each has a share of what is granted while it
    /// cannot be asked. 1 to 1000.
    pub replicas: u32,
    /// Lua that sets `now` in place of Redis's own clock, for tests that step
    /// the time. None in production.
    pub clock: Option<String>,
}

impl RedisOptions {
    /// The defaults for a Redis at `url`.
    pub fn new(url: &str) -> RedisOptions {
        RedisOptions {
            url: url.to_owned(),
            certificates: Certificates::default(),
            sentinel: SentinelUser::default(),
            connections: 32,
            batch_max: BATCH_MAX,
            eviction: Eviction::Refuse,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            calls_max: 4096,
            key_prefix: "tollgate".to_owned(),
            replicas: 1,
            clock: None,
        }
    }

    /// Checks the URL; the error says what is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        self.address().map(drop)
    }

    pub(super) fn address(&self) -> Result<Address, String> {
        Address::parse(&self.url, &self.certificates, &self.sentinel)
    }
}

/// What to do about a Redis whose `maxmemory-policy` lets it drop keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// Not use it.
    Refuse,
    /// Say so in the log.
    Warn,
}
