//! The admin listener: probes, status, tokens, and peers that misuse it.

use std::time::Duration;

use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::{AdminServer, exchange, get};
use crate::support::{
    certificates::{Authority, Files},
    process::{OwnRedis, Server, free_port, run, tollgate},
    world::World,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_status_names_version_engine_and_configuration() {
    let server = AdminServer::start(&[]).await;
    let (status, text) = server.get("/status").await;
    assert_eq!(status, 200, "{text}");
    let page: serde_json::Value = serde_json::from_str(&text).expect(&text);
    assert_eq!(page["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!([&page["engine"], &page["topology"]], ["embedded", "memory"]);
    assert_eq!([&page["store"], &page["readiness"]], ["up", "ready"]);
    assert!(page["servers"].is_null(), "{text}");
    assert!(page["configuration"]["loaded_micros"].as_u64() > Some(0), "{text}");
    assert_eq!(server.get("/nothing").await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_without_a_token_reject_hosts_that_another_site_can_have() {
    let server = AdminServer::start(&[]).await;
    let get = async |path: &str, host: &str| {
        exchange(server.port, format!("GET {path} HTTP/1.1\r\n{host}\r\n").as_bytes()).await
    };
    for path in ["/metrics", "/status", "/rlconfig"] {
        for host in ["rebound.example", "localhost.rebound.example", "tollgate.prod.example:50052"]
        {
            let (status, reason) = get(path, &format!("Host: {host}\r\n")).await;
            assert!(status == 403 && reason.starts_with("Host must be an address"), "{reason}");
        }
        // Prometheus and probes use an address, or the name of a service. Programs can omit Host.
        for host in [
            "Host: 127.0.0.1:50052\r\n",
            "Host: 10.1.2.3:50052\r\n",
            "Host: tollgate:50052\r\n",
            "Host: tollgate.prod.svc.cluster.local:50052\r\n",
            "Host: host.docker.internal:50052\r\n",
        ] {
            assert_eq!(get(path, host).await.0, 200, "{path} {host}");
        }
        let no_host = format!("GET {path} HTTP/1.0\r\n\r\n");
        assert_eq!(exchange(server.port, no_host.as_bytes()).await.0, 200, "{path}");
    }
    for path in ["/livez", "/readyz", "/healthcheck"] {
        assert_eq!(get(path, "Host: probes.example\r\n").await.0, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_its_store_is_alive_and_not_ready() {
    let mut redis = OwnRedis::prepare();
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let server = AdminServer::start(&["--engine", &url]).await;
    let (status, reason) = server.get("/readyz").await;
    assert_eq!((status, &*reason), (503, "the store is unreachable or cannot be written\n"));
    assert_eq!(server.get("/livez").await, (200, "ok\n".to_owned()));
    redis.start().await;
    server.up().await;
    assert_eq!(server.get("/readyz").await, (200, "ok\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_share_a_machine_although_the_default_port_is_taken() {
    // The server starts even if this test or another program uses the default port.
    let _taken = tokio::net::TcpListener::bind("127.0.0.1:50052").await;
    let mut command = tollgate(&["serve", "--listen", "127.0.0.1:0"]);
    command.env_remove("TOLLGATE_ADMIN");
    let server = Server::spawn(command).await;
    World::at(server.address()).await.admit("pool", "camera", "task").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explicit_address_that_is_taken_is_an_error() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = run(&["serve", "--listen", "127.0.0.1:0", "--admin", &address]).await;
    assert_eq!(ended.status.code(), Some(69), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_others_can_reach_requires_callers_and_their_tokens() {
    let admin = format!("0.0.0.0:{}", free_port());
    let ended = run(&["serve", "--listen", "127.0.0.1:0", "--admin", &admin]).await;
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(78), "{errors}");
    assert!(errors.contains("configure a [[caller]] with the permission read"), "{errors}");

    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--admin", "nonsense"]).await;
    assert_ne!(refused.status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_an_open_address_are_shown_to_callers_that_may_read_everything() {
    // Listens on all addresses of a network namespace that has loopback only, or on all addresses
    // of the machine: the test connects over loopback.
    let files = Files::new(&Authority::new("ours").server());
    let token = |number: u8| format!("{:0>43}", number);
    let caller = |number: u8, more: &str| {
        let digest = tollgate::grpc::access::Digest::compute(token(number).as_bytes()).hex();
        format!("[[caller]]\nname = \"c{number}\"\ntoken_sha256 = [\"{digest}\"]\n{more}\n")
    };
    let text = caller(1, "allow = [\"read\"]\nnamespace = \"*\"")
        + &caller(2, "allow = [\"use\"]\nnamespace = \"*\"")
        + &caller(3, "allow = [\"read\"]\nnamespace = \"acme\"")
        + &caller(4, "allow = [\"read\"]\nnamespace = \"*\"\nservices = [\"rate\"]");
    files.write("callers.toml", &text);
    let port = free_port();
    let admin = format!("[::ffff:127.0.0.1]:{port}");
    let server = Server::start(&["--config", &files.text("callers.toml"), "--admin", &admin]).await;
    let asked = async |path: &str, header: String| get(port, path, &header).await.0;
    let bearer = |number: u8| format!("Authorization: Bearer {}\r\n", token(number));
    for path in ["/metrics", "/status"] {
        assert_eq!(asked(path, String::new()).await, 401, "{path}");
        assert_eq!(asked(path, bearer(1)).await, 200, "{path}");
        for number in [2, 3, 4] {
            assert_eq!(asked(path, bearer(number)).await, 403, "{path}, caller {number}");
        }
        assert_eq!(asked(path, bearer(9)).await, 401, "{path}");
        assert_eq!(asked(path, bearer(1).repeat(2)).await, 401, "{path}");
    }
    assert_eq!(asked("/livez", String::new()).await, 200);
    assert_eq!(asked("/readyz", String::new()).await, 200);
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_that_misuse_the_pages_harm_nobody() {
    let server = AdminServer::start(&[]).await;
    let world = World::at(server.server.address()).await;
    // Slow headers, on as many connections as the listener accepts, and more.
    let mut slow = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX-Slow: ").await;
        slow.push(stream);
    }
    for number in 0..20 {
        world.admit("pool", "camera", &format!("task-{number}")).await;
    }
    drop(slow);
    let all_ended = async {
        while TcpStream::connect(("127.0.0.1", server.port)).await.is_err()
            || get_or_closed(server.port).await != 200
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), all_ended).await.expect("the pages are back");

    let huge = format!("GET /metrics HTTP/1.1\r\nX-Huge: {}\r\n\r\n", "a".repeat(1 << 20));
    let (status, _) = exchange(server.port, huge.as_bytes()).await;
    assert!([0, 400, 431].contains(&status), "{status}");
    let many: String = (0..10_000).map(|number| format!("X-{number}: 1\r\n")).collect();
    let many = format!("GET /metrics HTTP/1.1\r\n{many}\r\n");
    let (status, _) = exchange(server.port, many.as_bytes()).await;
    assert!([0, 400, 431].contains(&status), "{status}");
    let post = b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nabc";
    assert_eq!(exchange(server.port, post).await.0, 405);
    let head = b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_eq!(exchange(server.port, head).await, (200, String::new()));
    let (status, _) = exchange(server.port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert_ne!(status, 200);
    assert_eq!(server.get("/metrics").await.0, 200);
    world.admit("pool", "camera", "last").await;
}

/// Returns the status of a page; 0 if the listener has too many connections.
async fn get_or_closed(port: u16) -> u16 {
    get(port, "/livez", "").await.0
}

/// Connections that never complete a request: as many as the listener accepts, and more.
async fn silent_connections(port: u16, request: &[u8]) -> Vec<TcpStream> {
    let mut all = Vec::new();
    for _ in 0..600 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let _ = stream.write_all(request).await;
        all.push(stream);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_probes_are_answered_while_other_connections_are_unfinished() {
    let server = AdminServer::start(&[]).await;
    let post = "POST /json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{";
    for request in ["", "GET /metrics HTTP/1.1\r\nX-Slow: ", post] {
        let unfinished = silent_connections(server.port, request.as_bytes()).await;
        for path in ["/livez", "/readyz", "/metrics", "/status"] {
            assert_eq!(server.get(path).await.0, 200, "{path} beside {request:?}");
        }
        drop(unfinished);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_a_token_is_checked_before_the_body_is_read() {
    let files = Files::new(&Authority::new("ours").server());
    let token = crate::support::access::Token::new();
    let caller = format!(
        "[[caller]]\nname = \"c\"\ntoken_sha256 = [\"{}\"]\nallow = [\"use\", \"read\"]\n\
         namespace = \"*\"\n",
        token.digest
    );
    files.write("callers.toml", &caller);
    let (port, path) = (free_port(), files.text("callers.toml"));
    let admin = format!("[::ffff:127.0.0.1]:{port}");
    let server = Server::start(&["--config", &path, "--admin", &admin]).await;
    for (path, status) in [("/json", 401), ("/pool", 303), ("/namespace", 303)] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\n{{"
        );
        assert_eq!(exchange(port, request.as_bytes()).await.0, status, "{path}");
    }
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn j31_open_files_are_a_metric_and_a_lack_of_them_is_few_log_lines() {
    let files = Files::new(&Authority::new("ours").server());
    let port = free_port();
    let (admin, program) = (format!("127.0.0.1:{port}"), env!("CARGO_BIN_EXE_tollgate"));
    // The hard limit, which the server cannot raise.
    let script = "ulimit -n 64; exec \"$0\" serve --listen 127.0.0.1:0 --admin \"$1\"";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, program, &admin]).stdin(std::process::Stdio::null());
    command.stderr(std::fs::File::create(files.path("log")).unwrap());
    let server = Server::spawn(command).await;
    files.logged("the server may open fewer files than it may have connections", 1).await;
    let (_, text) = get(port, "/metrics", "").await;
    let scrape = super::Scrape::parse(&text);
    assert_eq!(scrape.value("process_max_fds"), 64.0);
    let open = scrape.value("process_open_fds");
    assert!(open > 5.0 && open < 64.0, "{open}");
    let mut all = Vec::new();
    for _ in 0..100 {
        all.push(TcpStream::connect(("127.0.0.1", server.port)).await.unwrap());
    }
    let start = tollgate_core::time::monotonic();
    files.logged("cannot accept a connection", 1).await;
    // Enough for 20 failed accepts. One line in 10 s is permitted.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lines = files.log().matches("cannot accept a connection").count() as u64;
    assert!(lines <= 2 + start.elapsed().as_secs() / 10, "{lines}");
    drop(all);
    World::at(server.address()).await.admit("pool", "camera", "task").await;
}
