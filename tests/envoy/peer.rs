//! The same requests to envoyproxy/ratelimit's own server and to Tollgate: the answers are equal.
//!
//! `tests/run.sh all` builds the server with Go, and sets `TOLLGATE_TEST_RATELIMIT` to its folder.
//! Without it these tests say so and pass, or fail if `TOLLGATE_TEST_REQUIRE_TOOLS` is set.

mod compare;
mod rules;
mod traffic;
mod yaml;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tollgate_core::time::Clock;
use tonic::transport::Channel;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::{
    api::{OVER, descriptor, request, should_rate_limit},
    support::process::{OwnRedis, Process, Server, TempFile, TempFolder, free_port},
};
use compare::compare;
use rules::Features;
use traffic::random_request;

/// The domains of a mode, and the requests of each.
const DOMAINS: usize = 25;
const REQUESTS: usize = 550;

/// Returns the program of envoyproxy/ratelimit in the folder of `TOLLGATE_TEST_RATELIMIT`; `None`
/// without it.
fn program(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("TOLLGATE_TEST_RATELIMIT").map(PathBuf::from);
    let found = folder.map(|folder| folder.join(name)).filter(|path| path.is_file());
    if found.is_none() {
        let missing = "envoyproxy/ratelimit is missing: install Go, and use ./tests/run.sh all";
        assert!(std::env::var_os("TOLLGATE_TEST_REQUIRE_TOOLS").is_none(), "{missing}");
        eprintln!("skipped: {missing}");
    }
    found
}

/// A running server of envoyproxy/ratelimit.
struct Peer {
    channel: Channel,
    _process: Process,
}

impl Peer {
    /// Starts it on the rules in `ROOT/config` and on a Redis.
    async fn start(root: &Path, redis: &OwnRedis, settings: &[(&str, &str)]) -> Option<Peer> {
        let ports = [(); 3].map(|()| free_port().to_string());
        let mut command = Command::new(program("service_cmd")?);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs([("HOST", "127.0.0.1"), ("GRPC_HOST", "127.0.0.1"), ("DEBUG_HOST", "127.0.0.1")])
            .envs([("PORT", &ports[0]), ("GRPC_PORT", &ports[1]), ("DEBUG_PORT", &ports[2])])
            .envs([
                ("USE_STATSD", "false"),
                ("LOG_LEVEL", "error"),
                ("RUNTIME_WATCH_ROOT", "false"),
            ])
            .env("RUNTIME_ROOT", root)
            .envs([("REDIS_SOCKET_TYPE", "tcp".to_owned()), ("REDIS_URL", address(redis))])
            .envs(settings.iter().copied());
        let log = fs::File::create(root.join("peer.log")).unwrap();
        let process =
            command.stdout(Stdio::null()).stderr(log).stdin(Stdio::null()).spawn().unwrap();
        let process = Process(process);
        let uri = format!("http://127.0.0.1:{}", ports[1]);
        let connected = async {
            loop {
                let channel = Channel::from_shared(uri.clone()).unwrap().connect().await;
                match channel {
                    Ok(channel) => return channel,
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        };
        let channel = tokio::time::timeout(Duration::from_secs(60), connected).await;
        Some(Peer { channel: channel.expect("the peer serves"), _process: process })
    }
}

fn address(redis: &OwnRedis) -> String {
    format!("127.0.0.1:{}", redis.port)
}

/// Returns a folder with rules, laid out as the peer expects.
fn root(files: &[(String, String)]) -> TempFolder {
    let folder = TempFolder::new();
    fs::create_dir_all(folder.path().join("config")).unwrap();
    for (name, text) in files {
        fs::write(folder.path().join("config").join(name), text).unwrap();
    }
    folder
}

/// Whether the version of the peer has patterns with stars in the middle, and quotas that refuse
/// when all are used up.
async fn features(redis: &OwnRedis) -> Option<Features> {
    let text = "domain: d\ndescriptors:\n  - key: p\n    value: x*y\n    rate_limit: {unit: year, \
                requests_per_unit: 0}\n  - key: q\n    quota_mode: true\n    rate_limit: {unit: year, \
                requests_per_unit: 0}\n";
    let root = root(&[("probe.yaml".to_owned(), text.to_owned())]);
    let peer = Peer::start(root.path(), redis, &[]).await?;
    let is_over = async |text: &str| {
        let asked = request("d", &[descriptor(text)]);
        should_rate_limit(&peer.channel, asked).await.unwrap().overall_code == OVER
    };
    let (stars, quotas) = (is_over("p=x-y").await, is_over("q=1").await);
    let now = Clock::system().now().0 / 1_000_000;
    Some(Features { stars, quotas, units: rules::units(now) })
}

/// A mode of both servers: settings of the peer, `[envoy]` of Tollgate, and whether Tollgate runs on
/// Redis.
type Mode = (&'static [(&'static str, &'static str)], &'static str, bool);

const MODES: [Mode; 4] = [
    (&[], "denial_cache = \"0s\"", true),
    (&[("LIMIT_RESPONSE_HEADERS_ENABLED", "true")], "headers = \"legacy\"", false),
    (
        &[("SHADOW_MODE", "true"), ("RESPONSE_DYNAMIC_METADATA", "true")],
        "shadow_mode = true\ndynamic_metadata = true",
        false,
    ),
    (&[("QUOTA_MODE", "true")], "quota_mode = true\ndenial_cache = \"0s\"", true),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_requests_have_equal_answers() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let Some(features) = features(&redis).await else { return };
    let mut compared = 0;
    for (number, mode) in MODES.iter().enumerate() {
        if mode.0.contains(&("QUOTA_MODE", "true")) && !features.quotas {
            // The peer's version has other quotas: the mode is compared without them.
            compared += compare_mode(
                number,
                &(&[], mode.1.trim_start_matches("quota_mode = true\n"), mode.2),
                &features,
                &redis,
            )
            .await;
        } else {
            compared += compare_mode(number, mode, &features, &redis).await;
        }
    }
    assert!(compared >= 50_000, "{compared} requests were compared");
}

/// Compares the answers in one mode. Returns the number of requests.
async fn compare_mode(number: usize, mode: &Mode, features: &Features, redis: &OwnRedis) -> usize {
    let seed = std::env::var("TOLLGATE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    eprintln!("mode {number}: TOLLGATE_TEST_SEED={seed}");
    let (settings, section, on_redis) = *mode;
    let domains: Vec<_> = (0..DOMAINS)
        .map(|domain| {
            let mut random = ChaCha8Rng::seed_from_u64(seed ^ (number * 1000 + domain) as u64);
            let name = format!("mode{number}-{domain}");
            let text = rules::random_rules(&mut random, &name, features);
            (name, text, random)
        })
        .collect();
    let files: Vec<_> =
        domains.iter().map(|(name, text, _)| (format!("{name}.yaml"), text.clone())).collect();
    let root = root(&files);
    let peer = Peer::start(root.path(), redis, settings).await.expect("it was started before");
    let folder = root.path().join("config");
    let engine = if on_redis { format!("engine = \"{}\"\n", redis.url()) } else { String::new() };
    let config = format!("{engine}[envoy]\nconfig = \"{}\"\n{section}\n", folder.display());
    let config = TempFile::new(&config);
    let ours = Server::start(&["--config", config.path()]).await;
    let channel = Channel::from_shared(ours.address()).unwrap().connect().await.unwrap();
    serving(&channel).await;
    let mut running = Vec::new();
    for (name, text, random) in domains {
        let (peer, ours) = (peer.channel.clone(), channel.clone());
        let features = features.clone();
        running.push(tokio::spawn(async move {
            stream(&name, &text, (random, &features), &peer, &ours).await;
        }));
    }
    for domain in running {
        domain.await.unwrap();
    }
    DOMAINS * REQUESTS
}

/// Waits until the store of a server answers.
async fn serving(channel: &Channel) {
    let mut health = HealthClient::new(channel.clone());
    let request = HealthCheckRequest { service: "ratelimit".to_owned() };
    let serving = async {
        while health.check(request.clone()).await.unwrap().into_inner().status != 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), serving).await.expect("the store answers");
}

/// Sends the requests of one domain to both, one after the other.
async fn stream(
    name: &str,
    rules: &str,
    (mut random, features): (ChaCha8Rng, &Features),
    peer: &Channel,
    ours: &Channel,
) {
    for number in 0..REQUESTS {
        let request = random_request(&mut random, name, features);
        let theirs = should_rate_limit(peer, request.clone()).await;
        let answer = should_rate_limit(ours, request.clone()).await;
        if let Err(difference) = compare(theirs, answer) {
            panic!("request {number}: {difference}\n{request:#?}\n{rules}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_command_of_the_peer_works() {
    let Some(client) = program("client_cmd") else { return };
    let file = "domain: d\ndescriptors: [{key: a, rate_limit: {unit: year, requests_per_unit: 1}}]";
    let root = root(&[("d.yaml".to_owned(), file.to_owned())]);
    let folder = root.path().join("config");
    let server = Server::start(&["--envoy-config", folder.to_str().unwrap()]).await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let mut command = Command::new(&client);
        command.args(["-dial_string", &format!("127.0.0.1:{}", server.port)]);
        command.args(["-domain", "d", "-descriptors", "a=1", "-descriptors", "b=2,c=3"]);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{said}");
        seen.push(said.contains("OVER_LIMIT"));
    }
    assert_eq!(seen, [false, true]);
}
