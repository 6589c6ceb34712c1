//! A server process, a proxy with faults, and a gRPC server that answers as a test says.

use std::{
    env,
    net::TcpListener as PortFinder,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, extract::Request, response::IntoResponse};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tollgate_client::{Connection, Options, pb};
use tonic::{Response, Status, codegen::Service, server::Grpc};
use tonic_prost::ProstCodec;

/// The configuration of the servers.
const CONFIG: &str = r#"
[[policy]]
name = "api"
limit = [{ max = 2, window = "60s" }]

[[sequence]]
match = "orders"
layout = "ORD-{yyyyMMdd}-{n:06}"
"#;

/// A server that is killed at the end of its test.
pub(crate) struct Server {
    process: Child,
    redis: Option<Child>,
    config: PathBuf,
    pub(crate) address: String,
}

pub(crate) fn free_port() -> u16 {
    PortFinder::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    /// Starts a server with the embedded engine.
    pub(crate) async fn start() -> Server {
        Server::with_settings("").await
    }

    /// Starts a server with the embedded engine and these further settings.
    pub(crate) async fn with_settings(settings: &str) -> Server {
        Server::launch(None, settings, &[]).await
    }

    /// Starts a server with a Redis of its own.
    pub(crate) async fn with_redis() -> Server {
        let port = free_port().to_string();
        let redis = Command::new("redis-server")
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let engine = format!("redis://127.0.0.1:{port}");
        reachable(&format!("127.0.0.1:{port}")).await;
        Server::launch(Some(redis), "", &["--engine", &engine]).await
    }

    async fn launch(redis: Option<Child>, settings: &str, arguments: &[&str]) -> Server {
        let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/debug/tollgate");
        let binary = env::var("TOLLGATE_BINARY").unwrap_or_else(|_| repository.to_owned());
        let address = format!("127.0.0.1:{}", free_port());
        let config = temporary(&format!("tollgate-client-{}.toml", &address[10..]));
        std::fs::write(&config, format!("{CONFIG}{settings}")).unwrap();
        let process = Command::new(binary)
            .args(["serve", "--listen", &address, "--admin", "off", "--config"])
            .arg(&config)
            .args(arguments)
            .stdout(Stdio::null())
            .spawn()
            .expect("a server: build the repository, or set TOLLGATE_BINARY");
        reachable(&address).await;
        Server { process, redis, config, address }
    }

    pub(crate) async fn connection(&self) -> Connection {
        Options::new([&self.address]).deadline(Duration::from_secs(5)).open().await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(redis) = &mut self.redis {
            let _ = redis.kill();
            let _ = redis.wait();
        }
        let _ = std::fs::remove_file(&self.config);
    }
}

/// Returns a path in the build's folder of temporary files: a killed test leaves files behind.
pub(crate) fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

async fn reachable(address: &str) {
    let connected = async {
        while TcpStream::connect(address).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(60), connected).await.expect("the server listens");
}

/// Repeats a check until it holds.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let held = async {
        while !holds().await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(Duration::from_secs(60), held).await.is_ok(), "{what}");
}

/// A proxy in front of a server. It can swallow all bytes, or refuse connections.
pub(crate) struct Proxy {
    pub(crate) address: String,
    swallows: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(server: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let swallows = Arc::new(AtomicBool::new(false));
        let (server, is_dead) = (server.to_owned(), swallows.clone());
        let task = tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let (server, is_dead) = (server.clone(), is_dead.clone());
                tokio::spawn(async move {
                    if is_dead.load(Ordering::SeqCst) {
                        return std::future::pending().await;
                    }
                    let mut upstream = TcpStream::connect(server).await.unwrap();
                    let dies = async {
                        while !is_dead.load(Ordering::SeqCst) {
                            sleep(Duration::from_millis(5)).await;
                        }
                    };
                    let is_cut = tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut upstream) => false,
                        () = dies => true,
                    };
                    if is_cut {
                        // The connection stays open and answers nothing.
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        Proxy { address, swallows, task }
    }

    /// Swallows all bytes of all connections; for the connections that are open now, forever.
    pub(crate) fn swallow(&self, swallows: bool) {
        self.swallows.store(swallows, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a fake server answers to an attempt, by its number, from 1.
type Answers =
    dyn Fn(usize, &pb::CheckRateRequest) -> Result<pb::CheckRateResponse, Status> + Send + Sync;

/// The service of a fake server.
#[derive(Clone)]
pub(crate) struct Fake {
    answers: Arc<Answers>,
    attempts: Arc<AtomicUsize>,
}

impl Fake {
    pub(crate) fn new(
        answers: impl Fn(usize, &pb::CheckRateRequest) -> Result<pb::CheckRateResponse, Status>
        + Send
        + Sync
        + 'static,
    ) -> Fake {
        Fake { answers: Arc::new(answers), attempts: Arc::default() }
    }

    pub(crate) fn attempts(&self) -> usize {
        self.attempts.load(Ordering::SeqCst)
    }

    pub(crate) fn router(&self) -> Router {
        let fake = self.clone();
        Router::new().fallback(move |request: Request| {
            let fake = fake.clone();
            async move {
                let codec = ProstCodec::<pb::CheckRateResponse, pb::CheckRateRequest>::default();
                Grpc::new(codec).unary(fake, request).await.into_response()
            }
        })
    }
}

impl Service<tonic::Request<pb::CheckRateRequest>> for Fake {
    type Response = Response<pb::CheckRateResponse>;
    type Error = Status;
    type Future = std::future::Ready<Result<Self::Response, Status>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Status>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::Request<pb::CheckRateRequest>) -> Self::Future {
        let attempt = self.attempts.fetch_add(1, Ordering::SeqCst) + 1;
        std::future::ready((self.answers)(attempt, request.get_ref()).map(Response::new))
    }
}

/// Serves over HTTP/1 and HTTP/2 on a free port. Returns the address.
pub(crate) async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}
