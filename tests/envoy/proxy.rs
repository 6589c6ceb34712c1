//! A real Envoy in front of an upstream asks Tollgate, with its filter's default timeout of 20 ms.
//!
//! `tests/run.sh all` installs Envoy, and sets `TOLLGATE_TEST_ENVOY` to it. Without it these tests
//! say so and pass, or fail if `TOLLGATE_TEST_REQUIRE_TOOLS` is set.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

use crate::{
    operations::EDGE_CALLER,
    support::{
        certificates::{Authority, Files, TlsServer},
        process::{OwnRedis, Process, Server, TempFile, TempFolder, free_port, tollgate},
    },
};

const PATIENCE: Duration = Duration::from_secs(60);
const RULES: &str = "
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 3}
";
/// TLS with the certificate of the proxy.
const TLS: &str = r#"
      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
          common_tls_context:
            tls_certificates:
              - certificate_chain: {filename: "DIR/own.crt"}
                private_key: {filename: "DIR/own.key"}
            validation_context:
              trusted_ca: {filename: "DIR/ca.crt"}
"#;

/// A proxy and its upstream.
struct Proxy {
    port: u16,
    upstream: AbortHandle,
    _process: Process,
    _folder: TempFolder,
}

/// Returns the program; `None` without it.
fn program() -> Option<PathBuf> {
    let found = std::env::var_os("TOLLGATE_TEST_ENVOY").map(PathBuf::from);
    if found.is_none() {
        let missing = "Envoy is missing: use ./tests/run.sh all, with Python on Linux";
        assert!(std::env::var_os("TOLLGATE_TEST_REQUIRE_TOOLS").is_none(), "{missing}");
        eprintln!("skipped: {missing}");
    }
    found
}

/// Returns an HTTP server that answers every request with 200. Returns its port.
async fn upstream() -> (u16, AbortHandle) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                if stream.read(&mut request).await.is_ok_and(|length| length > 0) {
                    let answer =
                        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            });
        }
    };
    (port, tokio::spawn(serve).abort_handle())
}

impl Proxy {
    /// Starts a proxy that asks about a domain. With `deny` it refuses requests that it cannot ask
    /// about. `tls` is appended to the cluster of Tollgate.
    async fn start(program: &PathBuf, domain: &str, deny: bool, tls: &str, service: u16) -> Proxy {
        let folder = TempFolder::new();
        fs::create_dir_all(folder.path()).unwrap();
        let (port, (upstream, abort)) = (free_port(), upstream().await);
        let text = include_str!("proxy.yaml")
            .replace("LISTEN", &port.to_string())
            .replace("UPSTREAM", &upstream.to_string())
            .replace("TOLLGATE", &service.to_string())
            .replace("DOMAIN", domain)
            .replace("DENY", if deny { "true" } else { "false" });
        let file = folder.path().join("envoy.yaml");
        fs::write(&file, text + tls).unwrap();
        let log = fs::File::create(folder.path().join("envoy.log")).unwrap();
        let mut command = Command::new(program);
        command.arg("-c").arg(&file).args(["--concurrency", "1", "--disable-hot-restart"]);
        command.args(["-l", "warn"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = Process(command.spawn().unwrap());
        let listens = async {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let listens = tokio::time::timeout(PATIENCE, listens).await;
        let log = fs::read_to_string(folder.path().join("envoy.log")).unwrap();
        listens.unwrap_or_else(|_| panic!("the proxy does not listen: {log}"));
        Proxy { port, upstream: abort, _process: process, _folder: folder }
    }

    /// Sends a request of a user. Returns the status and the head of the answer.
    async fn get(&self, user: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let head =
            format!("GET / HTTP/1.1\r\nhost: a\r\nx-user: {user}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split("\r\n\r\n").next().unwrap().to_ascii_lowercase())
    }

    /// Sends requests until one has this status. Returns the number of those before it, and its head.
    async fn until(&self, user: &str, wanted: u16) -> (usize, String) {
        let asked = async {
            let mut before = 0;
            loop {
                let (status, head) = self.get(user).await;
                if status == wanted {
                    return (before, head);
                }
                before += 1;
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.expect("the wanted status")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.upstream.abort();
    }
}

/// Returns a folder with the rules.
fn folder() -> TempFolder {
    let folder = TempFolder::new();
    fs::create_dir_all(folder.path()).unwrap();
    fs::write(folder.path().join("edge.yaml"), RULES).unwrap();
    folder
}

/// On a slow machine an answer may arrive after 20 ms, and the request passes. Therefore these
/// tests wait for a status instead of counting requests.
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_refuses_above_the_limit_and_passes_all_without_the_service() {
    let Some(program) = program() else { return };
    let (mut redis, rules, port) = (OwnRedis::prepare(), folder(), free_port());
    redis.start().await;
    let config = TempFile::new("[envoy]\nheaders = \"legacy\"\n");
    let start = async || {
        let listen = format!("127.0.0.1:{port}");
        let mut command = tollgate(&["serve", "--listen", &listen, "--engine", &redis.url()]);
        command.args(["--config", config.path(), "--envoy-config", rules.text()]);
        Server::spawn(command).await
    };
    let service = start().await;
    let proxy = Proxy::start(&program, "edge", false, "", port).await;
    let (passed, head) = proxy.until("a", 429).await;
    assert!(passed >= 3, "{passed} passed");
    for header in [
        "x-envoy-ratelimited: true",
        "x-ratelimit-limit: 3, 3;w=86400",
        "x-ratelimit-remaining: 0",
        "ratelimit-limit: 3",
        "ratelimit-remaining: 0",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    // Another user has a counter of its own.
    assert_eq!(proxy.get("b").await.0, 200);
    // Without the service the filter lets all requests pass.
    drop(service);
    for _ in 0..5 {
        assert_eq!(proxy.get("a").await.0, 200);
    }
    let _service = start().await;
    proxy.until("a", 429).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_is_a_caller_by_its_certificate() {
    let Some(program) = program() else { return };
    let (ours, rules) = (Authority::new("ours"), folder());
    fs::write(rules.path().join("other.yaml"), RULES.replace("edge", "other")).unwrap();
    let files = Files::new(&ours.server());
    files.write("ca.crt", &ours.pem());
    let own = ours.client("edge", 1);
    files.write("own.crt", &own.cert);
    files.write("own.key", &own.key);
    let config = format!(
        "client_ca = \"DIR/ca.crt\"\nclient_auth = \"required\"\n[envoy]\nconfig = {:?}\n{EDGE_CALLER}",
        rules.text()
    );
    let server = TlsServer::with(files, &config).await;
    let tls = TLS.replace("DIR", server.files.path("").to_str().unwrap().trim_end_matches('/'));
    let edge = Proxy::start(&program, "edge", true, &tls, server.server.port).await;
    edge.until("a", 200).await;
    edge.until("a", 429).await;
    // The caller may not use this domain: the filter refuses requests that it cannot ask about.
    let other = Proxy::start(&program, "other", true, &tls, server.server.port).await;
    for _ in 0..5 {
        assert_eq!(other.get("a").await.0, 500);
    }
}
