//! Rows of the comparison: running servers and their loads.

use std::{
    collections::BTreeMap,
    env, fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Command,
    sync::Arc,
    time::Duration,
};

use tokio::time::sleep;
use tollgate_core::time::monotonic;

use crate::{
    call::{Call, Load, hexadecimal},
    connection::{Connection, Failure},
    kind::Kind,
    loads,
    meter::Meter,
    process::{self, Process},
};

pub(crate) const ECHO: &str = "echo";
pub(crate) const EMBEDDED: &str = "embedded";
pub(crate) const OTHER: &str = "embedded, other";
/// The same build over Redis.
pub(crate) const OTHER_LANES: &str = "Redis, lanes, other";
pub(crate) const PER_CALL: &str = "Redis, per call";
pub(crate) const LANES: &str = "Redis, lanes";
/// Three primaries.
pub(crate) const CLUSTER: &str = "Redis Cluster";

/// Time limit until a server answers.
const START: Duration = Duration::from_secs(20);

/// A running server.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) loads: BTreeMap<Kind, Arc<Load>>,
    pub(crate) meter: Meter,
    /// Call numbers that loads have used.
    pub(crate) numbers_used: u64,
    /// Ends when the row is dropped, as does its Redis.
    server: Process,
    redis: Vec<Process>,
    /// Port of the row's Redis.
    pub(crate) redis_port: Option<u16>,
}

/// Returns an address on this machine.
pub(crate) fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

impl Row {
    /// Creates a row of a started server; waits until it accepts connections.
    pub(crate) async fn new(
        name: &'static str,
        address: SocketAddr,
        loads: BTreeMap<Kind, Arc<Load>>,
        mut server: Process,
        redis: Vec<(Process, u16)>,
    ) -> Result<Row, String> {
        let begun = monotonic();
        while let Err(error) = open_and_close(address).await {
            if !server.runs() {
                return Err("it ended at once".to_owned());
            }
            if begun.elapsed() > START {
                return Err(format!("it does not listen on {address}: {error}"));
            }
            sleep(Duration::from_millis(20)).await;
        }
        let meter = Meter::new(server.id(), redis.iter().map(|(redis, port)| (redis.id(), *port)));
        let redis_port = redis.first().map(|(_, port)| *port);
        let redis = redis.into_iter().map(|(redis, _)| redis).collect();
        Ok(Row { name, address, loads, meter, numbers_used: 0, server, redis, redis_port })
    }

    /// Returns the echo: this program with `--echo`.
    pub(crate) async fn echo(kinds: &[Kind], port: u16) -> Result<Row, String> {
        let program = env::current_exe().map_err(|error| error.to_string())?;
        let address = loopback(port);
        let server = Process::start(Command::new(program).args(["--echo", &address.to_string()]));
        let loads = kinds.iter().map(|kind| (*kind, Arc::new(kind.echo()))).collect();
        Row::new(ECHO, address, loads, server, Vec::new()).await
    }

    /// Returns a Tollgate in memory, with a separate Redis on a port, or with a Redis Cluster whose
    /// primaries have these ports.
    pub(crate) async fn tollgate(
        name: &'static str,
        program: &Path,
        configuration: &Path,
        redis_ports: &[u16],
        kinds: &[Kind],
    ) -> Result<Row, String> {
        let (engine, redis) = match redis_ports {
            [] => ("embedded".to_owned(), Vec::new()),
            [port] => (format!("redis://127.0.0.1:{port}"), vec![redis(*port, &[]).await?]),
            [first, ..] => {
                (format!("redis+cluster://127.0.0.1:{first}"), cluster(redis_ports).await?)
            }
        };
        let redis = redis.into_iter().zip(redis_ports.iter().copied()).collect();
        let configuration = configuration.to_str().ok_or("a path that is not text")?;
        let arguments = ["--engine", &engine, "--config", configuration, "--log-level", "warn"];
        let (server, url) = process::serve_by(program, arguments);
        let address = url.trim_start_matches("http://").parse().map_err(|_| "no address")?;
        let loads = kinds.iter().map(|kind| (*kind, Arc::new(kind.load()))).collect();
        let row = Row::new(name, address, loads, server, redis).await?;
        for call in kinds.iter().filter_map(|kind| kind.preparation()) {
            row.ask_until_right(&call).await?;
        }
        Ok(row)
    }

    /// Kills the row's Redis.
    pub(crate) fn kill_redis(&mut self) {
        self.redis.clear();
    }

    /// Memory of the server, in KiB.
    pub(crate) fn resident(&self) -> u64 {
        self.server.resident()
    }

    /// Repeats a call until the reply is as expected: a listening server may not be ready yet.
    pub(crate) async fn ask_until_right(&self, call: &Call) -> Result<(), String> {
        let begun = monotonic();
        while let Err(error) = self.ask(call).await {
            if begun.elapsed() > START {
                return Err(error);
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Makes one call; fails if the reply is not as expected.
    pub(crate) async fn ask(&self, call: &Call) -> Result<(), String> {
        let mut connection =
            Connection::open(self.address).await.map_err(|error| error.to_string())?;
        let request = connection.request(call);
        let answer = connection.call(request, call.body(0)).await;
        connection.close();
        match answer {
            Ok(received) if call.accepts(&received) => Ok(()),
            Ok(received) => Err(format!("{} answered {}", call.path, hexadecimal(&received))),
            Err(Failure::Status(code, what)) => {
                Err(format!("{} failed, {code}: {what}", call.path))
            }
            Err(Failure::Broken(what)) => Err(format!("{} failed: {what}", call.path)),
        }
    }
}

async fn open_and_close(address: SocketAddr) -> io::Result<()> {
    Connection::open(address).await?.close();
    Ok(())
}

/// Starts a Redis, and waits until it answers.
pub(crate) async fn redis(port: u16, arguments: &[&str]) -> Result<Process, String> {
    let mut redis = process::redis_with(port, arguments);
    let begun = monotonic();
    while !answers(port, redis.id()) {
        if !redis.runs() {
            return Err(format!("redis-server does not start on port {port}"));
        }
        if begun.elapsed() > START {
            return Err(format!("redis-server does not answer on port {port}"));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(redis)
}

/// Starts the primaries of a Redis Cluster, and waits until they serve all slots.
async fn cluster(ports: &[u16]) -> Result<Vec<Process>, String> {
    let mut primaries = Vec::new();
    for port in ports {
        let file = loads::folder().join(format!("nodes-{port}.conf"));
        let _ = fs::remove_file(&file);
        let file = file.to_str().ok_or("a path that is not text")?;
        let arguments = ["--cluster-enabled", "yes", "--cluster-config-file", file];
        primaries.push(redis(*port, &arguments).await?);
    }
    let mut create = Command::new("redis-cli");
    create.args(["--cluster", "create"]).args(ports.iter().map(|port| loopback(*port).to_string()));
    let made =
        create.arg("--cluster-yes").output().map_err(|error| format!("redis-cli: {error}"))?;
    if !made.status.success() {
        return Err(String::from_utf8_lossy(&made.stdout).into_owned());
    }
    let begun = monotonic();
    while !ports.iter().all(|port| says(*port, "CLUSTER", "cluster_state:ok")) {
        if begun.elapsed() > START {
            return Err("the Cluster does not serve all slots".to_owned());
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(primaries)
}

/// Whether the Redis with this process id answers.
fn answers(port: u16, id: u32) -> bool {
    says(port, "INFO", &format!("process_id:{id}"))
}

/// Whether INFO, or CLUSTER INFO, has this line.
fn says(port: u16, command: &str, line: &str) -> bool {
    let section = if command == "INFO" { "server" } else { "INFO" };
    let info = redis::Client::open(format!("redis://127.0.0.1:{port}"))
        .and_then(|client| client.get_connection())
        .and_then(|mut connection| redis::cmd(command).arg(section).query(&mut connection));
    info.is_ok_and(|info: String| info.lines().any(|found| found == line))
}
