//! `tollgate serve`: opens the engine and the listeners, then serves until a signal.

use std::{error::Error, io, net::SocketAddr, process::ExitCode, sync::Arc};

use tokio::{
    net::{TcpListener, TcpSocket},
    spawn,
    task::spawn_blocking,
};

use super::{command::Greeting, exit};
use crate::{
    config::{
        AdminOptions, Config, DataDir, EmbeddedOptions, EngineChoice, FirstConfig, LiveParts,
        MetricsSection, Reloader, ServeFlags, secret,
    },
    server::{self, Admin, Limits, Rules, otlp::Otlp, telemetry},
};
use tollgate_cli::signals::Signals;
use tollgate_core::time::Clock;
use tollgate_engine::{
    Engine,
    budget::CallerLimits,
    embedded::{Ceiling, Disk, Embedded, OpenError},
    redis::{Redis, unfinished_import},
};
use tollgate_http::tls::Tls;
use tollgate_telemetry::metrics::{self, configuration};

/// Open files other than callers' connections: the admin listener, the store, the log.
const OTHER_FILES: u64 = 512;
/// Length of the accept queue: a whole fleet may reconnect simultaneously.
const BACKLOG: u32 = 4096;

/// Runs `tollgate serve`: configuration, logs, engine, listener, then the server until a signal.
pub(super) async fn serve(flags: &ServeFlags) -> Result<(), ExitCode> {
    let mut start = FirstConfig::read(flags).map_err(|error| exit::config(&error))?;
    let config = &mut start.loaded.config;
    let log = telemetry::init(config.log.json, &config.log.level);
    if flags.shows_password {
        tracing::warn!("{}", secret::IN_ARGUMENTS);
    }
    warn_of_access(config);
    let tls = start.loaded.tls.take().map(Tls::new);
    // Each connection is a file descriptor. The default soft limit is often 1024.
    let open_files_max = rlimit::increase_nofile_limit(u64::MAX).unwrap_or(u64::MAX);
    if open_files_max < config.connections_max as u64 + OTHER_FILES {
        tracing::warn!(
            open_files_max,
            connections_max = config.connections_max,
            "the server may open fewer files than it may have connections; raise the limit (ulimit \
             -n, LimitNOFILE of systemd), or lower connections_max"
        );
    }
    let engine = Arc::new(engine(&config.engine, &config.limits.engine).await?);
    // Opened before the port for calls, so that the admin pages are available as soon as calls are.
    let admin = admin(&config.admin)?;
    let listener = bind(config.listen)?;
    let limits = Limits {
        connections_max: config.connections_max,
        drain_timeout: config.drain_timeout,
        workers: config.workers,
    };
    let has_json_log = config.log.json;
    let served = Listening { choice: config.engine.clone(), listener, tls, limits, has_json_log };
    let otlp = config.otlp.as_ref().map(Otlp::start).transpose();
    let otlp = otlp.map_err(|error| exit::unavailable(&error))?;
    let mut rules = Rules { admin, otlp, ..config.take_rules() };
    let parts = LiveParts {
        engine: engine.clone(),
        rules: rules.decisions.clone(),
        access: rules.access.clone(),
        peers: rules.peers.clone(),
        tls: served.tls.clone(),
        log,
    };
    let reloader = Reloader::new(flags, start, parts);
    rules.reload = Some(reloader.clone());
    if reloader.has_files() {
        // Ends with the process.
        let following = reloader.follow();
        spawn(following.map_err(|error| exit::unavailable(&format!("no SIGHUP: {error}")))?);
    }
    serve_on(served, rules, engine).await.map_err(|error| exit::unavailable(&error))
}

/// Warns about access that is wider than the operator may expect.
fn warn_of_access(config: &Config) {
    if config.listen.ip().is_loopback() {
        return;
    }
    if config.callers.is_none() {
        tracing::warn!(
            listen = %config.listen,
            "no [[caller]] is configured: anyone who can reach the address may do anything"
        );
    } else if config.tls.is_none() {
        tracing::warn!(
            listen = %config.listen,
            "callers send their tokens in plain text, because [tls] is not configured"
        );
    }
}

/// Opens the engine. The error is the exit code, for instance if Redis fails the preflight or has
/// an unfinished import.
async fn engine(choice: &EngineChoice, limits: &CallerLimits) -> Result<Engine, ExitCode> {
    match choice {
        EngineChoice::Embedded(EmbeddedOptions { data_dir, memory_max }) => {
            let engine = match data_dir {
                None => Embedded::new(Clock::system()),
                Some(data_dir) => open(data_dir.clone()).await?,
            };
            Ok(Engine::Embedded(engine.below(memory_max.map(Ceiling::new)).with_limits(limits)))
        }
        EngineChoice::Redis(options) => {
            let redis =
                Redis::new(options).map_err(|why| exit::config(&format!("engine: {why}")))?;
            let (unfit, unfinished) = tokio::join!(redis.unfit(), unfinished_import(options));
            match unfit.or(unfinished) {
                Some(why) => Err(exit::config(&format!("engine: cannot use this Redis: {why}"))),
                None => Ok(Engine::Redis(redis.with_limits(limits))),
            }
        }
    }
}

/// Opens a data directory on a blocking thread, because loading it may take long.
async fn open(DataDir { path, durability }: DataDir) -> Result<Embedded, ExitCode> {
    let file = path.display().to_string();
    let opened = spawn_blocking(move || {
        let disk = Disk::directory(&path)?;
        Embedded::open(Clock::system(), disk, durability)
    });
    match opened.await {
        Ok(opened) => opened.map_err(|error| exit::data_dir(&error)),
        // It panicked: the store's own checks missed some damage.
        Err(error) => Err(exit::data_dir(&OpenError::Damaged(format!("{file}: {error}")))),
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener, ExitCode> {
    try_bind(address)
        .map_err(|error| exit::unavailable(&format!("cannot listen on {address}: {error}")))
}

/// Opens the admin listener. If the default address is in use, for instance by another server on a
/// laptop, the server runs without one.
fn admin(options: &AdminOptions) -> Result<Admin, ExitCode> {
    let AdminOptions { address, is_explicit, ready_when_degraded, metrics, console } =
        options.clone();
    let listener = match address {
        None => None,
        Some(address) if is_explicit => Some(Arc::new(bind(address)?)),
        Some(address) => match try_bind(address) {
            Ok(listener) => Some(Arc::new(listener)),
            Err(error) => {
                tracing::warn!(
                    %address, %error,
                    "no admin pages: cannot listen on the default address; choose another one \
                     with --admin, or use --admin off"
                );
                None
            }
        },
    };
    let has_metrics = metrics.enabled && listener.is_some();
    if !has_metrics {
        metrics::turn_off();
    }
    let MetricsSection { pools, namespaces, .. } = metrics;
    let has_console = console.enabled;
    Ok(Admin { listener, ready_when_degraded, has_metrics, has_console, pools, namespaces })
}

fn try_bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let socket = socket?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// What a server needs in addition to its rules and its engine.
struct Listening {
    choice: EngineChoice,
    listener: TcpListener,
    tls: Option<Tls>,
    limits: Limits,
    has_json_log: bool,
}

/// Serves until SIGTERM or SIGINT, then drains and closes the engine.
async fn serve_on(
    served: Listening,
    rules: Rules,
    engine: Arc<Engine>,
) -> Result<(), Box<dyn Error>> {
    let mut signals = Signals::new()?;
    let Listening { choice, listener, tls, limits, has_json_log } = served;
    let admin = rules.admin.listener.as_ref().map(|listener| listener.local_addr());
    let greeting = Greeting {
        engine: &choice,
        listen: listener.local_addr()?,
        admin: admin.transpose()?,
        has_console: rules.admin.has_console,
        has_tls: tls.is_some(),
        has_callers: !rules.access.is_open(),
        has_json_log,
        hash: &configuration::current().hash,
    };
    greeting.announce();
    let ended = server::run(listener, tls, engine.clone(), rules, limits, signals.next()).await;
    // Waits for the disk. Blocking is fine here, because no other task needs this thread now.
    engine.close();
    Ok(ended?)
}
