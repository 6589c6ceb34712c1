//! The Redis of the benchmark, a server on it, and their clients.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use redis::aio::MultiplexedConnection;
use tokio::time::sleep;
use tollgate_client::pb::{
    GetPoolRequest, admission_service_client::AdmissionServiceClient,
    lock_service_client::LockServiceClient, rate_service_client::RateServiceClient,
    sequence_service_client::SequenceServiceClient, stock_service_client::StockServiceClient,
};
use tollgate_core::time::monotonic;
use tonic::transport::{Channel, Endpoint};

use crate::{
    meter::Meter,
    process::{self, Process},
};

/// Port of Redis.
const REDIS: u16 = 21_940;
/// Time limit until Redis and the server answer.
const START: Duration = Duration::from_secs(20);
const CONFIGURATION: &str = include_str!("tollgate.toml");
/// The rules of ShouldRateLimit.
const ENVOY: &str = include_str!("../side_by_side/envoy.yaml");

/// A server, its Redis and the clients of both. Ends the processes when dropped.
pub(crate) struct Site {
    /// All clients share one connection.
    pub(crate) rates: RateServiceClient<Channel>,
    pub(crate) admission: AdmissionServiceClient<Channel>,
    pub(crate) stock: StockServiceClient<Channel>,
    pub(crate) locks: LockServiceClient<Channel>,
    pub(crate) sequences: SequenceServiceClient<Channel>,
    pub(crate) envoy: RateLimitServiceClient<Channel>,
    /// A connection to Redis.
    pub(crate) redis: MultiplexedConnection,
    pub(crate) meter: Meter,
    // The server ends before its Redis.
    _server: Process,
    _redis: Process,
    folder: PathBuf,
}

impl Site {
    pub(crate) async fn start(program: &Path) -> Site {
        let store = process::redis(REDIS);
        let redis = connect(&store).await;
        let folder = env::temp_dir().join(format!("tollgate-redis-time-{}", std::process::id()));
        let (config, rules) = (folder.join("tollgate.toml"), folder.join("envoy"));
        fs::create_dir_all(&rules).unwrap();
        fs::write(rules.join("bench.yaml"), ENVOY).unwrap();
        let envoy = format!("[envoy]\nconfig = {:?}\n", rules.to_str().unwrap());
        fs::write(&config, format!("{CONFIGURATION}\n{envoy}")).unwrap();
        let engine = format!("redis://127.0.0.1:{REDIS}");
        let arguments = ["--config", config.to_str().unwrap(), "--engine", &engine];
        let (server, url) = process::serve_by(program, arguments);
        let channel = Endpoint::from_shared(url).unwrap().connect_lazy();
        let site = Site {
            rates: RateServiceClient::new(channel.clone()),
            admission: AdmissionServiceClient::new(channel.clone()),
            stock: StockServiceClient::new(channel.clone()),
            locks: LockServiceClient::new(channel.clone()),
            sequences: SequenceServiceClient::new(channel.clone()),
            envoy: RateLimitServiceClient::new(channel),
            redis,
            meter: Meter::new(server.id(), [(store.id(), REDIS)]),
            _server: server,
            _redis: store,
            folder,
        };
        site.wait_until_ready().await;
        site
    }

    async fn wait_until_ready(&self) {
        let begun = monotonic();
        let request = GetPoolRequest { pool: "none".into() };
        while let Err(error) = self.admission.clone().get_pool(request.clone()).await {
            assert!(begun.elapsed() < START, "the server does not answer: {error}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Waits until the Redis of this process answers. Another one can have taken the port.
async fn connect(store: &Process) -> MultiplexedConnection {
    let client = redis::Client::open(format!("redis://127.0.0.1:{REDIS}")).unwrap();
    let own = format!("process_id:{}", store.id());
    let begun = monotonic();
    loop {
        if let Ok(mut connection) = client.get_multiplexed_async_connection().await
            && let Ok(text) =
                redis::cmd("INFO").arg("server").query_async::<String>(&mut connection).await
            && text.lines().any(|line| line == own)
        {
            return connection;
        }
        assert!(begun.elapsed() < START, "redis-server does not answer on port {REDIS}");
        sleep(Duration::from_millis(20)).await;
    }
}
