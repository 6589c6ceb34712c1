//! Processes that tests start and end: the server itself, and redis-servers of
//! their own to stop and kill.

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::world::Client;

/// A process that ends with its test.
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

    /// Waits for the end and returns the exit code.
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

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The `tollgate` command without anything of the environment's configuration.
pub fn tollgate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    for (name, _) in std::env::vars() {
        if name.starts_with("TOLLGATE_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A server process on a port of its own.
pub struct Server {
    pub process: Process,
    pub port: u16,
}

impl Server {
    pub async fn start(arguments: &[&str]) -> Server {
        let port = free_port();
        let listen = format!("127.0.0.1:{port}");
        let mut command = tollgate(&["serve", "--listen", &listen]);
        let child = command.args(arguments).stdout(Stdio::null()).spawn().unwrap();
        let server = Server { process: Process(child), port };
        server.client().await;
        server
    }

    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A client, as soon as the server takes connections.
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

/// A redis-server of the test's own.
pub struct OwnRedis {
    pub port: u16,
    directory: PathBuf,
    process: Option<Process>,
}

impl OwnRedis {
    /// A port and a folder; nothing runs yet.
    pub fn prepare() -> OwnRedis {
        let port = free_port();
        let directory = std::env::temp_dir().join(format!("tollgate-test-redis-{port}"));
        fs::create_dir_all(&directory).unwrap();
        OwnRedis { port, directory, process: None }
    }

    pub async fn start(&mut self) {
        let child = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always"])
            .args(["--dir", self.directory.to_str().unwrap()])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed; ./tests/run.sh does it");
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

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub async fn command(&self, command: &[&str]) -> redis::RedisResult<redis::Value> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd(command[0]).arg(&command[1..]).query_async(&mut connection).await
    }
}

impl Drop for OwnRedis {
    fn drop(&mut self) {
        self.process = None;
        let _ = fs::remove_dir_all(&self.directory);
    }
}
