//! A server on an engine with stepped time, and clients of the server.

use std::{
    future::pending,
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use tokio::{net::TcpListener, task::AbortHandle};
use tollgate::server::{self, Limits, Rules};
use tollgate_client::pb::{
    self, admission_service_client::AdmissionServiceClient, lock_service_client::LockServiceClient,
    rate_service_client::RateServiceClient, sequence_service_client::SequenceServiceClient,
};
use tollgate_core::time::Clock;
use tollgate_engine::{
    Engine, StoreState,
    embedded::Embedded,
    redis::{Redis, RedisOptions},
};
use tonic::transport::Channel;

use crate::support::nodes::Nodes;
pub use crate::support::requests::*;

pub type Client = AdmissionServiceClient<Channel>;
pub type Locks = LockServiceClient<Channel>;
pub type Rates = RateServiceClient<Channel>;
pub type Sequences = SequenceServiceClient<Channel>;

/// 2026-01-01T00:00:00Z, in µs: the start of stepped time.
pub const START: u64 = 1_767_225_600_000_000;

const LIMITS: Limits =
    Limits { connections_max: 16_384, drain_timeout: Duration::from_secs(10), workers: 2 };

/// Makes one test for each engine from `async fn name(world: World)`.
macro_rules! on_both_engines {
    ($($(#[$attribute:meta])* $name:ident),* $(,)?) => {
        mod embedded {
            $($(#[$attribute])* #[tokio::test(flavor = "multi_thread")] async fn $name() {
                super::$name($crate::support::world::World::embedded().await).await
            })*
        }
        mod redis {
            $($(#[$attribute])* #[tokio::test(flavor = "multi_thread")] async fn $name() {
                super::$name($crate::support::world::World::redis().await).await
            })*
        }
    };
}

/// A server on an engine with stepped time, and its clients.
pub struct World {
    pub client: Client,
    pub locks: Locks,
    pub rates: Rates,
    pub sequences: Sequences,
    pub address: String,
    time: Time,
    server: AbortHandle,
}

/// The clock of a world's engine.
#[derive(Clone)]
pub enum Time {
    Embedded(Arc<AtomicU64>),
    Redis { prefix: String, now: Arc<AtomicU64>, nodes: Nodes },
}

impl World {
    pub async fn embedded() -> World {
        World::with_rules(false, Rules::default()).await
    }

    pub async fn redis() -> World {
        World::with_rules(true, Rules::default()).await
    }

    /// Returns a world with configured pools, policies and sequences.
    pub async fn with_rules(redis: bool, rules: Rules) -> World {
        let (engine, time) = if redis { redis_engine().await } else { embedded_engine() };
        World::on(engine, time, rules).await
    }

    /// Returns a world on this engine.
    pub async fn on(engine: Arc<Engine>, time: Time, rules: Rules) -> World {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = engine.state();
        let run = server::run(listener, None, engine, rules, LIMITS, pending());
        let server = tokio::spawn(run).abort_handle();
        up(state).await;
        World::to(address, time, server).await
    }

    /// Returns a world whose server is another process, on the system clock.
    pub async fn at(address: String) -> World {
        let nobody = tokio::spawn(pending::<()>()).abort_handle();
        World::to(address, embedded_engine().1, nobody).await
    }

    async fn to(address: String, time: Time, server: AbortHandle) -> World {
        let client = Client::connect(address.clone()).await.unwrap();
        let locks = Locks::connect(address.clone()).await.unwrap();
        let rates = Rates::connect(address.clone()).await.unwrap();
        let sequences = Sequences::connect(address.clone()).await.unwrap();
        World { client, locks, rates, sequences, address, time, server }
    }

    /// Another client on another connection.
    pub async fn connect(&self) -> Client {
        Client::connect(self.address.clone()).await.unwrap()
    }

    pub fn is_redis(&self) -> bool {
        matches!(self.time, Time::Redis { .. })
    }

    pub fn time(&self) -> &Time {
        &self.time
    }

    pub async fn advance(&self, by: Duration) {
        self.time.advance(by.as_micros() as u64).await;
    }

    /// Sends a command directly to Redis; `{}` stands for the key prefix. Returns `None` on the
    /// embedded engine.
    pub async fn tamper(&self, command: &[&str]) -> Option<redis::Value> {
        self.time.tamper(command).await
    }

    /// Returns all keys of this world without their prefix, sorted.
    pub async fn keys(&self) -> Vec<String> {
        self.time.keys().await
    }

    pub async fn admit(&self, pool: &str, device: &str, task: &str) -> pb::AdmitTaskResponse {
        self.client
            .clone()
            .admit_task(patient(admit(pool, device, task)))
            .await
            .unwrap()
            .into_inner()
    }

    pub async fn complete(&self, pool: &str, device: &str, task: &str) -> pb::CompleteTaskResponse {
        self.client
            .clone()
            .complete_task(patient(complete(pool, device, task)))
            .await
            .unwrap()
            .into_inner()
    }

    pub async fn renew(&self, pool: &str, device: &str, task: &str) -> pb::RenewTaskResponse {
        self.client
            .clone()
            .renew_task(patient(renew(pool, device, task)))
            .await
            .unwrap()
            .into_inner()
    }

    pub async fn evict(&self, pool: &str, device: &str, task: &str) -> pb::EvictTaskResponse {
        self.client
            .clone()
            .evict_task(patient(evict(pool, device, task)))
            .await
            .unwrap()
            .into_inner()
    }

    pub async fn configure(&self, request: pb::ConfigurePoolRequest) -> pb::Pool {
        let response = self.client.clone().configure_pool(patient(request)).await.unwrap();
        response.into_inner().pool.unwrap()
    }

    pub async fn pool(&self, pool: &str) -> pb::Pool {
        let request = pb::GetPoolRequest { pool: pool.into() };
        self.client.clone().get_pool(patient(request)).await.unwrap().into_inner().pool.unwrap()
    }

    pub async fn in_use(&self, pool: &str) -> u32 {
        self.pool(pool).await.usage.unwrap().in_use
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Time {
    /// Returns the time, in µs.
    pub fn now(&self) -> u64 {
        match self {
            Time::Embedded(now) | Time::Redis { now, .. } => now.load(Ordering::SeqCst),
        }
    }

    /// Returns the engine of a further server on the same Redis.
    pub fn engine_beside(&self) -> Arc<Engine> {
        let Time::Redis { prefix, now, .. } = self else { panic!("an embedded engine is alone") };
        engine_of(&redis_url(), prefix.clone(), now.clone())
    }

    pub async fn tamper(&self, command: &[&str]) -> Option<redis::Value> {
        let Time::Redis { prefix, nodes, .. } = self else { return None };
        let mut cmd = redis::cmd(command[0]);
        for part in &command[1..] {
            cmd.arg(part.replace("{}", prefix));
        }
        Some(nodes.run(&cmd).await)
    }

    pub async fn keys(&self) -> Vec<String> {
        let Time::Redis { prefix, nodes, .. } = self else { return Vec::new() };
        let mut keys = nodes.keys(&format!("{prefix}:{{*")).await;
        keys.iter_mut().for_each(|key| *key = key.split_off(prefix.len() + 1));
        // Keys that only the sweeper writes are left out.
        let is_sweepers = |key: &str| {
            key.ends_with("}:sweeper")
                || ["{index:admission}:ends", "{namespaces:admission}:ends"].contains(&key)
        };
        keys.retain(|key| !is_sweepers(key));
        keys.sort();
        keys
    }

    pub async fn advance(&self, micros: u64) {
        match self {
            Time::Embedded(now) => {
                now.fetch_add(micros, Ordering::SeqCst);
            }
            Time::Redis { now, .. } => {
                let now = now.fetch_add(micros, Ordering::SeqCst) + micros;
                self.write(now).await;
            }
        }
    }

    /// Sets the clock back by `micros`.
    pub async fn set_back(&self, micros: u64) {
        match self {
            Time::Embedded(now) => {
                now.fetch_sub(micros, Ordering::SeqCst);
            }
            Time::Redis { now, .. } => {
                let now = now.fetch_sub(micros, Ordering::SeqCst) - micros;
                self.write(now).await;
            }
        }
    }

    pub async fn write(&self, micros: u64) {
        let Time::Redis { prefix, nodes, .. } = self else { return };
        // The first node finds the key.
        let tags = if nodes.is_one() { &CLOCKS[..1] } else { &CLOCKS };
        let writes = tags.iter().map(|tag| {
            let mut set = redis::cmd("SET");
            set.arg(format!("{prefix}:clock{{{tag}}}")).arg(micros);
            async move { nodes.run(&set).await }
        });
        join_all(writes).await;
    }
}

pub fn embedded_engine() -> (Arc<Engine>, Time) {
    let now = Arc::new(AtomicU64::new(START));
    let engine = Engine::Embedded(Embedded::new(Clock::Stepped(now.clone())));
    (Arc::new(engine), Time::Embedded(now))
}

/// Hash tags of the clock's keys. With these, each node of a Cluster of three has one.
const CLOCKS: [&str; 3] = ["a", "b", "c"];

/// The clock fragment of the scripts: it reads the time from a key with the world's prefix. All
/// worlds share one text, since each script in Redis's cache slows down every call. Redis expires
/// keys by real time while stepped time may stand still, so each TTL is 10 minutes longer.
pub const STEPPED: &str = "
local now
for _, tag in ipairs({ 'a', 'b', 'c' }) do
  local time = redis.pcall('GET', string.match(KEYS[1], '^[^:]+') .. ':clock{' .. tag .. '}')
  if type(time) == 'string' then
    now = tonumber(time)
    break
  end
end
local real, redis = redis.call, {}
function redis.call(name, ...)
  local arguments = { ... }
  if name == 'SET' and arguments[3] == 'PX' then
    arguments[4] = arguments[4] + 600000
  elseif name == 'PEXPIRE' then
    arguments[2] = arguments[2] + 600000
  end
  return real(name, unpack(arguments))
end";

/// Returns an engine on the shared Redis, with a new key prefix.
pub async fn redis_engine() -> (Arc<Engine>, Time) {
    redis_engine_at(&redis_url(), Nodes::connect().await).await
}

/// Returns an engine on this Redis, with a new key prefix.
pub async fn redis_engine_at(url: &str, nodes: Nodes) -> (Arc<Engine>, Time) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::SeqCst);
    let prefix = format!("test-{}-{number}", process::id());
    let now = Arc::new(AtomicU64::new(START));
    let time = Time::Redis { prefix: prefix.clone(), now: now.clone(), nodes };
    time.write(START).await;
    (engine_of(url, prefix, now), time)
}

/// Returns an engine with this key prefix and clock.
fn engine_of(url: &str, prefix: String, now: Arc<AtomicU64>) -> Arc<Engine> {
    let clock = Some(STEPPED.to_owned());
    // The machine may stall for a while; only the deadline of a call ends it.
    let (key_prefix, answer_timeout) = (prefix, Duration::from_secs(60));
    let options = RedisOptions { clock, key_prefix, answer_timeout, ..RedisOptions::new(url) };
    let redis = Redis::new(&options).unwrap().with_clock(Clock::Stepped(now));
    Arc::new(Engine::Redis(redis))
}

pub fn redis_url() -> String {
    std::env::var("TOLLGATE_TEST_REDIS")
        .expect("TOLLGATE_TEST_REDIS names the Redis to test on; ./tests/run.sh starts one")
}

/// Waits until the store answers.
pub async fn up(mut state: tokio::sync::watch::Receiver<StoreState>) {
    let up = state.wait_for(|state| *state == StoreState::Up);
    tokio::time::timeout(Duration::from_secs(10), up).await.expect("Redis is usable").unwrap();
}
