//! Processes that tests start and end: Tollgate servers, and redis-servers that a test may stop and
//! kill.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use tokio::sync::Mutex;

use crate::support::world::Client;

/// A process that is killed at the end of its test.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    pub fn signal(&self, signal: &str) {
        let kill = Command::new("kill").args([signal, &self.0.id().to_string()]).status();
        assert!(kill.unwrap().success());
    }

    /// Waits for the end. Returns the exit code; `None` after a signal.
    pub async fn end(&mut self, within: Duration) -> Option<i32> {
        let ended = async {
            loop {
                if let Some(status) = self.0.try_wait().unwrap() {
                    return status.code();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(within, ended).await.expect("the process ends in time")
    }
}

/// Locked by a test that opens more than ten thousand connections: the files that a process may
/// open suffice for one such test at a time.
pub static MANY_CONNECTIONS: Mutex<()> = Mutex::const_new(());

/// Returns an unused port. It lies outside the range of client sockets, so that no socket of the
/// tests uses it.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Enough ports that none is handed out again while the server that received it is still
    // starting.
    let first = 20_000 + (std::process::id() % 12) as u16 * 1_000;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::SeqCst) % 1_000;
        if is_free(port) {
            return port;
        }
    }
}

/// Returns whether a port is unused, by a connection to it. A listening socket would not do: each
/// process that another test starts at that moment would inherit it until its exec.
pub fn is_free(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_err()
}

/// Returns the `tollgate` command, without the `TOLLGATE_…` variables of the environment.
pub fn tollgate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    for (name, _) in std::env::vars() {
        if name.starts_with("TOLLGATE_") {
            command.env_remove(name);
        }
    }
    // Tests of the admin pages give the flag.
    command.env("TOLLGATE_ADMIN", "off");
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a `tollgate` command to its end.
pub async fn run(arguments: &[&str]) -> Output {
    let mut command = tollgate(arguments);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Runs a command that must succeed. Returns its standard output.
pub async fn done(arguments: &[&str]) -> String {
    let output = run(arguments).await;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    assert!(!errors.contains('\u{1b}'), "a progress bar without a terminal: {errors:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A server process on a free port.
pub struct Server {
    pub process: Process,
    pub port: u16,
}

impl Server {
    pub async fn start(arguments: &[&str]) -> Server {
        let mut command = tollgate(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(arguments);
        Server::spawn(command).await
    }

    /// Starts a command that serves, and reads the port from its output.
    pub async fn spawn(mut command: Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let greeting = BufReader::new(child.stdout.take().unwrap());
        let process = Process(child);
        let port = tokio::task::spawn_blocking(move || {
            let listening =
                greeting.lines().map(Result::unwrap).find(|line| line.starts_with("Listening on"));
            let line = listening.expect("the server says where it listens");
            line.rsplit_once(':').unwrap().1.parse().unwrap()
        });
        Server { process, port: port.await.unwrap() }
    }

    /// Starts a command that serves on a port of its own, and waits until it accepts connections.
    /// With a JSON log it prints nothing.
    pub async fn spawn_silent(mut command: Command) -> Server {
        let port = free_port();
        command.args(["--listen", &format!("127.0.0.1:{port}")]).stdout(Stdio::null());
        let process = Process(command.spawn().unwrap());
        let accepts = async {
            while is_free(port) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), accepts).await.expect("the server listens");
        Server { process, port }
    }

    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns a client, as soon as the server accepts connections.
    pub async fn client(&self) -> Client {
        let connected = async {
            loop {
                match Client::connect(self.address()).await {
                    Ok(client) => return client,
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), connected).await.expect("the server listens")
    }
}

/// A redis-server of one test.
pub struct OwnRedis {
    pub port: u16,
    directory: PathBuf,
    process: Option<Process>,
}

impl OwnRedis {
    /// Chooses a port and a folder; starts nothing.
    pub fn prepare() -> OwnRedis {
        let port = free_port();
        let directory = std::env::temp_dir().join(format!("tollgate-test-redis-{port}"));
        fs::create_dir_all(&directory).unwrap();
        OwnRedis { port, directory, process: None }
    }

    /// Returns the path of a file in the folder.
    pub fn path(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }

    pub async fn start(&mut self) {
        self.start_with(&[]).await;
    }

    pub async fn start_with(&mut self, arguments: &[&str]) {
        let child = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always"])
            .args(["--repl-diskless-sync-delay", "0"])
            .args(["--dir", self.directory.to_str().unwrap()])
            .args(arguments)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed; ./tests/run.sh installs it");
        self.process = Some(Process(child));
        let answered = async {
            while self.command(&["PING"]).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), answered)
            .await
            .expect("redis-server answers");
    }

    /// Prevents servers from sweeping, for tests that count Redis commands.
    pub async fn hold_sweeper(&self) {
        for index in ["index", "namespaces"] {
            let sweeper = format!("tollgate:{{{index}:admission}}:sweeper");
            self.command(&["SET", &sweeper, "a server of the test"]).await.unwrap();
        }
    }

    /// Makes the last save fail, because its folder does not exist. After `CONFIG SET
    /// stop-writes-on-bgsave-error yes` Redis refuses writes with MISCONF.
    pub async fn fail_save(&self) {
        for setting in [["stop-writes-on-bgsave-error", "no"], ["save", "3600 1"]] {
            self.command(&["CONFIG", "SET", setting[0], setting[1]]).await.unwrap();
        }
        fs::remove_dir_all(&self.directory).unwrap();
        self.command(&["BGSAVE"]).await.unwrap();
        let failed = async {
            let has_failed = |info: &str| info.contains("rdb_last_bgsave_status:err");
            while !has_failed(&self.info("persistence").await) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), failed).await.expect("the save fails");
    }

    /// Returns a section of INFO.
    pub async fn info(&self, section: &str) -> String {
        redis::from_redis_value(self.command(&["INFO", section]).await.unwrap()).unwrap()
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Restarts the process with an empty folder.
    pub async fn restart_empty(&mut self) {
        self.kill();
        fs::remove_dir_all(&self.directory).unwrap();
        fs::create_dir_all(&self.directory).unwrap();
        self.start().await;
    }

    pub fn signal(&self, signal: &str) {
        self.process.as_ref().expect("it runs").signal(signal);
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub async fn command(&self, command: &[&str]) -> redis::RedisResult<redis::Value> {
        let mut connection = connect(&self.url()).await?;
        redis::cmd(command[0]).arg(&command[1..]).query_async(&mut connection).await
    }
}

impl Drop for OwnRedis {
    fn drop(&mut self) {
        self.process = None;
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Connects with long timeouts. The default of the redis crate, half a second for an answer, is too
/// short on a busy machine.
pub async fn connect(url: &str) -> redis::RedisResult<redis::aio::MultiplexedConnection> {
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(10)))
        .set_response_timeout(Some(Duration::from_secs(30)));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}

/// A folder that is removed at the end of its test.
pub struct TempFolder(PathBuf);

impl TempFolder {
    pub fn new() -> TempFolder {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let name = format!("tollgate-test-data-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        TempFolder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file that is removed at the end of its test.
pub struct TempFile(PathBuf);

impl TempFile {
    pub fn new(text: &str) -> TempFile {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let name = format!("tollgate-test-{}-{number}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        TempFile(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
