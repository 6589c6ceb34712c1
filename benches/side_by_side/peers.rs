//! Peers: third-party servers. Each gets its gRPC call that is closest to ours, and is configured
//! as its documentation recommends.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use crate::{
    call::{Call, Load},
    install::{self, Source},
    kind::{KEYS, Kind},
    loads::Ports,
    options::Options,
    peer_calls,
    process::Process,
    row::{self, Row},
};

/// Where a peer keeps its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Memory,
    Redis,
}

/// A third-party server.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) store: Store,
    /// Our load that is closest to its call.
    pub(crate) kind: Kind,
    program: &'static str,
    source: Source,
    call: fn() -> Call,
    command: fn(&Setting) -> Result<Command, String>,
}

/// Settings of a running peer.
struct Setting {
    program: PathBuf,
    port: u16,
    /// For its other listeners.
    other_ports: [u16; 2],
    redis_port: Option<u16>,
    /// An empty folder.
    folder: PathBuf,
}

/// The server of envoyproxy/ratelimit.
const RATELIMIT: Source = Source::Go(
    "github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36",
);

/// All supported peers.
pub(crate) const PEERS: [Peer; 5] = [
    Peer {
        name: "throttlecrab",
        store: Store::Memory,
        kind: Kind::Bucket,
        program: "throttlecrab-server",
        source: Source::Cargo("throttlecrab-server", "0.4.40"),
        call: peer_calls::throttlecrab,
        command: throttlecrab,
    },
    Peer {
        name: "gubernator",
        store: Store::Memory,
        kind: Kind::Fixed,
        program: "gubernator",
        source: Source::Go("github.com/gubernator-io/gubernator/v2/cmd/gubernator@v2.13.0"),
        call: peer_calls::gubernator,
        command: gubernator,
    },
    Peer {
        name: "limitador, memory",
        store: Store::Memory,
        kind: Kind::Fixed,
        program: "limitador-server",
        source: Source::Nowhere,
        call: peer_calls::rate_limit_service,
        command: limitador,
    },
    Peer {
        name: "limitador, Redis",
        store: Store::Redis,
        kind: Kind::Fixed,
        program: "limitador-server",
        source: Source::Nowhere,
        call: peer_calls::rate_limit_service,
        command: limitador,
    },
    Peer {
        name: "envoyproxy/ratelimit",
        store: Store::Redis,
        kind: Kind::Fixed,
        // The name of the server's Go package.
        program: "service_cmd",
        source: RATELIMIT,
        call: peer_calls::rate_limit_service,
        command: ratelimit,
    },
];

/// Starts the available peers whose load is requested; returns the others with reasons.
pub(crate) async fn start(
    options: &Options,
    ports: &mut Ports,
    rows: &mut Vec<Row>,
) -> Vec<(&'static str, String)> {
    let mut skipped = Vec::new();
    let is_asked = |peer: &&Peer| {
        options.kinds().contains(&peer.kind) && !(options.no_redis && peer.store == Store::Redis)
    };
    for peer in PEERS.iter().filter(is_asked) {
        match start_one(peer, ports).await {
            Ok(row) => rows.push(row),
            Err(why) => {
                eprintln!("{}: skipped, {why}", peer.name);
                skipped.push((peer.name, why));
            }
        }
    }
    skipped
}

/// envoyproxy/ratelimit with a local cache of refusals, for the comparison of ShouldRateLimit. Its
/// limits are [`crate::envoy::LIMITS`].
pub(crate) const SHOULD_RATE_LIMIT: Peer = Peer {
    name: "ratelimit with cache",
    store: Store::Redis,
    kind: Kind::Fixed,
    program: "service_cmd",
    source: RATELIMIT,
    call: crate::envoy::granted,
    command: |setting| {
        let mut command = ratelimit_with(setting, crate::envoy::LIMITS)?;
        command.env("LOCAL_CACHE_SIZE_IN_BYTES", (16 << 20).to_string());
        Ok(command)
    },
};

/// Starts a peer on a Redis of its own.
pub(crate) async fn start_one(peer: &Peer, ports: &mut Ports) -> Result<Row, String> {
    let program = install::program(peer.program, peer.source).await?;
    let folder = install::folder().join(peer.name.replace(['/', ',', ' '], "-"));
    // Deletes files of an earlier run, which the peer would read.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let redis = match peer.store {
        Store::Memory => Vec::new(),
        Store::Redis => {
            let port = ports.next();
            vec![(row::redis(port, &[]).await?, port)]
        }
    };
    let redis_port = redis.first().map(|(_, port)| *port);
    let (port, other_ports) = (ports.next(), [ports.next(), ports.next()]);
    let setting = Setting { program, port, other_ports, redis_port, folder };
    let mut command = (peer.command)(&setting)?;
    let log = fs::File::create(setting.folder.join("log")).map_err(|error| error.to_string())?;
    let copy = log.try_clone().map_err(|error| error.to_string())?;
    let server = Process::start(command.stdin(Stdio::null()).stdout(log).stderr(copy));
    let load = Load::of((peer.call)(), KEYS);
    let loads = BTreeMap::from([(peer.kind, Arc::new(load))]);
    let row = Row::new(peer.name, row::loopback(port), loads, server, redis).await?;
    row.ask_until_right(&(peer.call)()).await?;
    Ok(row)
}

/// Uses the store that its README recommends for variable load, else defaults.
fn throttlecrab(setting: &Setting) -> Result<Command, String> {
    let mut command = Command::new(&setting.program);
    command.args(["--grpc", "--grpc-host", "127.0.0.1", "--store", "adaptive"]);
    command.args(["--log-level", "warn", "--grpc-port", &setting.port.to_string()]);
    Ok(command)
}

/// One node that is its own only peer, with the default BATCHING. Disables traces, which need a
/// collector.
fn gubernator(setting: &Setting) -> Result<Command, String> {
    let address = |port: u16| format!("127.0.0.1:{port}");
    let mut command = Command::new(&setting.program);
    command
        .env("GUBER_GRPC_ADDRESS", address(setting.port))
        .env("GUBER_ADVERTISE_ADDRESS", address(setting.port))
        .env("GUBER_HTTP_ADDRESS", address(setting.other_ports[0]))
        .env("GUBER_MEMBERLIST_ADDRESS", address(setting.other_ports[1]))
        .env("GUBER_MEMBERLIST_BIND_ADDRESS", address(setting.other_ports[1]))
        .env("GUBER_MEMBERLIST_KNOWN_NODES", address(setting.other_ports[1]))
        .env("GUBER_LOG_LEVEL", "warn")
        .env("OTEL_TRACES_EXPORTER", "none");
    Ok(command)
}

/// One limit for each value of a key, and counters for all keys.
fn limitador(setting: &Setting) -> Result<Command, String> {
    let limits = "- namespace: bench\n  max_value: 1000000000\n  seconds: 3600\n  \
                  conditions: []\n  variables:\n    - descriptors[0].key\n";
    let file = written(&setting.folder.join("limits.yaml"), limits)?;
    let mut command = Command::new(&setting.program);
    command.args(["--rls-ip", "127.0.0.1", "--rls-port", &setting.port.to_string()]);
    command.args(["--http-ip", "127.0.0.1", "--http-port", &setting.other_ports[0].to_string()]);
    command.arg(file);
    match setting.redis_port {
        Some(port) => command.args(["redis", &format!("redis://127.0.0.1:{port}")]),
        None => command.args(["memory", "--cache", &KEYS.to_string()]),
    };
    Ok(command)
}

fn ratelimit(setting: &Setting) -> Result<Command, String> {
    let limits = "domain: bench\ndescriptors:\n  - key: key\n    rate_limit:\n      \
                  unit: hour\n      requests_per_unit: 1000000000\n";
    ratelimit_with(setting, limits)
}

/// Collects commands for Redis for 150 µs. This is the least that its README recommends, and the
/// best for its latency.
fn ratelimit_with(setting: &Setting, limits: &str) -> Result<Command, String> {
    let folder = setting.folder.join("ratelimit/config");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    written(&folder.join("bench.yaml"), limits)?;
    let redis = setting.redis_port.ok_or("it needs a Redis")?;
    let mut command = Command::new(&setting.program);
    command
        .env("RUNTIME_ROOT", &setting.folder)
        .env("RUNTIME_SUBDIRECTORY", "ratelimit")
        .env("REDIS_SOCKET_TYPE", "tcp")
        .env("REDIS_URL", format!("127.0.0.1:{redis}"))
        .env("REDIS_PIPELINE_WINDOW", "150us")
        .env("GRPC_HOST", "127.0.0.1")
        .env("GRPC_PORT", setting.port.to_string())
        .env("HOST", "127.0.0.1")
        .env("PORT", setting.other_ports[0].to_string())
        .env("DEBUG_HOST", "127.0.0.1")
        .env("DEBUG_PORT", setting.other_ports[1].to_string())
        .env("USE_STATSD", "false")
        .env("LOG_LEVEL", "warn");
    Ok(command)
}

fn written(path: &Path, text: &str) -> Result<PathBuf, String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path.to_owned())
}
